"""Turn memory: files that a turn changed and commands that failed, from effects of its calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.messages import Group, call_ids, marked, marks_of, role_of
from langchain_tokenmem.notes_state import FailedCommand, TurnMemory

MARK = "turn_memory"
"""Name of the mark that holds a message's turn memory."""

DERIVED_MARK = "turn_memory_derived"
"""Mark of a turn memory that was read from the transcript, and not set by the application."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")

MAX_COMMAND = 200
"""Characters of a command that are kept, on one line."""

_MOST = 500
"""Files, and failed commands, of one turn that are kept."""

ReadOutcomes = Callable[[Sequence[Group]], Mapping[str, "GroupOutcome"]]
"""Reads the outcomes of groups, by the id of each one's last message; none where there is none."""

TurnMemoryShown = Literal["when_hidden", "always", "never"]
"""Assistant messages that show their turn memory: those whose calls are not in the view any more,
all, or none."""


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """Outcome of one group, as far as a turn memory tells it.

    Attributes:
        memory: Files that its calls changed, commands that failed; None where there are none.
        results: Ids of the results that tell it.
        explicit: Turn memory that the application has set; None where it has set none.
    """

    memory: TurnMemory | None = None
    results: tuple[str, ...] = ()
    explicit: TurnMemory | None = None


def no_outcomes(_groups: Sequence[Group]) -> Mapping[str, GroupOutcome]:
    """Return no outcomes: nothing is read."""
    return {}


@dataclass(frozen=True, slots=True)
class TurnReading:
    """Settings by which turn memories are read and shown.

    Attributes:
        outcomes: Reads the outcomes of groups.
        shown: Assistant messages that show their turn memory.
        include_partial: Whether interrupted turns have one, too.
    """

    outcomes: ReadOutcomes = no_outcomes
    shown: TurnMemoryShown = "never"
    include_partial: bool = False


def empty_memory() -> TurnMemory:
    """Return a turn memory that tells nothing."""
    return {"files_changed": [], "failed_commands": []}


def is_empty(memory: TurnMemory) -> bool:
    """Return whether a turn memory tells nothing."""
    return not (memory["files_changed"] or memory["failed_commands"])


def joined(earlier: TurnMemory, later: TurnMemory) -> TurnMemory:
    """Return the turn memory of two parts of a turn."""
    files = dict.fromkeys((*earlier["files_changed"], *later["files_changed"]))
    failed = [*earlier["failed_commands"], *later["failed_commands"]]
    return {"files_changed": [*files][:_MOST], "failed_commands": failed[:_MOST]}


def united(kept: TurnMemory, read: TurnMemory) -> TurnMemory:
    """Return a kept turn memory with what was read again of the same turn: nothing stands twice."""
    known = Counter(map(_plain, kept["failed_commands"]))
    new: list[FailedCommand] = []
    for failed in read["failed_commands"]:
        if known[_plain(failed)] > 0:
            known[_plain(failed)] -= 1
        else:
            new.append(failed)
    return joined(kept, {"files_changed": read["files_changed"], "failed_commands": new})


def explicit_memory(message: BaseMessage) -> TurnMemory | None:
    """Return the turn memory that the application has set on an assistant's message.

    None where it has set none; one that tells nothing where it says so.
    """
    if not message.response_metadata or role_of(message) != "ai":
        return None
    marks = marks_of(message)
    if MARK not in marks or DERIVED_MARK in marks:
        return None
    return as_turn_memory(marks[MARK])


def with_turn_mark(message: BaseMessage, memory: TurnMemory) -> BaseMessage:
    """Return a message that tells its turn memory in its metadata, as it was read."""
    if MARK in marks_of(message):
        return message
    return marked(message, **{MARK: memory, DERIVED_MARK: True})


def is_final(message: BaseMessage) -> bool:
    """Return whether a message of the model may end a turn: it says something and calls nothing."""
    if role_of(message) != "ai" or (isinstance(message, AIMessage) and call_ids(message)):
        return False
    return bool(message.content)


def as_turn_memory(value: Any) -> TurnMemory:
    """Return what an application gives as a turn memory in the form of one, each item on one line.

    What is no file and no failed command is left out.
    """
    if not isinstance(value, Mapping):
        return empty_memory()
    files, failed = value.get("files_changed"), value.get("failed_commands")
    paths = [
        line
        for path in (files if isinstance(files, list) else [])[:_MOST]
        if isinstance(path, str) and (line := on_one_line(path))
    ]
    commands: list[FailedCommand] = [
        {"command": command_line(item["command"]), "exit_code": item["exit_code"]}
        for item in (failed if isinstance(failed, list) else [])[:_MOST]
        if isinstance(item, Mapping)
        and isinstance(item.get("command"), str)
        and type(item.get("exit_code")) is int
        and item["exit_code"] != 0
    ]
    return {"files_changed": [*dict.fromkeys(paths)], "failed_commands": commands}


def on_one_line(name: str) -> str:
    """Return the name of a file without line breaks and other control characters."""
    return _CONTROL.sub(" ", name).strip()


def command_line(command: str) -> str:
    """Return a command on one line, its end cut off where it is too long."""
    line = " ".join(command[: 20 * MAX_COMMAND].split())
    return line if len(line) <= MAX_COMMAND else f"{line[: MAX_COMMAND - 1]}…"


def _plain(failed: FailedCommand) -> tuple[str, int]:
    return failed["command"], failed["exit_code"]
