"""Kinds of tool calls, by the words of the tool and its command, and what a call is about.

The words are in `tool_kinds.toml`; a tool that no list knows is of the kind `OTHER`.
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
_PART_END = re.compile(r"&&|\|\|?|;|\n")
_BEFORE_COMMAND = re.compile(r"(?:(?:sudo|time|xargs|do|then|else|\w{1,40}=\S{0,80}|[({])\s+){1,5}")
_REDIRECTED = re.compile(r"(?<![0-9&])>(?!\s*/dev/null)|<<")
_IN_PLACE = re.compile(r"sed\b.*\s-(?:\w*i|-in-place)|sort\b.*\s-o\b")
"""A command that reads unless an option lets it write its file."""
_MOST_READ = 2_000
"""Characters of a command that are read for its kind."""
_COMMAND_END = re.compile(r"(?<=[^\s\\;:&|({])[^\S\n]*\n\s*(?=\S)")
"""The end of a line of a script, unless the next one is part of the same command."""
_ONE_COMMAND = re.compile(
    r"\s*(?:--|/\*|(?:select|insert|update|delete|create|alter|with)\b)", re.IGNORECASE
)
"""The beginning of an SQL statement; its lines are not separate commands."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_LONGEST_NAME = 80


class CallKind(Enum):
    """Kind of a tool call: it reads, edits, runs or searches something, or does anything else."""

    READ = "read"
    EDIT = "edit"
    RUN = "run"
    SEARCH = "search"
    OTHER = "other"


_BY_WORD = {word: CallKind(kind) for kind, words in TABLES["words"].items() for word in words}
_ANSWERS = frozenset(TABLES["answers"]["words"])
_BY_COMMAND = {word: CallKind(kind) for kind, words in TABLES["commands"].items() for word in words}


def kind_of_tool(name: str) -> CallKind:
    """Return the kind of a tool by the words of its name.

    Example:
        >>> kind_of_tool("getUserDetails"), kind_of_tool("str_replace_editor")
        (<CallKind.READ: 'read'>, <CallKind.EDIT: 'edit'>)
    """
    words = [word.lower() for word in _NAME_WORD.findall(name[:_LONGEST_NAME])]
    known = next((_BY_WORD[word] for word in words if word in _BY_WORD), None)
    return known or (CallKind.OTHER if _ANSWERS.isdisjoint(words) else CallKind.READ)


def kind_of_command(command: str) -> CallKind:
    """Return the kind of a shell command; of several, of the one that does most.

    A part that writes a file by `>` is run; one that only moves to a folder counts for nothing.

    Example:
        >>> kind_of_command("cd /app && git log -3 | head"), kind_of_command("cat a.py && make")
        (<CallKind.READ: 'read'>, <CallKind.RUN: 'run'>)
    """
    whole = _QUOTED.sub("''", command[:_MOST_READ])
    parts = (_kind_of_part(part.strip()) for part in _PART_END.split(whole))
    kinds = [kind for kind in parts if kind]
    if not kinds or CallKind.RUN in kinds:
        return CallKind.RUN
    return CallKind.EDIT if CallKind.EDIT in kinds else kinds[0]


def _kind_of_part(part: str) -> CallKind | None:
    """Return the kind of a single command; None if it does nothing, such as `cd`."""
    part = _BEFORE_COMMAND.sub("", part, count=1)
    words = part.split(None, 2)[:2]
    if not words or words[0] in TABLES["no_effect"]["shell"]:
        return None
    if _IN_PLACE.match(part):
        return CallKind.EDIT
    kind = _BY_COMMAND.get(" ".join(words)) or _BY_COMMAND.get(words[0], CallKind.RUN)
    is_written = kind is not CallKind.EDIT and _REDIRECTED.search(part)
    return CallKind.RUN if is_written else kind


def _command_of(name: str, args: Mapping[str, object]) -> str | None:
    """Return the command, script or statement that a call runs, as a text; else `None`."""
    if kind_of_tool(name) is not CallKind.RUN:
        return None
    value = next((args[key] for key in TABLES["arguments"]["command"] if key in args), None)
    if isinstance(value, list):
        return " ".join(map(str, value[:50]))
    return value if isinstance(value, str) and value.strip() else None


def kind_of_call(name: str, args: Mapping[str, object]) -> CallKind:
    """Return the kind of a call by its command, by the command of an editor, or by the tool.

    One that runs something without a command or script is of the kind `OTHER`.

    Example:
        >>> kind_of_call("bash", {"command": "ls"})
        <CallKind.READ: 'read'>
    """
    action = args.get("command")
    if isinstance(action, str) and action.isidentifier() and path_of(args):
        return kind_of_tool(action)
    kind, command = kind_of_tool(name), _command_of(name, args)
    if command:
        return kind_of_command(command)
    return CallKind.OTHER if kind is CallKind.RUN else kind


def script_line(script: str) -> str:
    r"""Return a command or script on one line, with `; ` between its lines.

    Example:
        >>> script_line("cd app\nmake all")
        'cd app; make all'
    """
    if _ONE_COMMAND.match(script) or "<<" in script:
        return " ".join(script.split())
    whole = _QUOTED.sub(lambda found: " ".join(found[0].split()), script)
    return " ".join(_COMMAND_END.sub("; ", whole).split())


def path_of(args: Mapping[str, object], names: str = "path") -> str | None:
    """Return the file or folder that a call is about, or `None`.

    Args:
        args: Arguments of the call.
        names: Which ones are read: `path`, or `file` for those that never name a folder.
    """
    for key in TABLES["arguments"][names]:
        value = args.get(key)
        if isinstance(value, str) and ("/" in value or "." in value):
            return value
    return None
