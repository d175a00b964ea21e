"""Working notes as a `MemoryState` holds them: turn memory, and the sections of modes."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

_Number = Annotated[int, Field(ge=0)]

NoteSource = Literal["tool", "rule", "model"]
"""Source of an item of working notes: a tool call, a rule for words, the agent's model."""

Author = Literal["application", "tool"]
"""Author of a pin or a note; an agent's tools change only what tools have made."""


class Pin(TypedDict):
    """A text that is in the system part until it is unpinned.

    Attributes:
        id: `pin_` and 8 hex digits of the text's SHA-256.
        text: The pinned text.
        by: Who pinned it.
        source: Reference of the message that it was taken from; may be empty.
    """

    id: str
    text: str
    by: Author
    source: str


class FailedCommand(TypedDict):
    """A command that failed.

    Attributes:
        command: The command, on one line.
        exit_code: Its exit code, not 0.
    """

    command: str
    exit_code: int


class TurnMemory(TypedDict):
    """Outcome of an assistant's turn.

    Attributes:
        files_changed: Files that were changed, in the order of their first change.
        failed_commands: Commands that failed, in order, repeats included.
    """

    files_changed: list[str]
    failed_commands: list[FailedCommand]


class TurnMemories(TypedDict):
    """Turn memories of a conversation.

    Attributes:
        done: Those of turns whose last message is not covered yet, by its id; that of the running
            turn by the id of its human message.
        running: That of the covered part of the turn in which the summary ends.
        calls: Ids of the uncovered results in each of `done`, to detect that some were removed.
    """

    done: dict[str, TurnMemory]
    running: TurnMemory
    calls: dict[str, list[str]]


class NoteItem(TypedDict):
    """One item of a section.

    Attributes:
        text: Its text, on one line.
        turn: Turn in which it was read or last changed, counted from 1.
        source: Reference of the message that it was read from.
        by: What it was read from, or who wrote it.
        number: Permanent number of a decision.
        key: A later item with the same key replaces this one: a constraint's label, a file's path,
            a failed call.
        verb: What was done with a file: `read`, `changed` or `ran`; missing if it was only named.
        rationale: Why it was decided.
        rejected: What was rejected.
        count: How often a name was mentioned.
    """

    text: str
    turn: _Number
    source: str
    by: NoteSource
    number: NotRequired[_Number]
    key: NotRequired[str]
    verb: NotRequired[str]
    rationale: NotRequired[str]
    rejected: NotRequired[list[str]]
    count: NotRequired[_Number]


class ModesState(TypedDict):
    """Working notes of a session, for all modes; the active mode decides what is shown.

    Attributes:
        mode: Name of the mode that was active at the last call; empty for none.
        chosen: Name of the mode that the session was switched to, empty for none; missing if the
            memory's own mode applies.
        turn: Human messages read so far.
        read_to: Ids of the last messages that were read, newest first, at most 8.
        sections: Items of each section, by name, oldest first.
        changed: Turn in which a section was last changed, by name.
        next_number: Number of the next decision.
        names: Names and phrases that were mentioned, each with its number of messages: those
            mentioned often enough are topics and entities.
        words: Digests of the words that items and names were read from, by the id of a message that
            was not covered then, to detect edits. Missing if there are none.
    """

    mode: str
    chosen: NotRequired[str]
    turn: _Number
    read_to: list[str]
    sections: dict[str, list[NoteItem]]
    changed: dict[str, _Number]
    next_number: _Number
    names: dict[str, _Number]
    words: NotRequired[dict[str, str]]
