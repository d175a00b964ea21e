"""Keys and values in the result of a tool: of JSON, Python's objects, YAML and records."""

from __future__ import annotations

import json
import re
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import yaml

from langchain_tokenmem.core.tool_failures import MAX_JSON
from langchain_tokenmem.summarize.whole_pieces import without_line_breaks

_JSON_LINE = re.compile(r"^[{\[]", re.MULTILINE)
_AROUND = 300
"""Maximum characters before and after the JSON of a result: what a server says about it."""
_PYTHON = re.compile(r"[\[({]{1,3}'")
"""Beginning of the objects that a tool in Python returns as their text."""
_YAML = re.compile(r"(?:- )?[A-Za-z_][\w ]{0,30}:(?: |\n)")
_LONGEST_YAML = 50_000
_YAML_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""It makes each scalar a text, as it was written; the one in C is ten times as fast."""
_RECORD = re.compile(r"(?:- | {2,})?([A-Za-z_][\w ]{0,30}): (\S.*)")
_RECORDS_SHARE = 0.6
_FEWEST_KEYS = 3
_MOST_SCALARS, _DEEPEST = 500, 8
_SCALAR = 60
"""Maximum characters of a value that may be shown."""
_NO_VALUES = frozenset({"", "[]", "{}", "null", "none", "~", "true", "false", "|", ">", "-"})
_NOT_SHOWN = frozenset({"type", "object", "annotations", "meta", "isError", "isFile"})
"""Keys that carry no information."""


def values_in(text: str) -> tuple[list[tuple[str, str]], str] | None:
    r"""Return the short values of a result with their keys, and its size; None for other texts.

    Example:
        >>> values_in('2 rows: [{"id": 7, "name": "Ann"}]')
        >>> values_in('2 rows:\n[{"id": 7, "name": "Ann"}, {"id": 8, "name": "Bo"}]')
        ([('id', '7'), ('name', 'Ann'), ('id', '8'), ('name', 'Bo')], '2 records')
    """
    data = _data_in(text)
    if data is None:
        return _records_in(text)
    pairs = [*scalars_in(data)]
    if len(pairs) > 1:
        return pairs, _size_of(data, len(pairs))
    short = "=".join(filter(None, pairs[0])) if pairs else as_json(data)
    is_one = any(map(str.isalnum, short)) and ", " not in short and len(short) <= _SCALAR
    return pairs, short if is_one else "nothing"


def scalars_in(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the short scalars of some data with their keys, each pair once."""
    seen: set[tuple[str, str]] = set()
    for pair in _leaves(value, "", 0):
        if pair not in seen:
            seen.add(pair)
            yield pair
        if len(seen) >= _MOST_SCALARS:
            return


def _leaves(value: Any, key: str, depth: int) -> Iterator[tuple[str, str]]:
    if key in _NOT_SHOWN or depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        for inner, one in value.items():
            yield from _leaves(one, str(inner), depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for one in value:
            yield from _leaves(one, key, depth + 1)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        text = without_line_breaks(str(value))
        if len(text) <= _SCALAR and text.lower() not in _NO_VALUES:
            yield key, text


def _data_in(text: str) -> Any:
    """Return the data that a result is, or JSON between a few introductory and final words."""
    if len(text) > MAX_JSON:
        return None
    start = _JSON_LINE.search(text, 0, _AROUND)
    with suppress(ValueError, RecursionError):
        if start is not None:
            data, end = json.JSONDecoder().raw_decode(text, start.start())
            return data if len(text) - end <= _AROUND else None
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        if _PYTHON.match(text):
            return literal_eval(text)
    return _yaml_in(text) if _YAML.match(text) and len(text) <= _LONGEST_YAML else None


def _yaml_in(text: str) -> Any:
    """Return the records of YAML, or an object with several keys; of other texts None."""
    with suppress(yaml.YAMLError, ValueError, RecursionError):
        events = yaml.parse(text, Loader=_YAML_LOADER)
        if any(isinstance(event, yaml.AliasEvent) for event in events):
            return None  # a few of them can repeat a part of it a million times
        data = yaml.load(text, Loader=_YAML_LOADER)  # noqa: S506  it makes texts, no objects
        is_object = isinstance(data, dict) and len(data) >= _FEWEST_KEYS
        return data if is_object or _are_records(data) else None
    return None


def _are_records(data: Any) -> bool:
    return isinstance(data, list) and bool(data) and all(isinstance(one, dict) for one in data)


def _records_in(text: str) -> tuple[list[tuple[str, str]], str] | None:
    """Return values and size of a text that has mostly lines such as `Author: Ann`."""
    lines = [line for line in text[:MAX_JSON].splitlines() if line.strip()]
    found = [match for line in lines if (match := _RECORD.fullmatch(line))]
    if len(found) <= max(2, _RECORDS_SHARE * len(lines)):
        return None
    pairs = [(m[1].strip(), value) for m in found if (value := _record_value(m[2]))]
    count = sum(line.startswith("- ") for line in lines)
    size = counted(count, "record") if count else counted(len(found), "value")
    return [*dict.fromkeys(pairs)][:_MOST_SCALARS], size


def _record_value(text: str) -> str:
    """Return the value of a line `key: value`; empty if it is long or continues below."""
    value = without_line_breaks(text)
    if len(value) > 1 and value[0] in "'\"":
        value = value[1:-1] if value[-1] == value[0] else ""
    return value if len(value) <= _SCALAR and value.lower() not in _NO_VALUES else ""


def _size_of(data: Any, pairs: int) -> str:
    return counted(len(data), "record") if _are_records(data) else counted(pairs, "value")


def counted(count: int, of: str) -> str:
    """Return a number of things, such as `2 lines`."""
    return f"{count} {of}{'' if count == 1 else 's'}"


def as_json(value: object) -> str:
    """Return some data as JSON on one line; what JSON cannot hold as Python writes it."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):
        return str(value)
