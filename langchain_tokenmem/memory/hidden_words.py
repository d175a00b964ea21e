"""Removal of hidden messages from the running summary: an entry tells only what still stands.

For applications that hide what they remove. As after an edit an entry is written again without a
model, at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import spoken_messages, with_ids
from langchain_tokenmem.core.numbers import (
    covered_end,
    digest_of_numbers,
    gaps_in,
    messages_of_entries,
    numbered_entries,
    reference,
)
from langchain_tokenmem.core.working_notes.notes_draft import without_items_of
from langchain_tokenmem.memory.corrected_summary import told_before, with_entries, written_again
from langchain_tokenmem.memory.summary_log import LAST_IDS
from langchain_tokenmem.state import MemoryState, RunningSummary, SummaryEntry

logger = logging.getLogger(__name__)

REMOVED = "removed"
"""Reason of an entry that was written again because messages of it were removed."""


@dataclass(frozen=True)
class _EntryLeft:
    """An entry, and what is left of the messages that it covers.

    Attributes:
        entry: The entry.
        numbered: These messages by number; empty where they are not known.
        gone: Numbers of messages that it tells of no more.
        is_whole: Whether it stays as it is.
    """

    entry: SummaryEntry
    numbered: Mapping[int, BaseMessage]
    gone: frozenset[int] = frozenset()
    is_whole: bool = True


def lacks_messages(summary: RunningSummary, messages: Sequence[BaseMessage]) -> bool:
    """Return whether the conversation lacks messages that an entry covers.

    Args:
        summary: The running summary; entries without a digest are not looked at.
        messages: The conversation, oldest first.
    """
    named = with_ids(messages)
    covered = spoken_messages(named[: covered_end(named, summary)])
    found = messages_of_entries(summary, covered)
    pairs = zip(summary["entries"], found, strict=True)
    return any(entry["covered"] and "digest" in entry and not own for entry, own in pairs)


def without_removed_words(
    there: Sequence[BaseMessage],
    state: MemoryState,
    count_text: Callable[[str], int],
    transcript: Sequence[BaseMessage] = (),
) -> MemoryState:
    """Return the state with a summary that tells only messages that are there.

    Memory blocks that show another message go, and so do notes that were read from one.

    Args:
        there: The messages that were not removed, oldest first.
        state: The memory's state.
        count_text: Counts the tokens of a text.
        transcript: Every message, removed ones included, by which messages keep their numbers.
            Without it those of an entry that is written again are counted from its end.

    Returns:
        The state; the same object where nothing that it covers was removed.
    """
    summary, named = state["summary"], with_ids(there)
    if summary is None or not lacks_messages(summary, named):
        return state
    logger.info("Messages that the running summary covers were removed: it tells the others.")
    said = _as_said(summary, spoken_messages(with_ids(transcript)))
    covered = spoken_messages(_covered_by(summary, named, said))
    parts = [*_parts(summary, covered, said)]
    entries: list[SummaryEntry] = []
    before = 0
    for part in parts:
        if part.is_whole or part.numbered:
            entry = _left_of(part, before, state, told_before(entries), count_text)
            entries.append(entry)
            before = entry["last"]
    gone = frozenset[int]().union(*(part.gone for part in parts))
    modes, ids = state.get("modes"), {message.id for message in named}
    return with_entries(
        state,
        _summary_of(entries, covered, summary),
        modes=without_items_of(modes, gone) if modes else None,
        is_void=lambda block: not ids.issuperset(block["ids"]),
    )


def _as_said(
    summary: RunningSummary, transcript: Sequence[BaseMessage]
) -> list[dict[int, BaseMessage]]:
    """Return for each entry its messages by number, removed ones included; empty if not known."""
    places = {message.id or "": place for place, message in enumerate(transcript)}
    found: list[dict[int, BaseMessage]] = []
    for entry, numbers in numbered_entries(summary):
        ends = zip(entry["last_ids"], reversed(numbers), strict=False)
        shift = next((places[key] - n for key, n in ends if key in places), None)
        own = (
            {}
            if shift is None
            else {n: transcript[n + shift] for n in numbers if 0 <= n + shift < len(transcript)}
        )
        digest = digest_of_numbers((m.id or "", n) for n, m in own.items())
        found.append(own if digest == entry.get("digest") else {})
    return found


def _covered_by(
    summary: RunningSummary,
    messages: Sequence[BaseMessage],
    said: Sequence[Mapping[int, BaseMessage]],
) -> Sequence[BaseMessage]:
    """Return the messages that a summary covers, also where all of its last ones were removed."""
    end = covered_end(messages, summary)
    known = {message.id for own in said for message in own.values()}
    return messages[:end] if end else [m for m in messages if m.id in known]


def _parts(
    summary: RunningSummary,
    covered: Sequence[BaseMessage],
    said: Sequence[Mapping[int, BaseMessage]],
) -> Iterator[_EntryLeft]:
    """Yield what is left of each entry."""
    places = {message.id or "": place for place, message in enumerate(covered)}
    there = messages_of_entries(summary, covered)
    start, spare = 0, list[int]()
    for (entry, numbers), own, known in zip(numbered_entries(summary), there, said, strict=True):
        left = own or {n: covered[places[m.id]] for n, m in known.items() if m.id in places}
        ends = [places[key] + 1 for key in entry["last_ids"] if key in places]
        if own or not numbers or "digest" not in entry or (known and len(left) == len(known)):
            yield _EntryLeft(entry, left)
        elif known:
            yield _EntryLeft(entry, left, frozenset(numbers) - left.keys(), is_whole=False)
        else:  # which ones were removed is not known: none of the numbers is certain
            free = [*spare, *numbers]
            rest = covered[start : max(ends, default=start)][-len(free) :]
            aligned = dict(zip(free[len(free) - len(rest) :], rest, strict=True))
            yield _EntryLeft(entry, aligned, frozenset(free), is_whole=False)
            left = aligned
            spare = free
        spare = [] if left else spare
        start = max([start, *(places[m.id or ""] + 1 for m in left.values())])


def _left_of(
    part: _EntryLeft,
    before: int,
    state: MemoryState,
    prior: str,
    count_text: Callable[[str], int],
) -> SummaryEntry:
    """Return the entry about the messages that are left, behind those up to a number."""
    numbered = part.numbered
    if not numbered:
        return part.entry
    entry = part.entry
    if not part.is_whole:
        entry = written_again(entry, numbered, state, prior, count_text, reason=REMOVED)
        keys = [message.id or "" for message in numbered.values()]
        entry = {
            **entry,
            "first": reference(keys[0]),
            "covered": len(numbered),
            "last_ids": keys[: -LAST_IDS - 1 : -1],
            "digest": digest_of_numbers(zip(keys, numbered, strict=True)),
        }
    return _with_gaps(entry, [*numbered], before)


def _with_gaps(entry: SummaryEntry, numbers: Sequence[int], before: int) -> SummaryEntry:
    """Return an entry whose gaps are the numbers behind `before` that none of its messages has."""
    gaps = gaps_in([*numbers, entry["last"] + 1], before)
    if gaps == entry.get("gaps", []):
        return entry
    new: SummaryEntry = {**entry, "gaps": gaps}
    if not gaps:
        del new["gaps"]
    return new


def _summary_of(
    entries: Sequence[SummaryEntry], covered: Sequence[BaseMessage], before: RunningSummary
) -> RunningSummary | None:
    """Return the running summary of some entries, whose numbers end where they ended; or None."""
    if not entries:
        return None
    *older, last = entries
    end = before["entries"][-1]["last"]
    if last["last"] < end:
        gaps = [*last.get("gaps", []), [last["last"] + 1, end]]
        last = {**last, "last": end, "gaps": gaps}
    return {
        "entries": [*older, last],
        "covers_to": (covered[-1].id or "") if covered else before["covers_to"],
        "covered": sum(entry["covered"] for entry in entries),
    }
