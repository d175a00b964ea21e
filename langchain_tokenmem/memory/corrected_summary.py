"""Correction of the running summary after edits: an entry tells the words that stand there now.

The entry is written again without a model, at once: words that were taken back must not wait in a
request for a summarizer.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.edited_words import (
    CheckedMessages,
    as_said,
    digest_of_words,
    with_digests,
    with_words,
)
from langchain_tokenmem.core.messages import role_of, with_ids
from langchain_tokenmem.core.numbers import covered_end, reference
from langchain_tokenmem.core.todos import todo_lists
from langchain_tokenmem.core.working_notes.notes_draft import (
    without_edited_items,
    without_uncovered_items,
)
from langchain_tokenmem.notes_state import ModesState
from langchain_tokenmem.state import Block, MemoryState, RunningSummary, SummaryEntry
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.extractive import ExtractiveSummarizer

logger = logging.getLogger(__name__)

EDITED = "edited"
"""Reason of an entry that was written again."""


def with_current_words(
    messages: Sequence[BaseMessage],
    state: MemoryState,
    count_text: Callable[[str], int],
    checked: CheckedMessages | None = None,
    superseded: Collection[str] = (),
) -> MemoryState:
    """Return the state that has the words of the messages as they are now, and no earlier ones.

    Memory blocks that show an edited message, and notes that were read from one, go as well; notes
    of what is not covered are read again.

    Args:
        messages: The conversation, oldest first; entries whose messages are not all there stay.
        state: The memory's state.
        count_text: Counts the tokens of a text.
        checked: Messages of this conversation that were compared before; None for none.
        superseded: Ids of messages that were edited at any time, where that is known.

    Returns:
        The state; the same object where nothing was edited.
    """
    checked = checked or CheckedMessages()
    state = _with_current_entries(messages, state, count_text, checked, superseded)
    edited = checked.edited_ids(state, messages)
    return without_noted_words(messages, state, edited) if edited else state


def without_noted_words(
    messages: Sequence[BaseMessage], state: MemoryState, gone: Collection[str]
) -> MemoryState:
    """Return the state without notes and blocks that have words of some messages.

    Notes of what is not covered are read again at the next call.

    Args:
        messages: The conversation, oldest first.
        state: The memory's state.
        gone: Ids of messages that were edited or hidden.
    """
    modes, summary = state.get("modes"), state["summary"]
    if modes and not modes.get("words", {}).keys().isdisjoint(gone):
        named = with_ids(messages)
        tail = named[covered_end(named, summary) if summary else 0 :]
        read = {*modes["read_to"]}
        end = max((place for place, m in enumerate(tail, 1) if m.id in read), default=len(tail))
        turns = sum(role_of(message) == "human" for message in tail[:end])
        modes = without_uncovered_items(modes, summary, turns)
    return with_entries(
        state,
        summary,
        modes=modes,
        is_void=lambda block: not {*block["ids"]}.isdisjoint(gone),
    )


def _with_current_entries(
    messages: Sequence[BaseMessage],
    state: MemoryState,
    count_text: Callable[[str], int],
    checked: CheckedMessages,
    superseded: Collection[str],
) -> MemoryState:
    """Return the state with entries that tell the words of their messages as they are now."""
    if state["summary"] is None:
        return state
    summary = with_digests(state["summary"], messages)
    edited = checked.edited_entries(summary, messages, superseded)
    if not edited:
        summary = with_words(summary, messages)
        return state if summary is state["summary"] else {**state, "summary": summary}
    logger.info("Messages that the running summary covers were edited: it tells their new words.")
    entries = [*summary["entries"]]
    for place, numbered in edited.items():
        prior = told_before(entries[:place])
        entries[place] = written_again(entries[place], numbered, state, prior, count_text)
    known = {number: m for numbered in edited.values() for number, m in numbered.items()}
    ids = {message.id for message in known.values()}
    modes = state.get("modes")
    return with_entries(
        state,
        {**summary, "entries": entries},
        modes=without_edited_items(modes, known) if modes else None,
        is_void=lambda block: not ids.isdisjoint(block["ids"]),
    )


def told_before(entries: Sequence[SummaryEntry]) -> str:
    """Return what entries tell together."""
    return "\n\n".join(filter(None, (entry["text"] for entry in entries)))


def with_entries(
    state: MemoryState,
    summary: RunningSummary | None,
    *,
    modes: ModesState | None,
    is_void: Callable[[Block], bool],
) -> MemoryState:
    """Return the state with entries that were written again, and without blocks of before.

    Args:
        state: The memory's state.
        summary: Its running summary with these entries; None where nothing of it is left.
        modes: The sections without what is no longer said; None where there are none. Blocks that
            show others go.
        is_void: Whether a block shows a message that says other words now.
    """
    is_less = modes is not state.get("modes")
    blocks = {
        key: block
        for key, block in state["blocks"].items()
        if not (is_void(block) or (is_less and "notes" in block))
    }
    new: MemoryState = {**state, "summary": summary, "blocks": blocks}
    new.pop("turns", None)  # read again
    if modes is not None:
        new["modes"] = modes
    return new


def written_again(
    entry: SummaryEntry,
    numbered: Mapping[int, BaseMessage],
    state: MemoryState,
    prior: str,
    count_text: Callable[[str], int],
    *,
    reason: str = EDITED,
) -> SummaryEntry:
    """Return an entry about the same messages, at most as long, with their words of now.

    Its id follows from what it tells, so that each call that makes it makes the same one.

    Args:
        entry: The entry.
        numbered: The messages that it covers, by number.
        state: The memory's state.
        prior: What the entries before it tell; empty for nothing.
        count_text: Counts the tokens of a text.
        reason: Why it is written again.
    """
    words = digest_of_words(numbered.items())
    new: SummaryEntry = {**entry, "words": words or "", "failures": []}
    new.pop("todos", None)
    for todos in islice(todo_lists([*numbered.values()]), 1):
        new["todos"] = todos
    if not entry["text"]:
        return new
    whole = {*state["kept"]} - state["cuts"].keys()  # they stand in the request themselves
    told = {n: message for n, message in numbered.items() if message.id not in whole} or numbered
    summary = ExtractiveSummarizer().summarize(
        SummaryRequest(
            [*map(as_said, told.values())], entry["tokens"], count_text, prior=prior or None
        )
    )
    names = [reference(message.id) for message in told.values()]
    name = f"{entry['id']}\n{words}\n{summary.text}"
    return {
        **new,
        "id": hashlib.blake2b(name.encode(), digest_size=8).hexdigest(),
        "text": summary.text,
        "tokens": count_text(summary.text),
        "model": summary.model,
        "prompt_version": summary.prompt_version,
        "reason": reason,
        "sources": [[names[place] for place in line] for line in summary.sources],
    }
