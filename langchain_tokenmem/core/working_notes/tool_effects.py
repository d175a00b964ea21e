"""Effects of tool calls: files read and changed, by paths in one form; commands, exit codes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from posixpath import normpath
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage

from langchain_tokenmem.core.facts.call_kinds import TABLES, CallKind, kind_of_tool, path_of
from langchain_tokenmem.core.messages import call_ids
from langchain_tokenmem.core.tool_calls import uniform_calls
from langchain_tokenmem.core.tool_failures import exit_code_of, is_refused
from langchain_tokenmem.core.turn_memory import command_line, on_one_line
from langchain_tokenmem.core.working_notes.tool_kinds import ToolKinds

_ARGUMENTS, _FILE_ARGUMENTS = TABLES["write_arguments"], TABLES["arguments"]["file"]
_LOOKING = frozenset(TABLES["looking"]["commands"])
_COMMAND_ARGUMENTS = TABLES["arguments"]["command"]
_SEVERAL_COMMANDS = "commands"
"""Argument that holds commands, not the words of one: that of LangChain's `ShellTool`."""
_MAX_ITEMS = 200
_SHELL = re.compile(r"(?:\S*/)?(?:ba|z|da|k)?sh")
_SHELL_OPTIONS = (["-c"], ["-lc"], ["-ic"])
_PATCH_BEGINS = "*** Begin Patch"
_PATCHED = re.compile(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)[ \t]*$"
    r"|^rename (?:from|to) (.+?)\r?$"
    # Both names and a hunk: a removed line that begins with `-- ` is no name of a file.
    r"|^--- (?:[ab]/)?([^\t\r\n]+).*\n\+\+\+ (?:[ab]/)?([^\t\r\n]+).*\n(?=@@)",
    re.MULTILINE,
)
_NO_FILE = "/dev/null"

_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_LONGEST = 400
"""Characters from which an argument is no path, but a text."""


@dataclass(frozen=True, slots=True)
class ToolEffect:
    """The effect of one tool call whose result is there.

    Attributes:
        tool: Name of the tool.
        args: Its arguments.
        call: Id of the message that made the call.
        result: The message that holds its result.
        changed: Files that it wrote, deleted or moved; none where its result is an error.
        read: Files that it only looked at.
        command: The command that it ran, on one line; None where it ran none.
        exit_code: Exit code that was reported; None where none was.
    """

    tool: str
    args: Mapping[str, Any]
    call: str
    result: ToolMessage
    changed: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    command: str | None = None
    exit_code: int | None = None


def effects_of(
    group: Sequence[BaseMessage], kinds: ToolKinds, project_root: str | None
) -> list[ToolEffect]:
    """Return the effects of the calls of one group, in the order of the calls.

    Args:
        group: An AI message with its calls and their results, as `core.messages.groups` gives it.
        kinds: Tools that write files, run commands or only read.
        project_root: Folder that paths are relative to; None where none is known.

    Example:
        >>> call = {"name": "edit_file", "args": {"path": "./b.go"}, "id": "1"}
        >>> messages = [AIMessage("", tool_calls=[call]), ToolMessage("ok", tool_call_id="1")]
        >>> effects_of(messages, ToolKinds(), None)[0].changed
        ('b.go',)
    """
    if len(group) == 1:  # most groups: one message without calls
        return []
    messages = uniform_calls(group)
    results: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            results.setdefault(message.tool_call_id, message)
    return [
        _effect(call, message.id or "", results[key], kinds, project_root)
        for message in messages
        if isinstance(message, AIMessage)
        for call, key in zip(message.tool_calls, call_ids(message), strict=False)
        if key in results
    ]


def _own_arguments(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a call: those of a tool that takes one object stand in that one.

    Example:
        >>> _own_arguments({"request": {"path": "b.go"}})
        {'path': 'b.go'}
    """
    if len(args) == 1:
        (only,) = args.values()
        return only if isinstance(only, Mapping) else args
    return args


def _effect(
    call: ToolCall, source: str, result: ToolMessage, kinds: ToolKinds, root: str | None
) -> ToolEffect:
    """Return the effect of one call."""
    tool, args = call["name"], _own_arguments(call["args"])
    writes, runs = kinds.written_argument(tool), kinds.command_argument(tool)
    looks = writes is not None and str(args.get("command", "")).lower() in _LOOKING
    command = _command(args, runs) if runs else None
    changed: Sequence[str] = ()
    if writes and not looks:
        changed = _written(args, writes)
    elif command and _PATCH_BEGINS in command:
        changed = _patched(command)
    is_reader = looks or kinds.only_reads(tool) or (not writes and not runs)
    read = ""
    if is_reader and (looks or kind_of_tool(tool) in {CallKind.READ, CallKind.SEARCH}):
        read = path_of(args, "file") or ""
    return ToolEffect(
        tool=tool,
        args=args,
        call=source,
        result=result,
        changed=() if changed and is_refused(result) else _plain_paths(changed, root),
        read=_plain_paths([read], root),
        command=command_line(command) if command else None,
        exit_code=exit_code_of(result) if command else None,
    )


def _plain_paths(found: Sequence[str], root: str | None) -> tuple[str, ...]:
    plain = (plain_path(path, root) for path in found[:_MAX_ITEMS])
    return tuple(dict.fromkeys(path for path in plain if path))


def _written(args: Mapping[str, Any], argument: str) -> list[str]:
    """Return the files that a writing call names: the source of a move first, those of a patch."""
    sources = next((_texts(args[key]) for key in _ARGUMENTS["source"] if key in args), [])
    names = (argument, *_FILE_ARGUMENTS, *_ARGUMENTS["target"], *_ARGUMENTS["several"])
    given = ((key, found) for key in names if key in args and (found := _texts(args[key])))
    key, targets = next(given, ("", []))
    is_text = key in _ARGUMENTS["patch"] and "\n" in targets[0]
    if is_text or (targets and _PATCHED.search(targets[0])):
        return _patched(targets[0])
    if not targets:
        patches = [
            text
            for key, text in args.items()
            if isinstance(text, str) and (key in _ARGUMENTS["patch"] or _PATCH_BEGINS in text[:80])
        ]
        targets = [path for patch in patches for path in _patched(patch)]
    return [*sources, *targets]


def _texts(value: Any) -> list[str]:
    """Return a path, or the paths of a list or of the files in it."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list | dict):
        return []
    found: list[str] = []
    for item in value[:_MAX_ITEMS] if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            item = next((item[key] for key in _FILE_ARGUMENTS if key in item), None)  # noqa: PLW2901
        if isinstance(item, str):
            found.append(item)
    return found


def _patched(patch: str) -> list[str]:
    found = (name for match in _PATCHED.finditer(patch) for name in match.groups())
    return [name.strip() for name in found if name and name != _NO_FILE]


def _command(args: Mapping[str, Any], argument: str) -> str | None:
    """Return the command of a call; of `["bash", "-lc", "make"]` that is `make`."""
    keys = (argument, *_COMMAND_ARGUMENTS)
    key, value = next(((key, args[key]) for key in keys if args.get(key)), ("", None))
    if isinstance(value, list):
        words = [str(word) for word in value[:_MAX_ITEMS]]
        if key == _SEVERAL_COMMANDS:
            return "; ".join(words)
        is_shell = _SHELL.fullmatch(words[0] if words else "") and words[1:2] in _SHELL_OPTIONS
        value = " ".join(words[2:] if is_shell else words)
    return value if isinstance(value, str) and value.strip() else None


def plain_path(path: str, root: str | None) -> str | None:
    """Return a path in a form in which two names of one file are equal; None where it is none.

    `./b.go` is `b.go`. With a root, what lies inside of it is relative to it, and what a relative
    path reaches outside of it is absolute. It stands on one line.

    Args:
        path: A path as a tool was given it.
        root: Absolute path of the project; None where it is not known.

    Example:
        >>> plain_path("/app/src/../b.go", "/app"), plain_path("./b.go", None)
        ('b.go', 'b.go')
    """
    path = on_one_line(path.removeprefix("file://"))
    if not path or len(path) > _LONGEST:
        return None
    is_windows = bool(_DRIVE.match(root or path))
    kind: type[PurePath] = PureWindowsPath if is_windows else PurePosixPath
    whole = _without_dots(kind(path) if root is None else kind(root, path), kind)
    base = _without_dots(kind(root), kind) if root is not None else None
    if base is not None and whole.is_relative_to(base):
        whole = whole.relative_to(base)
    shown = whole.as_posix()
    return None if shown == "." else shown


def _without_dots(path: PurePath, kind: type[PurePath]) -> PurePath:
    return kind(normpath(path.as_posix()))
