"""Finished summaries, applied to the current state.

A summary is usable as long as the conversation begins with what it covers; after a fork, an edit
or a removal it is ignored. A graph keeps the memory's state in its own checkpoints, which our
threads may not write: there a summary waits for the next call of the graph's thread.

A sub-graph without a checkpointer, or a client that sends the whole conversation with every call,
loses the memory's state. Its messages arrive again, perhaps with new ids. Then the summaries of the
same messages are found again, one after the other: only by their owner, and in another thread only
if everything else that the summarizer may have read is the same, too.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cachetools import LRUCache
from langchain_core.messages import BaseMessage

from langchain_tokenmem.background import ForkSafeLock
from langchain_tokenmem.core.covered import covered_end, entry_place, original_of
from langchain_tokenmem.core.messages import digest_of, spoken_messages, text_digest, with_ids
from langchain_tokenmem.core.turns import NO_TURNS
from langchain_tokenmem.memory.call_counts import in_force_from
from langchain_tokenmem.memory.prepared_call import with_sent
from langchain_tokenmem.memory.summary_log import entry_ids
from langchain_tokenmem.state import MemoryState, ModesState, SummaryEntry, TurnMemories

_MAX_KEPT = 1_024
"""Maximum summaries and reply times, the last used; a summary of 8,000 tokens takes 32 kB."""


class _Key(NamedTuple):
    """Key under which a summary is found again.

    Attributes:
        place: Scope in which it is found; see `GraphThread`.
        entries: Ids of the log's entries before it.
        size: How many messages it covers beyond these.
        covered: Digest of their words, in order.
    """

    place: Hashable
    entries: tuple[str, ...]
    size: int
    covered: str


@dataclass(frozen=True)
class _FinishedSummary:
    """A finished summary.

    Attributes:
        entries: Ids of the log's entries that it began with.
        start: How many messages stood before what it covers.
        size: How many messages it covers beyond these.
        ids: Ids of all messages, in order.
        digests: Digests of those from `start` on.
        state: The state with it.
    """

    entries: tuple[str, ...]
    start: int
    size: int
    ids: tuple[str, ...]
    digests: tuple[str, ...]
    state: MemoryState

    @classmethod
    def of(
        cls, messages: Sequence[BaseMessage], before: MemoryState, after: MemoryState
    ) -> _FinishedSummary | None:
        """Return the summary made by a compaction of `messages`, or None."""
        summary = after["summary"]
        if summary is None or summary == before["summary"]:
            return None
        named = with_ids(messages)
        ids = tuple(message.id or "" for message in named)
        start = covered_end(named, before["summary"])
        if summary["covers_to"] not in ids[start:]:
            return None
        size = ids.index(summary["covers_to"], start) + 1 - start
        digests = tuple(map(_digest_of_original, named[start:]))
        return cls(entry_ids(before["summary"]), start, size, ids, digests, after)

    def is_in(self, state: MemoryState) -> bool:
        """Return whether a state has the summary."""
        made = {*entry_ids(self.state["summary"])} - {*self.entries}
        return not made.isdisjoint(entry_ids(state["summary"]))

    def applied_to(self, messages: Sequence[BaseMessage], now: MemoryState) -> MemoryState | None:
        """Return the state with the summary and later decisions; None if it no longer fits.

        Cuts and memory blocks of newer messages stay, so that what a model has seen keeps its form.
        """
        named = with_ids(messages)
        ids = tuple(message.id or "" for message in named)
        start, end = covered_end(named, now["summary"]), self.start + self.size
        if self.entries != entry_ids(now["summary"]) or (
            ids[start : start + self.size] != self.ids[self.start : end]
        ):
            return None
        covered = named[start : start + self.size]
        if tuple(map(_digest_of_original, covered)) != self.digests[: self.size]:
            return None
        newer = {*ids[start + self.size :]}
        cuts = {name: cut for name, cut in now["cuts"].items() if name in newer}
        blocks = {name: block for name, block in now["blocks"].items() if name in newer}
        done = max(now["totals"]["compactions"], self.state["totals"]["compactions"])
        last = messages[-1].id if messages else None
        merged: MemoryState = {
            **now,
            **in_force_from(self.state, last),
            "turns": self._turns(now, newer),
            "cuts": {**self.state["cuts"], **cuts},
            "blocks": {**self.state["blocks"], **blocks},
            "stored_to": now["stored_to"],
            "pruned": now["pruned"],
            "totals": {**self.state["totals"], "compactions": done},
        }
        if "times" in now:
            merged["times"] = now["times"]
        if "edits" not in self.state:  # it records none: it is compared at the next load
            merged.pop("edits", None)
        merged = with_sent(merged, now.get("sent"))  # a summary sends nothing
        if "pins" in merged:  # what was pinned or unpinned during the summary
            merged["pins"] = now.get("pins", [])
        modes = _later_modes(now, self.state, messages)
        return {**merged, "modes": modes} if modes else merged

    def for_same_messages(
        self, named: Sequence[BaseMessage], digests: Sequence[str], now: MemoryState
    ) -> MemoryState | None:
        """Return the state of a conversation of the same messages, under its own ids.

        It gets the summary and the cuts, but no recalled text. None if earlier messages are
        missing, because the others cannot be found by position.

        Args:
            named: The whole conversation, with ids.
            digests: Digests of the messages that its summary does not cover yet.
            now: Its state.
        """
        end, old = self.start + self.size, self.state["summary"]
        if len(named) - len(digests) != self.start or old is None:
            return None
        places = zip(self.digests, digests, strict=False)
        same = [True] * self.start + [one == other for one, other in places]
        pairs = zip(self.ids, named, same, strict=False)
        ids = {key: message.id or "" for key, message, is_same in pairs if is_same}
        cuts = {ids[key]: cut for key, cut in self.state["cuts"].items() if key in ids}
        spoken = [message.id or "" for message in spoken_messages(named[:end])]
        entries = _renamed(old["entries"], spoken)
        found: MemoryState = {
            **now,
            "summary": {**old, "entries": entries, "covers_to": named[end - 1].id or ""},
            "kept": [ids[key] for key in self.state["kept"] if key in ids],
            "cuts": {**now["cuts"], **cuts},
            "totals": self.state["totals"],
        }
        if "change" in self.state:
            found["change"] = self.state["change"]
        found.pop("turns", None)  # read again, of the messages that are covered now
        return found

    def _turns(self, now: MemoryState, newer: Collection[str | None]) -> TurnMemories:
        """Return the newest turn memory of each message that is still visible."""
        made, current = self.state.get("turns", NO_TURNS), now.get("turns", NO_TURNS)
        live = {*newer, *self.state["kept"], *made["done"]}
        done = {key: memory for key, memory in current["done"].items() if key in live}
        calls = {key: made["calls"].get(key, ids) for key, ids in current["calls"].items()}
        return {
            "done": {**made["done"], **done},
            "running": made["running"],
            "calls": {**made["calls"], **{key: calls[key] for key in done if key in calls}},
        }


def rebase_summary(
    messages: Sequence[BaseMessage],
    before: MemoryState,
    after: MemoryState,
    now: MemoryState,
    made_of: Sequence[BaseMessage],
) -> MemoryState | None:
    """Apply a compaction's summary to a state that has changed since; None if it does not fit.

    Args:
        messages: The current conversation.
        before: The state at the beginning of the compaction.
        after: The state that it returned.
        now: The current state.
        made_of: The conversation that was compacted.
    """
    finished = _FinishedSummary.of(made_of, before, after)
    return finished.applied_to(messages, now) if finished else None


class FinishedSummaries:
    """The most recently used finished summaries of a process.

    It also keeps the times at which replies were complete until the next call of their thread
    stores them: the node after the model's node must not write the memory's state, because
    another node may write it in the same step.
    """

    def __init__(self) -> None:
        self._kept: LRUCache[Hashable, Any] = LRUCache(_MAX_KEPT)
        self._lock = ForkSafeLock()

    def __len__(self) -> int:
        """Number of summaries; if 0, there is no need to search."""
        return len(self._kept)

    def clear(self) -> None:
        """Remove everything."""
        with self._lock:
            self._kept.clear()

    def put(
        self,
        messages: Sequence[BaseMessage],
        before: MemoryState,
        after: MemoryState,
        *,
        key: Hashable = None,
        places: Sequence[Hashable] = (),
        agent: Hashable = None,
    ) -> None:
        """Store the summary from a compaction of `messages` with the state `before`.

        Args:
            messages: The conversation, oldest first.
            before: The state at the beginning of the compaction.
            after: The state that it returned.
            key: Conversation for which it waits until it is delivered, or None.
            places: Scopes in which it can be found again; empty if only that call takes it.
            agent: Thread and sub-graphs in which it was made.
        """
        finished = _FinishedSummary.of(messages, before, after)
        if finished is None:
            return
        covered = text_digest("".join(finished.digests[: finished.size]))
        with self._lock:
            if key is not None:
                self._kept["waiting", key] = finished
            for place in places:
                name = _Key(place, finished.entries, finished.size, covered)
                self._kept[name] = finished, agent

    def waiting(
        self, key: Hashable, messages: Sequence[BaseMessage], state: MemoryState
    ) -> MemoryState | None:
        """Return the state waiting for a conversation if it fits.

        It waits until it is delivered: a call that is cancelled or fails delivers nothing.
        """
        with self._lock:
            finished = self._kept.get(("waiting", key))
        return finished.applied_to(messages, state) if finished else None

    def delivered(self, key: Hashable, state: MemoryState) -> None:
        """Remove the summary waiting for a conversation if its graph now has a state with it."""
        with self._lock:
            finished = self._kept.get(("waiting", key))
            if finished is not None and finished.is_in(state):
                del self._kept["waiting", key]

    def find(
        self, places: Sequence[Hashable], messages: Sequence[BaseMessage], now: MemoryState
    ) -> tuple[MemoryState, Hashable] | None:
        """Return the state with all known summaries of the conversation, or None.

        With it, the thread and sub-graphs in which the last one was made.

        Args:
            places: Scopes of the conversation, the nearest first.
            messages: The conversation, oldest first, with any ids.
            now: Its state.
        """
        found = None
        with self._lock:
            kept = [key for key in self._kept if isinstance(key, _Key) and key.place in places]
        if not kept:
            return None
        named = with_ids(messages)
        digests = [*map(_digest_of_original, named)]
        while True:
            start = covered_end(named, now["summary"])
            entries, rest = entry_ids(now["summary"]), digests[start:]
            sizes = {key.size for key in kept if key.entries == entries and key.size <= len(rest)}
            keys = (
                _Key(place, entries, size, text_digest("".join(rest[:size])))
                for size in sorted(sizes, reverse=True)
                for place in places
            )
            with self._lock:
                same = next(filter(None, (self._kept.get(key) for key in keys)), None)
            state = same[0].for_same_messages(named, rest, now) if same else None
            if same is None or state is None:
                return found
            now, found = state, (state, same[1])

    def note_replies(self, key: Hashable, times: Mapping[str, str]) -> None:
        """Store the times of a conversation's newest replies: UTC in ISO 8601, by message id."""
        with self._lock:
            self._kept["replies", key] = times

    def reply_times(self, key: Hashable) -> Mapping[str, str]:
        """Return the known times of a conversation's newest replies."""
        with self._lock:
            times: Mapping[str, str] = self._kept.get(("replies", key), {})
        return times


def _later_modes(
    now: MemoryState, made: MemoryState, messages: Sequence[BaseMessage]
) -> ModesState | None:
    """Return the modes of the state that has read further; None if neither has any.

    The mode is that of `now`, because the session may have been switched since.
    """
    held, other = now.get("modes"), made.get("modes")
    if held is None or other is None:
        return held or other
    places = {message.id or "": place for place, message in enumerate(messages)}
    ends = [max((places.get(key, -1) for key in m["read_to"]), default=-1) for m in (held, other)]
    if ends[0] >= ends[1]:
        return held
    later: ModesState = {**other, "mode": held["mode"]}
    later.pop("chosen", None)
    return {**later, "chosen": held["chosen"]} if "chosen" in held else later


def _digest_of_original(message: BaseMessage) -> str:
    return digest_of(original_of(message))


def _renamed(entries: Sequence[SummaryEntry], ids: Sequence[str]) -> list[SummaryEntry]:
    """Return entries for a conversation of the same words, whose messages have other ids.

    Args:
        entries: The entries.
        ids: Ids of the messages that they cover, in order.
    """
    is_known = all("digest" in entry for entry in entries)
    if not is_known or sum(entry["covered"] for entry in entries) != len(ids):
        older: list[SummaryEntry] = [{**entry, "last_ids": []} for entry in entries[:-1]]
        return [*older, {**entries[-1], "last_ids": entry_place(ids)["last_ids"]}]
    found: list[SummaryEntry] = []
    start = 0
    for entry in entries:
        end = start + entry["covered"]
        found.append({**entry, **entry_place(ids[start:end])})
        start = end
    return found
