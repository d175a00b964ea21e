"""Lines of keys in a YAML or TOML file, for errors and for `tokenmem config`.

Neither library keeps them with the values. YAML's nodes have marks. TOML is parsed line by line: a
key stands behind the last beginning of the file that parses without it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

import yaml

from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.settings.schema import Path


def lines_of(file: File) -> dict[Path, int]:
    """Return the line of every key of a file that can be read, counted from 1.

    Raises:
        ConfigurationError: When a key stands there twice. TOML's own parser refuses that, too.
    """
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".toml":
        return _toml_lines(text)
    found: dict[Path, int] = {}
    for path, line in _yaml_lines(yaml.compose(text, Loader=yaml.SafeLoader), ()):
        if path in found and path[-1] != "<<":
            raise ConfigurationError(
                f"{file}:{line}: {'.'.join(path)} is given twice, there and at line {found[path]}; "
                f"give it once."
            )
        found[path] = line
    return found


def _yaml_lines(node: Any, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            yield inner, key.start_mark.line + 1
            yield from _yaml_lines(value, inner)


def _toml_lines(text: str) -> dict[Path, int]:
    lines = text.splitlines(keepends=True)
    found: dict[Path, int] = {}
    start = 1
    for number in range(1, len(lines) + 1):
        try:
            there = tomllib.loads("".join(lines[:number]))
        except tomllib.TOMLDecodeError:  # in the middle of a value of several lines
            continue
        for path in _paths(there, ()):
            found.setdefault(path, start)
        start = number + 1
    return found


def _paths(table: Any, path: Path) -> Iterator[Path]:
    if isinstance(table, dict):
        for key, value in table.items():
            yield (*path, key)
            yield from _paths(value, (*path, key))
