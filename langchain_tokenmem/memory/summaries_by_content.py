"""Summaries found again by the words that they cover, where a graph's state was not kept.

A sub-graph without a checkpointer, a graph without a channel for the memory, or a client that
sends the whole conversation with every call loses the memory's state. Its messages come again, with
new ids perhaps. A summary that was made of the same words is the same summary.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from langchain_core.messages import BaseMessage

from langchain_tokenmem.background import ForkSafeLock
from langchain_tokenmem.core.messages import digest_of, spoken_messages, with_ids
from langchain_tokenmem.core.numbers import digest_of_numbers, numbers_in
from langchain_tokenmem.core.references import reference
from langchain_tokenmem.memory.summary_log import LAST_IDS, entry_ids
from langchain_tokenmem.notes_state import ModesState
from langchain_tokenmem.state import Cut, MemoryState, RunningSummary, SummaryEntry, Totals

_MAX_SUMMARIES = 256
"""Summaries that are kept, those used last; with a summary of 8,000 tokens each it is 8 MB."""


class _Key(NamedTuple):
    """Names a summary by what it covers.

    Attributes:
        user_id: Whose conversation it is; None where no user was named.
        first: Digest of the first message, so that most lookups end with it.
        size: How many messages it covers.
        digest: Digest of all of them, in order.
    """

    user_id: str | None
    first: str
    size: int
    digest: str


@dataclass(frozen=True)
class _KnownNotes:
    """Sections of modes, with places in the conversation instead of ids.

    Attributes:
        modes: The sections; their words by the places of messages.
        read_to: Places of the last messages that they were read from, the newest first.
        digest: Digest of all messages up to there, which may reach beyond the summary.
    """

    modes: ModesState
    read_to: tuple[int, ...]
    digest: str

    @classmethod
    def of(cls, modes: ModesState | None, named: Sequence[BaseMessage]) -> _KnownNotes | None:
        """Return the sections that were read of a conversation; None for none.

        A mode that the session was switched to is not kept: it is no word of the conversation.
        """
        if modes is None:
            return None
        places = {message.id: place for place, message in enumerate(named)}
        read_to = tuple(places[key] for key in modes["read_to"] if key in places)
        if not read_to:
            return None
        kept = modes.copy()
        kept.pop("chosen", None)
        words = modes.get("words", {})
        kept["words"] = {f"{places[key]}": words[key] for key in words if key in places}
        return cls(kept, read_to, _digest_of_all(named[: max(read_to) + 1]))

    def modes_for(self, named: Sequence[BaseMessage]) -> ModesState | None:
        """Return the sections under the ids of these messages; None where they say other words."""
        size = max(self.read_to) + 1
        if len(named) < size or _digest_of_all(named[:size]) != self.digest:
            return None
        known = self.modes.get("words", {}).items()
        return {
            **self.modes,
            "read_to": [named[place].id or "" for place in self.read_to],
            "words": {named[int(place)].id or "": digest for place, digest in known},
        }


@dataclass(frozen=True)
class _KnownSummary:
    """A summary, with places in the conversation instead of ids.

    Attributes:
        summary: The running summary; its pointer is the last of the covered messages.
        kept: Places of the covered messages that stay visible.
        cuts: Places, digests and shortened forms of messages.
        totals: What was done and used so far.
        made_in: Names of the sub-graphs in which it was made; empty for the graph itself.
        was_found: Whether it, or the one before it, was found by content.
        notes: The sections of modes; None for none.
    """

    summary: RunningSummary
    kept: tuple[int, ...]
    cuts: tuple[tuple[int, str, Cut], ...]
    totals: Totals
    made_in: str
    was_found: bool
    notes: _KnownNotes | None = None

    def state_for(self, size: int, named: Sequence[BaseMessage], now: MemoryState) -> MemoryState:
        """Return the state in which these messages have the summary, under their own ids."""
        ids = [message.id or "" for message in named]
        cuts = {
            ids[place]: cut
            for place, digest, cut in self.cuts
            if place < len(named) and (place < size or digest_of(named[place]) == digest)
        }
        # The ids of the other conversation may name other messages here.
        spoken = [message.id or "" for message in spoken_messages(named[:size])]
        entries = _renamed(self.summary["entries"], spoken)
        summary: RunningSummary = {
            **self.summary,
            "entries": entries,
            "covers_to": ids[size - 1],
        }
        found: MemoryState = {
            **now,
            "summary": summary,
            "kept": [ids[place] for place in self.kept],
            "cuts": {**now["cuts"], **cuts},
            "totals": self.totals,
        }
        found.pop("turns", None)  # read again, of the messages that are covered now
        if self.notes is not None and "modes" not in now:
            modes = self.notes.modes_for(named)
            found = {**found, "modes": modes} if modes else found
        return found


class SummariesByContent:
    """Keeps the latest summaries of a process, by user and by the words that they cover.

    With it the working notes of these words are kept, and nothing else of a state: recalled
    messages belong to the conversation that asked for them. It lives in the process, and is lost
    with it.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[_Key, _KnownSummary] = OrderedDict()
        self._lock = ForkSafeLock()

    def __len__(self) -> int:
        """Return how many summaries are kept."""
        return len(self._known)

    def put(
        self,
        user_id: str | None,
        messages: Sequence[BaseMessage],
        before: MemoryState,
        after: MemoryState,
        *,
        made_in: str = "",
    ) -> None:
        """Keep the summary that a compaction of `messages` under `before` has given.

        A conversation's first summary is kept, and what follows on one that was found: where a
        graph keeps its state, nothing more is done. Every word behind a summary stands in
        `messages`; the words behind one that follows on another are compared with those, because a
        message may have been edited or removed since.

        Args:
            user_id: Whose conversation it is; None where nobody was named.
            messages: The conversation, oldest first.
            before: The state that the compaction began with.
            after: The state that it gave.
            made_in: Names of the sub-graphs that the run is in; empty for the graph itself.
        """
        summary = after["summary"]
        if summary is None or summary == before["summary"]:
            return
        earlier = before["summary"]
        if earlier is not None and not self._was_found(user_id, earlier):
            return
        named = with_ids(messages)
        places = {message.id or "": place for place, message in enumerate(named)}
        needed = {*after["kept"], summary["covers_to"], (earlier or summary)["covers_to"]}
        if not places.keys() >= needed:
            return
        size = places[summary["covers_to"]] + 1
        keys = {key.size: key for key in _keys(user_id, named[:size])}
        cuts = [(places[key], cut) for key, cut in after["cuts"].items() if key in places]
        new = _KnownSummary(
            summary,
            tuple(places[key] for key in after["kept"]),
            tuple((place, digest_of(named[place]), cut) for place, cut in cuts),
            after["totals"],
            made_in,
            was_found=earlier is not None,
            notes=_KnownNotes.of(after.get("modes"), named),
        )
        with self._lock:
            if earlier is not None:
                same = self._known.get(keys[places[earlier["covers_to"]] + 1])
                if same is None or entry_ids(same.summary) != entry_ids(earlier):
                    return
            self._known[keys[size]] = new
            while len(self._known) > _MAX_SUMMARIES:
                self._known.popitem(last=False)

    def _was_found(self, user_id: str | None, summary: RunningSummary) -> bool:
        with self._lock:
            return any(
                known.was_found and entry_ids(known.summary) == entry_ids(summary)
                for key, known in self._known.items()
                if key.user_id == user_id
            )

    def find(
        self, user_id: str | None, messages: Sequence[BaseMessage], now: MemoryState
    ) -> tuple[MemoryState, str] | None:
        """Return the state with the longest summary of what `messages` begin with; None for none.

        With it, the names of the sub-graphs in which the summary was made.

        Args:
            user_id: Whose conversation it is.
            messages: The conversation, oldest first, under whatever ids.
            now: Its state, without a summary.
        """
        if not self._known or not messages:
            return None
        named = with_ids(messages)
        first = digest_of(named[0])
        with self._lock:
            sizes = {key.size for key in self._known if key[:2] == (user_id, first)}
        sizes = {size for size in sizes if size <= len(named)}
        if not sizes:
            return None
        keys = [key for key in _keys(user_id, named[: max(sizes)]) if key.size in sizes]
        with self._lock:
            found = next((key for key in reversed(keys) if key in self._known), None)
            if found is None:
                return None
            known = self._known[found] = replace(self._known[found], was_found=True)
            self._known.move_to_end(found)
        return known.state_for(found.size, named, now), known.made_in


def _renamed(entries: Sequence[SummaryEntry], ids: Sequence[str]) -> list[SummaryEntry]:
    """Return entries for a conversation of the same words, whose messages have other ids.

    Args:
        entries: The entries.
        ids: Ids of the messages that they cover, in order.
    """
    last_ids = list(ids[: -LAST_IDS - 1 : -1])
    numbered = [entry for entry in entries if "digest" in entry]
    if numbered != [*entries] or sum(entry["covered"] for entry in entries) != len(ids):
        older: list[SummaryEntry] = [{**entry, "last_ids": []} for entry in entries[:-1]]
        return [*older, {**entries[-1], "last_ids": last_ids}]
    found: list[SummaryEntry] = []
    before = start = 0
    for entry in entries:
        own = ids[start : start + entry["covered"]]
        numbers = zip(own, numbers_in(entry, before), strict=False)
        own_last = list(own[: -LAST_IDS - 1 : -1])
        first = reference(next(iter(own), ""))
        digest = digest_of_numbers(numbers)
        found.append({**entry, "first": first, "last_ids": own_last, "digest": digest})
        before, start = entry["last"], start + entry["covered"]
    return found


def _digest_of_all(named: Sequence[BaseMessage]) -> str:
    """Return the digest of a beginning of a conversation."""
    return [*_keys(None, named)][-1].digest


def _keys(user_id: str | None, named: Sequence[BaseMessage]) -> Iterator[_Key]:
    """Yield the key of each beginning of a conversation."""
    chain, first = hashlib.blake2b(digest_size=16), ""
    for size, message in enumerate(named, 1):
        digest = digest_of(message)
        first = first or digest
        chain.update(digest.encode())
        yield _Key(user_id, first, size, chain.hexdigest())
