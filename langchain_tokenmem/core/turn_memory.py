"""Turn memory: files that a turn changed and commands that failed, as data and as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.block_types import joined_content
from langchain_tokenmem.core.facts.call_kinds import script_line
from langchain_tokenmem.core.inserted_text import FENCES, without_fences
from langchain_tokenmem.core.messages import call_ids, marked, marks_of, role_of
from langchain_tokenmem.state import FailedCommand, TurnMemory

MARK = "turn_memory"
"""Name of the mark with a message's turn memory."""

DERIVED_MARK = "turn_memory_derived"
"""Mark of a turn memory that was derived from the transcript, not set by the application."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")

MAX_COMMAND = 200
"""Maximum characters of a command, on one line."""

_MOST = 500
"""Maximum files, and maximum failed commands, that are kept of one turn."""

TurnMemoryShown = Literal["when_hidden", "always", "never"]
"""Assistant messages that show their turn memory: those whose calls are no longer in the view,
all, or none."""


def empty_memory() -> TurnMemory:
    """Return an empty turn memory."""
    return {"files_changed": [], "failed_commands": []}


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """Outcome of one group, as far as a turn memory records it.

    Attributes:
        memory: Files that its calls changed, commands that failed.
        results: Ids of the results that report it.
        explicit: Turn memory that the application has set, or None.
    """

    memory: TurnMemory = field(default_factory=empty_memory)
    results: tuple[str, ...] = ()
    explicit: TurnMemory | None = None


NO_OUTCOME = GroupOutcome()
"""Outcome of a group that a turn memory has nothing to report of; never modified."""


def is_empty(memory: TurnMemory) -> bool:
    """Return whether a turn memory is empty."""
    return not (memory["files_changed"] or memory["failed_commands"])


def joined(earlier: TurnMemory, later: TurnMemory) -> TurnMemory:
    """Return the turn memory of two parts of a turn."""
    files = dict.fromkeys((*earlier["files_changed"], *later["files_changed"]))
    failed = [*earlier["failed_commands"], *later["failed_commands"]]
    return {"files_changed": [*files][:_MOST], "failed_commands": failed[:_MOST]}


def united(kept: TurnMemory, read: TurnMemory) -> TurnMemory:
    """Return a kept turn memory merged with one read again for the same turn, no item twice."""
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

    None if it has set none; an empty one if it has set that.
    """
    if role_of(message) != "ai":
        return None
    marks = marks_of(message)
    if MARK not in marks or DERIVED_MARK in marks:
        return None
    return as_turn_memory(marks[MARK])


def with_turn_mark(message: BaseMessage, memory: TurnMemory) -> BaseMessage:
    """Return a message with a derived turn memory in its metadata."""
    if MARK in marks_of(message):
        return message
    return marked(message, **{MARK: memory, DERIVED_MARK: True})


def is_final(message: BaseMessage) -> bool:
    """Return whether a message of the model may end a turn: it has content and no calls."""
    return role_of(message) == "ai" and not call_ids(message) and bool(message.content)


def as_turn_memory(value: Any) -> TurnMemory:
    """Return a turn memory from an application's value, each item on one line.

    Anything that is not a file or a failed command is left out.
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
    """Return a command on one line, truncated if it is too long."""
    line = script_line(command[: 20 * MAX_COMMAND])
    return line if len(line) <= MAX_COMMAND else f"{line[: MAX_COMMAND - 1]}…"


def _plain(failed: FailedCommand) -> tuple[str, int]:
    return failed["command"], failed["exit_code"]


MAX_FILES = 20
"""Maximum files that are named, in the order in which they were first changed."""

MAX_FAILURES = 10
"""Maximum failed commands that are named, the first ones."""

_HEADING = "Tool memory:"
_ITEM = r"- (?:Files changed: [^\n]+|Failed bash: [^\n]+ \(exit -?\d+\)|\(\+\d+ more\))"
_FENCED = rf"<(?:{FENCES})\b[^>\n]*>(?:(?!</?(?:{FENCES})\b)[\s\S])*</(?:{FENCES})>"
_AT_START = re.compile(rf"\A\s*(?:{_FENCED}\s*)+")
_AT_END = re.compile(rf"(?:^(?:{_HEADING}(?:\n{_ITEM})+|{_FENCED})\s*)+\Z", re.MULTILINE)


def turn_memory_text(memory: TurnMemory) -> str:
    """Return a turn memory as text for a model; empty if the memory is empty.

    Each file and each command is on its line, whatever characters are in its name.
    """
    memory = as_turn_memory(memory)
    if is_empty(memory):
        return ""
    lines = [_HEADING]
    files, failed = memory["files_changed"], memory["failed_commands"]
    if files:
        more = _more(len(files) - MAX_FILES)
        lines.append(f"- Files changed: {', '.join(files[:MAX_FILES])}{' ' if more else ''}{more}")
    lines += [
        f"- Failed bash: {one['command']} (exit {one['exit_code']})"
        for one in failed[:MAX_FAILURES]
    ]
    if len(failed) > MAX_FAILURES:
        lines.append(f"- {_more(len(failed) - MAX_FAILURES)}")
    return without_fences("\n".join(lines))


def format_message_for_provider(
    message: BaseMessage, turn_memory: TurnMemory | None = None
) -> BaseMessage:
    r"""Return an assistant's message followed by its turn memory, for a model call.

    The form is the same for every provider: a separate text block if the content is a list.
    The message itself is not changed. One that calls tools, or already ends with its turn memory,
    is returned unchanged.

    Args:
        message: A message of any kind.
        turn_memory: Its turn memory; None for the one in its
            `response_metadata["tokenmem"]["turn_memory"]`.

    Returns:
        A copy with the turn memory; the message itself if there is nothing to add.

    Example:
        >>> from langchain_core.messages import AIMessage
        >>> memory = {"files_changed": ["b.go"], "failed_commands": []}
        >>> format_message_for_provider(AIMessage("Done."), memory).content
        'Done.\n\nTool memory:\n- Files changed: b.go'
    """
    if role_of(message) != "ai" or call_ids(message):
        return message
    given = marks_of(message).get(MARK) if turn_memory is None else turn_memory
    text = turn_memory_text(given) if given else ""
    return with_turn_text(message, text) if text else message


def with_turn_text(message: BaseMessage, text: str) -> BaseMessage:
    """Return a message with the text of its turn memory at the end, once."""
    content: Any = message.content
    last = content[-1] if isinstance(content, list) and content else content
    shown = last.get("text") if isinstance(last, dict) else last
    if isinstance(shown, str) and shown.rstrip().endswith(text):
        return message
    words = without_turn_text(content) if isinstance(content, str) else content
    return message.model_copy(update={"content": joined_content([words, text])})


def without_turn_text(text: str) -> str:
    """Return a text without anything in the form of an inserted block at its end or beginning."""
    if _HEADING not in text and "</" not in text:
        return text
    copied = _AT_END.search(text)
    return _AT_START.sub("", text[: copied.start()].rstrip() if copied else text)


def without_echo(message: BaseMessage) -> BaseMessage:
    """Return a reply without blocks in the form of the memory's own, which a model made up.

    The same message is returned if there are none.
    """
    content: Any = message.content
    if not content or role_of(message) != "ai":
        return message
    if isinstance(content, str):
        words: Any = without_turn_text(content)
    else:
        words = [*map(_block_without_echo, content)]
    return message if words == content else message.model_copy(update={"content": words})


def _block_without_echo(block: Any) -> Any:
    if not isinstance(block, dict) or not isinstance(block.get("text"), str):
        return block
    return {**block, "text": without_turn_text(block["text"])}


def _more(count: int) -> str:
    return f"(+{count} more)" if count > 0 else ""
