"""Kinds of tool calls, and what each call is about: its path, or its command.

The words stand in `tool_kinds.toml`; a tool that no list knows is of the kind `OTHER`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from enum import Enum
from importlib.resources import files

TABLES = tomllib.loads(files(__package__).joinpath("tool_kinds.toml").read_text(encoding="utf-8"))
"""Tables of tools, commands and arguments, by name."""

_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CHANGE_DIRECTORY = re.compile(r"\s*cd\s+\S+\s*(?:&&|;)\s*")
_REDIRECTED = re.compile(r"(?<![0-9&])>|\btee\b|<<")
_LONGEST_NAME = 80


class CallKind(Enum):
    """Kind of a tool call: it reads, edits, runs or searches something, or does anything else."""

    READ = "read"
    EDIT = "edit"
    RUN = "run"
    SEARCH = "search"
    OTHER = "other"


_BY_WORD = {word: CallKind(kind) for kind, words in TABLES["words"].items() for word in words}
_BY_COMMAND = {word: CallKind(kind) for kind, words in TABLES["commands"].items() for word in words}


def kind_of_tool(name: str) -> CallKind:
    """Return the kind of a tool by the words of its name.

    Example:
        >>> kind_of_tool("getUserDetails"), kind_of_tool("str_replace_editor")
        (<CallKind.READ: 'read'>, <CallKind.EDIT: 'edit'>)
    """
    words = [word.lower() for word in _NAME_WORD.findall(name[:_LONGEST_NAME])]
    return next((_BY_WORD[word] for word in words if word in _BY_WORD), CallKind.OTHER)


def kind_of_command(command: str) -> CallKind:
    """Return the kind of a shell command by its first words; one that writes a file is run.

    Example:
        >>> kind_of_command("cd /app && git log -3"), kind_of_command("make test")
        (<CallKind.READ: 'read'>, <CallKind.RUN: 'run'>)
    """
    command = _CHANGE_DIRECTORY.sub("", command[:400], count=1)
    first = command.split(None, 2)[:2]
    kind = _BY_COMMAND.get(" ".join(first)) or _BY_COMMAND.get(first[0] if first else "")
    if kind in (None, CallKind.EDIT):
        return kind or CallKind.RUN
    return CallKind.RUN if _REDIRECTED.search(command) else kind or CallKind.RUN


def command_of(name: str, args: Mapping[str, object]) -> str | None:
    """Return the command, script or statement that a call runs, as a text; else `None`."""
    if kind_of_tool(name) is not CallKind.RUN:
        return None
    value = next((args[key] for key in TABLES["arguments"]["command"] if key in args), None)
    if isinstance(value, list):
        return " ".join(map(str, value[:50]))
    return value if isinstance(value, str) and value.strip() else None


def path_of(args: Mapping[str, object], names: str = "path") -> str | None:
    """Return the file or folder that a call is about, or `None`.

    Args:
        args: Arguments of the call.
        names: Which ones are looked at: `path`, or `file` for those that never name a folder.
    """
    for key in TABLES["arguments"][names]:
        value = args.get(key)
        if isinstance(value, str) and ("/" in value or "." in value):
            return value
    return None
