"""Tools that write files, run commands or only read; effects of their calls, turn by turn."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from posixpath import normpath
from typing import Any

from langchain_core.messages import BaseMessage, ToolCall, ToolMessage

from langchain_tokenmem.core.argument_checks import (
    checked,
    checked_choice,
    checked_several,
    described,
)
from langchain_tokenmem.core.facts.call_kinds import (
    TABLES,
    CallKind,
    kind_of_call,
    kind_of_command,
    kind_of_tool,
    path_of,
)
from langchain_tokenmem.core.facts.failures import exit_code_of, failure_of
from langchain_tokenmem.core.messages import MARKS, Group, marks_of
from langchain_tokenmem.core.tool_calls import paired_calls
from langchain_tokenmem.core.turn_memory import (
    MARK,
    GroupOutcome,
    TurnMemoryShown,
    as_turn_memory,
    command_line,
    empty_memory,
    explicit_memory,
    is_empty,
    joined,
    on_one_line,
)
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import FailedCommand, TurnMemory

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
    `mcp__fs__write_file` and `WriteFile` are `write_file`. If a call lacks the argument that is
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
        writes = _checked_table(self.writes, "writes")
        commands = _checked_table(self.commands, "commands")
        reads = frozenset(checked_several(self.reads, str, "reads", _LINE))
        for name in reads & (writes.keys() | commands.keys()):
            raise ConfigurationError(
                f"The tool {name!r} is in reads and in writes or commands: name it in one of them."
            )
        object.__setattr__(self, "writes", _usual("writing_tools", reads) | writes)
        object.__setattr__(self, "commands", _usual("running_tools", reads) | commands)
        object.__setattr__(self, "reads", reads)

    def written_argument(self, tool: str) -> str | None:
        """Return the argument with the file that a tool writes, or None.

        Args:
            tool: Name of the tool, as calls name it.
        """
        return self._argument(self.writes, tool)

    def command_argument(self, tool: str) -> str | None:
        """Return the argument with the command that a tool runs, or None.

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
    """Return the names under which a tool may be in a table, the most exact first.

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


def _checked_table(table: Any, name: str) -> dict[str, str]:
    given = dict(table) if isinstance(table, Mapping) else table
    for key, argument in checked(given, dict, name, _LINE).items():
        if not (isinstance(key, str) and isinstance(argument, str) and key and argument):
            raise ConfigurationError(
                f"{name} holds {described(key)} with {described(argument)}; names of tools with "
                f"names of arguments belong there: {_LINE}."
            )
    return given


def _usual(table: str, reads: Collection[str]) -> dict[str, str]:
    """Return the usual tools of a table, without those that only read."""
    return {name: argument for name, argument in TABLES[table].items() if name not in reads}


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
        kind: What the call does.
        changed: Files that it wrote, deleted or moved; none if its result is an error.
        read: Files that it only looked at.
        command: The command that it ran, on one line; None if it ran none.
        exit_code: Exit code that was reported; None if none was.
    """

    tool: str
    args: Mapping[str, Any]
    call: str
    result: ToolMessage
    kind: CallKind
    changed: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    command: str | None = None
    exit_code: int | None = None


def _own_arguments(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a call: those of a tool that takes one object are in that one.

    Example:
        >>> _own_arguments({"request": {"path": "b.go"}})
        {'path': 'b.go'}
    """
    if len(args) == 1:
        (only,) = args.values()
        return only if isinstance(only, Mapping) else args
    return args


def _plain_paths(found: Sequence[str], root: str | None) -> tuple[str, ...]:
    plain = (plain_path(path, root) for path in found)
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
    """Return a path in a form in which two names of one file are equal; None if it is none.

    `./b.go` is `b.go`. With a root, what lies inside of it is relative to it, and what a relative
    path reaches outside of it is absolute. It is on one line.

    Args:
        path: A path as a tool was given it.
        root: Absolute path of the project; None if it is not known.

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


@dataclass(frozen=True, kw_only=True)
class TurnMemorySettings:
    """Which turns show what they changed and which of their commands failed.

    Args:
        shown: Assistant messages that show it: `when_hidden`, if the turn's calls are not in the
            view any more; `always`; `never`.
        tools: Tools that write files, run commands or only read, beside the usual names.
        project_root: Folder that the paths of changed files are relative to.
        include_partial: Whether interrupted and failed turns have a turn memory, too.

    Raises:
        ConfigurationError: When a setting has the wrong type.

    Example:
        >>> TurnMemorySettings(project_root="/app").shown
        'when_hidden'
    """

    shown: TurnMemoryShown = "when_hidden"
    tools: ToolKinds = field(default_factory=ToolKinds)
    project_root: str | None = None
    include_partial: bool = False

    def __post_init__(self) -> None:
        checked_choice(self.shown, TurnMemoryShown, "turn_memory")
        checked(self.tools, ToolKinds, "tools", 'ToolKinds(writes={"save_page": "path"})')
        if self.project_root is not None:
            checked(self.project_root, str, "project_root", 'project_root="/app"')

    def effects(self, group: Sequence[BaseMessage]) -> list[ToolEffect]:
        """Return the effects of the calls of one group, in the order of the calls.

        Args:
            group: An AI message with its calls and their results, as `core.messages.groups` gives
                it.

        Example:
            >>> from langchain_core.messages import AIMessage
            >>> call = {"name": "edit_file", "args": {"path": "./b.go"}, "id": "1"}
            >>> messages = [AIMessage("", tool_calls=[call]), ToolMessage("ok", tool_call_id="1")]
            >>> TurnMemorySettings().effects(messages)[0].changed
            ('b.go',)
        """
        if len(group) == 1:  # most groups: one message without calls
            return []
        return [
            self._effect(call, message.id or "", result)
            for message, calls in paired_calls(group)
            for call, result in calls
            if result is not None and isinstance(call["args"], dict)
        ]

    def _effect(self, call: ToolCall, source: str, result: ToolMessage) -> ToolEffect:
        tool, args = call["name"], _own_arguments(call["args"])
        kinds, root = self.tools, self.project_root
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
            kind=kind_of_command(command) if command else kind_of_call(tool, args),
            changed=()
            if changed and failure_of(result, CallKind.EDIT)
            else _plain_paths(changed[:_MAX_ITEMS], root),
            read=_plain_paths([read], root),
            command=command_line(command) if command else None,
            exit_code=exit_code_of(result) if command else None,
        )

    def outcomes(self, groups: Sequence[Group]) -> Mapping[str, GroupOutcome]:
        """Return the outcomes of groups, by the id of each one's last message; none for nothing."""
        # Of one message alone, as most are, only its metadata can have a turn memory.
        candidates = (g for g in groups if len(g.messages) > 1 or g.messages[0].response_metadata)
        found = ((group.last_id, self._outcome(group)) for group in candidates)
        return {key: outcome for key, outcome in found if outcome is not None}

    def _outcome(self, group: Group) -> GroupOutcome | None:
        """Return the outcome of a group; None if a turn memory has nothing to report."""
        if len(group.messages) == 1:
            explicit = explicit_memory(group.messages[0])
            if explicit is None:
                return None
            return GroupOutcome(explicit=_with_plain_paths(explicit, self.project_root))
        memory, results = empty_memory(), []
        for effect in self.effects(group.messages):
            made = joined(_memory_of(effect), self._of_sub_agent(effect.result))
            if not is_empty(made):
                results.append(effect.result.id or "")
                memory = joined(memory, made)
        return None if is_empty(memory) else GroupOutcome(memory, tuple(results))

    def _of_sub_agent(self, result: ToolMessage) -> TurnMemory:
        """Return the turn memory of a sub-agent: that in the marks or artifact of its result."""
        places = [marks_of(result), result.artifact]
        if isinstance(result.artifact, Mapping):
            places.append(result.artifact.get(MARKS))
        for place in places if result.status != "error" else ():
            if isinstance(place, Mapping) and MARK in place:
                return _with_plain_paths(as_turn_memory(place[MARK]), self.project_root)
        return empty_memory()


def _memory_of(effect: ToolEffect) -> TurnMemory:
    failed: list[FailedCommand] = []
    if effect.command and effect.exit_code:
        failed.append({"command": effect.command, "exit_code": effect.exit_code})
    return {"files_changed": [*effect.changed], "failed_commands": failed}


def _with_plain_paths(memory: TurnMemory, project_root: str | None) -> TurnMemory:
    return {**memory, "files_changed": [*_plain_paths(memory["files_changed"], project_root)]}
