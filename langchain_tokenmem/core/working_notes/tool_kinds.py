"""`ToolKinds`: which tools write files, run commands or only read, and by which argument."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from langchain_tokenmem.core.argument_checks import described
from langchain_tokenmem.core.facts.call_kinds import TABLES
from langchain_tokenmem.errors import ConfigurationError

_SEPARATORS = re.compile(r"__|[-.:/ ]")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LONGEST_NAME = 80
_MAX_NAMES = 1_024
_LINE = (
    'ToolKinds(writes={"save_page": "page_path"}, commands={"run_job": "script"}, '
    'reads={"preview_edit"})'
)


@dataclass(frozen=True)
class ToolKinds:
    """Tools whose effects are kept, by name; what is given is added to the usual names.

    A tool is found with the prefix of an MCP server, too: `filesystem-write_file`,
    `mcp__fs__write_file` and `WriteFile` are `write_file`. Where a call lacks the argument that is
    named, another usual one counts: `path`, `file_path`, `filename` and such for a file.

    Args:
        writes: Argument that names the file, by the name of a tool that writes, moves or deletes.
        commands: Argument that holds the command, by the name of a tool that runs one.
        reads: Names of tools that only read: they neither write nor run anything.

    Raises:
        ConfigurationError: When a table is of another form, or a tool both writes and only reads.

    Example:
        >>> kinds = ToolKinds(writes={"save_page": "page_path"})
        >>> kinds.written_argument("save_page"), kinds.written_argument("mcp__fs__edit_file")
        ('page_path', 'path')
    """

    writes: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    reads: Collection[str] = ()

    def __post_init__(self) -> None:
        writes, commands = _checked(self.writes, "writes"), _checked(self.commands, "commands")
        reads = _checked_names(self.reads)
        for name in reads & (writes.keys() | commands.keys()):
            raise ConfigurationError(
                f"The tool {name!r} stands in reads and in writes or commands; one of them holds."
            )
        object.__setattr__(self, "writes", _without(reads, TABLES["writing_tools"]) | writes)
        object.__setattr__(self, "commands", _without(reads, TABLES["running_tools"]) | commands)
        object.__setattr__(self, "reads", reads)

    def written_argument(self, tool: str) -> str | None:
        """Return the argument that names the file which a tool writes; None where it writes none.

        Args:
            tool: Name of the tool, as calls name it.
        """
        return self._argument(self.writes, tool)

    def command_argument(self, tool: str) -> str | None:
        """Return the argument that holds the command which a tool runs; None where it runs none.

        Args:
            tool: Name of the tool, as calls name it.
        """
        return self._argument(self.commands, tool)

    def only_reads(self, tool: str) -> bool:
        """Return whether the application says that a tool only reads."""
        return bool(self.reads) and any(name in self.reads for name in _names_of(tool))

    def _argument(self, table: Mapping[str, str], tool: str) -> str | None:
        if self.only_reads(tool):
            return None
        return next((table[name] for name in _names_of(tool) if name in table), None)


@lru_cache(maxsize=_MAX_NAMES)
def _names_of(tool: str) -> tuple[str, ...]:
    """Return the names under which a tool may stand in a table, the most exact first.

    A prefix that ends with `_` is left out of names of several words only: `sql_execute` is not
    `execute`.
    """
    tool = tool[:_LONGEST_NAME]
    return tuple(dict.fromkeys((tool, *_suffixes(tool))))


def _suffixes(tool: str) -> Iterator[str]:
    parts = [part for part in _SEPARATORS.split(tool) if part]
    plain = [_CAPITAL.sub("_", part).lower() for part in parts]
    for start in range(len(parts)):
        yield "_".join(parts[start:])
        yield "_".join(plain[start:])
    words = "_".join(plain[-1:]).split("_")
    for start in range(1, len(words) - 1):
        yield "_".join(words[start:])


def _checked(table: Any, name: str) -> dict[str, str]:
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{name} is {described(table)}; a dict belongs there: {_LINE}.")
    for key, value in table.items():
        if not (isinstance(key, str) and isinstance(value, str) and key and value):
            raise ConfigurationError(
                f"{name} holds {described(key)} with {described(value)}; names of tools with names "
                f"of arguments belong there: {_LINE}."
            )
    return dict(table)


def _checked_names(names: Any) -> frozenset[str]:
    if isinstance(names, str | bytes) or not isinstance(names, Collection):
        raise ConfigurationError(f"reads is {described(names)}; a set belongs there: {_LINE}.")
    for name in names:
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"reads holds {described(name)}; it holds names: {_LINE}.")
    return frozenset(names)


def _without(names: Collection[str], table: Mapping[str, str]) -> dict[str, str]:
    return {name: argument for name, argument in table.items() if name not in names}
