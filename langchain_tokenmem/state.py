"""Memory state between two model calls: plain JSON, with a schema version.

A `MemoryState` never holds a message, only ids and numbers over an append-only transcript (and
the texts that the memory itself inserts: the running summary and live memory blocks), so it can be
stored in a database row or in a LangGraph checkpoint, and follows its forks and time travel.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, NotRequired, cast

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from langchain_tokenmem.errors import CorruptStoreError

STATE_VERSION = 1
"""States of other versions are rejected."""

_Number = Annotated[int, Field(ge=0)]
_Range = Annotated[list[int], Field(min_length=2, max_length=2)]


class SummaryEntry(TypedDict):
    """One entry of the running summary: written once, and never changed.

    Attributes:
        id: Its name in the log.
        text: The notes, without fences.
        first: Reference of the first message that it covers.
        covered: How many messages it covers, including those that remain visible in full.
        since: Time of the first message, as UTC in ISO 8601; None if unknown.
        until: Time of the last one.
        last_ids: Ids of the last messages that it covers, newest first, at most 8: if the last
            message was removed, the others show the place.
        tokens: Tokens of `text`.
        model: Name of the summarizer that wrote it.
        prompt_version: Version of the prompt, or of the rules, that it was written under.
        reason: Why it was made: `summarize_at`, `cold`, `limit`, `tail` or `manual`; `condensed` if
            made from older entries, `imported` if from another memory, `edited` if written again
            because its messages were edited, `removed` if some of its messages were hidden since.
        created_at: When it was made, as UTC in ISO 8601.
        failures: Why attempts were rejected; not empty if the fallback wrote it.
        condensed: Ids of the entries that it was made from; missing if it was made from messages.
        digest: Digest of the ids of the messages that it covers, to find them reliably. Missing in
            an imported entry.
        words: Digest of the words of these messages, to detect edits. Missing if their words cannot
            be compared, such as those of a temporarily cleared message.
        todos: The newest to-do list of these messages as text, empty if all of it is done; missing
            if they contain none.
    """

    id: str
    text: str
    first: str
    covered: _Number
    since: str | None
    until: str | None
    last_ids: list[str]
    tokens: _Number
    model: str
    prompt_version: str
    reason: str
    created_at: str
    failures: list[str]
    condensed: NotRequired[list[str]]
    digest: NotRequired[str]
    words: NotRequired[str]
    todos: NotRequired[str]


class RunningSummary(TypedDict):
    """A log of notes on everything up to one message.

    Attributes:
        entries: Its entries, oldest first; together they cover every message.
        covers_to: Id of the last message that it covers.
        covered: How many messages it covers, counted from the first.
    """

    entries: Annotated[list[SummaryEntry], Field(min_length=1)]
    covers_to: str
    covered: _Number


class Totals(TypedDict):
    """Counts and costs of all compactions of a conversation so far.

    Attributes:
        compactions: Changes that shortened tool results without a summary.
        summaries: Summaries made.
        calls: Model calls for them, including failed ones.
        input_tokens: Tokens that the models reported as read.
        output_tokens: Tokens that the models reported as written.
        cost: Sum of the prices that models reported.
    """

    compactions: int
    summaries: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float


class Cut(TypedDict):
    """Shortened form of one message: fixed once, so its bytes in the view never change again.

    Attributes:
        head: Characters of the message's text kept at its beginning.
        tail: Characters kept at its end.
        args: Characters kept of each string inside the arguments of its tool calls.
        calls: How many of its tool calls are kept, counted from the last.
        named: Whether its marker names the message by its reference: the model has a tool that
            opens it.
        unsummarized: True if the message is covered and no entry of the running summary was made
            from its full text: the next one will be.
    """

    head: _Number
    tail: _Number
    args: NotRequired[_Number]
    calls: NotRequired[_Number]
    named: NotRequired[bool]
    unsummarized: NotRequired[bool]


class Block(TypedDict):
    """The memory block of one human message: the same bytes until the next summary.

    Attributes:
        text: The block with its fences; empty if nothing matched.
        ids: Ids of the messages that it shows.
        notes: The working notes before them, with their fences; missing if there are none.
        sections: Items that these notes and those before them show, by section.
        entry: Id of the summary's newest entry when the notes were made; empty without a summary.
        question: Digest of the message that it was made for, and id of the summary's newest entry
            then: another block is made after an edit, and after a fold.
        kept: The kept notes that `text` begins with, with their fences; missing if there are none.
        kept_ids: Levels of these notes, by id.
        void: Ids of notes that it declares void.
        words: Digests of the words of those messages that it shows and a graph's thread contains,
            by id, to detect edits.
        scores: Scores of the messages that it shows in the search, by id.
        named: What the newest messages named when the block was made; only in the block of a tool
            result.
    """

    text: str
    ids: list[str]
    notes: NotRequired[str]
    sections: NotRequired[dict[str, list[str]]]
    entry: NotRequired[str]
    question: NotRequired[str]
    kept: NotRequired[str]
    kept_ids: NotRequired[dict[str, str]]
    void: NotRequired[list[str]]
    words: NotRequired[dict[str, str]]
    scores: NotRequired[dict[str, float]]
    named: NotRequired[list[str]]


class Reports(TypedDict):
    """Correction of estimated token counts by those reported by the provider.

    Attributes:
        model: Name of the model that reported; empty if only the budget names one.
        since: Id of the last message when the state came into force: replies after it were made
            from requests as they are made now. None for the beginning.
        ratio: Reported tokens per estimated token, as found before; None if unknown.
        skip: Whether the first reply after it was still made under an older state.
    """

    model: str
    since: str | None
    ratio: float | None
    skip: NotRequired[bool]


class Sent(TypedDict):
    """The newest request of a model whose reasoning is bound to its prefix.

    Attributes:
        digest: Digest of its messages and tools, to detect a change of the prefix.
        count: How many messages it had.
        unbound_to: Id of the newest message when the prefix last changed; None before any change.
            Bound reasoning of the messages up to it is left out.
    """

    digest: str
    count: _Number
    unbound_to: str | None


class ChangeMade(TypedDict):
    """A change to what the model sees, as decided.

    Attributes:
        reason: `compact_at`, `summarize_at`, `cold`, `limit`, `tail` or `manual`.
        at: When it was decided, as UTC in ISO 8601.
        summarized: How many messages went into the running summary.
        shortened: How many messages are now shown only in part.
        before: Tokens of the request before it.
        after: Maximum tokens after it.
        around: Tokens around the conversation: system text, tools, a prompt.
        budget: Fields of the `TokenBudget` that it was decided under.
    """

    reason: str
    at: str
    summarized: _Number
    shortened: _Number
    before: _Number
    after: _Number
    around: _Number
    budget: dict[str, Any]


# --- working notes: pins, turn memory and the sections of modes

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
        done: Those of turns with a last message that is not covered yet, by its id; that of the
            running turn by the id of its human message.
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
            was not covered then, to detect edits; missing if empty.
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


# --- the state


class MemoryState(TypedDict):
    """Decisions of the memory so far for one conversation.

    Attributes:
        version: Schema version of this state.
        summary: The running summary, if there is one; messages after its pointer are the tail.
        kept: Ids of covered messages that remain visible: system messages, then pinned ones and the
            then newest human message, oldest first.
        cuts: Shortened forms of visible messages, by message id.
        blocks: Memory blocks, by the id of the human message that holds them.
        stored_to: Id of the last message that a graph has written to the recall's store.
        pruned: Numbers, in the transcript, of messages that were removed from a graph's state, as
            ranges of first and last number.
        edits: Identifies the edits of a stored transcript that the summary reflects; missing if
            none.
        owner: The user to whom a graph's thread belongs; missing if no run has named one.
        totals: What was done and used so far.
        change: The newest compaction; missing before the first one.
        reports: Correction of estimated token counts; missing if counts are exact.
        turns: Turn memories of messages that are not covered yet.
        modes: What the session is about, by the sections of all modes.
        times: When messages that carry no time and are not covered were first seen, if times are
            shown: pairs of message id and time as UTC in ISO 8601, oldest first.
        pins: Texts in the system part, oldest first.
        sent: The newest request; missing if no reasoning is bound to its prefix.
    """

    version: int
    summary: RunningSummary | None
    kept: list[str]
    cuts: dict[str, Cut]
    blocks: dict[str, Block]
    stored_to: str | None
    pruned: list[_Range]
    edits: NotRequired[str]
    owner: NotRequired[str]
    totals: Totals
    change: NotRequired[ChangeMade]
    reports: NotRequired[Reports]
    turns: NotRequired[TurnMemories]
    modes: NotRequired[ModesState]
    times: NotRequired[list[Annotated[list[str], Field(min_length=2, max_length=2)]]]
    pins: NotRequired[list[Pin]]
    sent: NotRequired[Sent]


def new_state() -> MemoryState:
    """Return the state of a conversation before any decision."""
    return {
        "version": STATE_VERSION,
        "summary": None,
        "kept": [],
        "cuts": {},
        "blocks": {},
        "stored_to": None,
        "pruned": [],
        "totals": {
            "compactions": 0,
            "summaries": 0,
            "calls": 0,
            "input_tokens": 0,
            "output_tokens": 0,
            "cost": 0.0,
        },
    }


def load_state(data: Any) -> MemoryState:
    """Check that `data` is a state this version can read; a new one for None or an empty dict.

    Raises:
        CorruptStoreError: When it is not a state, or one of another version of this package.
    """
    if data is None or data == {}:
        return new_state()
    if not isinstance(data, dict) or type(data.get("version")) is not int:
        raise CorruptStoreError(
            f"The state of a memory was expected, and something else was found "
            f"({type(data).__name__}). If your graph keeps something else under that key, give the "
            f"memory another one (name=); else restore a backup."
        )
    if data["version"] != STATE_VERSION:
        raise CorruptStoreError(
            f"The stored memory state has schema version {data['version']}, this package reads "
            f"{STATE_VERSION}. Use the version of langchain-tokenmem that wrote it."
        )
    known = new_state()
    state = data if data.keys() >= known.keys() else {**known, **data}
    try:
        _schema().validate_python(
            state, strict=True
        )  # return the same object: callers compare it by `is`
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise CorruptStoreError(
            f"The stored memory state is damaged at {place}: {first['msg']}. Restore a backup, or "
            "drop the state: the messages stay, and are summarized again."
        ) from None
    return cast("MemoryState", state)


@cache
def _schema() -> TypeAdapter[MemoryState]:
    """Return the validator of a state, built on first use to keep the import light."""
    return TypeAdapter(MemoryState)
