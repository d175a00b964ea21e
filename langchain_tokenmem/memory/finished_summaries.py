"""Finished background summaries, applied to the state as it stands by then.

A summary is of use as long as the conversation begins with what it covers: after a fork, an edit
or a removal it does not, and the summary is left alone. A graph keeps the memory's state in its own
checkpoints, where no thread of ours may write: there it waits for the thread's next call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from langchain_tokenmem.background import ForkSafeLock
from langchain_tokenmem.core.edited_words import as_said
from langchain_tokenmem.core.messages import digest_of, with_ids
from langchain_tokenmem.core.turns import no_turns
from langchain_tokenmem.memory.anchoring import with_late_anchor
from langchain_tokenmem.memory.bound_calls import with_sent
from langchain_tokenmem.memory.summaries_by_content import SummariesByContent
from langchain_tokenmem.memory.summary_log import entry_ids
from langchain_tokenmem.notes_state import ModesState, TurnMemories
from langchain_tokenmem.state import MemoryState, new_state

_MAX_WAITING = 1_024
"""Conversations for which a summary may wait at the same time; the oldest one goes first."""


@dataclass(frozen=True)
class _FinishedSummary:
    """A finished summary.

    Attributes:
        entries: Ids of the log's entries that it began with.
        pointer: Pointer of the state that it was made under; None for none.
        covered: Ids and digests of what it covers beyond that pointer, in order.
        state: The state with it.
    """

    entries: tuple[str, ...]
    pointer: str | None
    covered: tuple[tuple[str, str], ...]
    state: MemoryState

    @classmethod
    def of(
        cls, messages: Sequence[BaseMessage], before: MemoryState, after: MemoryState
    ) -> _FinishedSummary | None:
        """Return the summary that a compaction of `messages` made; None for none."""
        summary = after["summary"]
        if summary is None or summary == before["summary"]:
            return None
        pointer = _pointer(before)
        tail = _messages_after(messages, pointer)
        ids = [message.id for message in tail]
        if summary["covers_to"] not in ids:
            return None
        entries = entry_ids(before["summary"])
        return cls(entries, pointer, _digests(tail[: ids.index(summary["covers_to"]) + 1]), after)

    def applied_to(self, messages: Sequence[BaseMessage], now: MemoryState) -> MemoryState | None:
        """Return the state with the summary and later decisions; None where it no longer fits.

        Cuts and memory blocks of newer messages stay: what a model has seen keeps its form.
        """
        if self.entries != entry_ids(now["summary"]) or self.pointer != _pointer(now):
            return None
        tail = _messages_after(messages, self.pointer)
        size = len(self.covered)
        if _digests(tail[:size]) != self.covered:
            return None
        newer = {message.id for message in tail[size:]}
        cuts = {name: cut for name, cut in now["cuts"].items() if name in newer}
        blocks = {name: block for name, block in now["blocks"].items() if name in newer}
        done = max(now["totals"]["compactions"], self.state["totals"]["compactions"])
        last = messages[-1].id if messages else None
        merged: MemoryState = {
            **now,
            **with_late_anchor(self.state, last),
            "turns": self._turns(now, newer),
            "cuts": {**self.state["cuts"], **cuts},
            "blocks": {**self.state["blocks"], **blocks},
            "stored_to": now["stored_to"],
            "pruned": now["pruned"],
            "totals": {**self.state["totals"], "compactions": done},
        }
        if "times" in now:
            merged["times"] = now["times"]
        if "edits" not in self.state:  # it knows of none: it is compared at the next load
            merged.pop("edits", None)
        merged = with_sent(merged, now.get("sent"))  # a summary sends nothing
        if "pins" in merged:  # what was pinned, or unpinned, beside the summary
            merged["pins"] = now.get("pins", [])
        modes = _later_modes(now, self.state, messages)
        return {**merged, "modes": modes} if modes else merged

    def _turns(self, now: MemoryState, newer: Collection[str | None]) -> TurnMemories:
        """Return the turn memories of messages that are still visible, the newest of each."""
        made, current = self.state.get("turns", no_turns()), now.get("turns", no_turns())
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
    made_of: Sequence[BaseMessage] | None = None,
) -> MemoryState | None:
    """Apply a compaction's summary to a state that has changed since; None where it does not fit.

    Args:
        messages: The conversation as it stands now.
        before: The state that the compaction began with.
        after: The state that it gave.
        now: The state as it stands now.
        made_of: The conversation that was compacted; None where it is the one of now.
    """
    finished = _FinishedSummary.of(messages if made_of is None else made_of, before, after)
    return finished.applied_to(messages, now) if finished else None


class FinishedSummaries:
    """Keeps one finished summary for each conversation until a call takes it.

    Attributes:
        by_content: Finds the latest summaries again where a state was not kept.
    """

    def __init__(self) -> None:
        self.by_content = SummariesByContent()
        self._finished: OrderedDict[Hashable, _FinishedSummary] = OrderedDict()
        self._lock = ForkSafeLock()

    def put(
        self,
        key: Hashable,
        messages: Sequence[BaseMessage],
        before: MemoryState | None,
        after: MemoryState,
    ) -> None:
        """Keep the state that a compaction of `messages` under `before` has given."""
        finished = _FinishedSummary.of(messages, before or new_state(), after)
        if finished is None:
            return
        with self._lock:
            self._finished.pop(key, None)
            self._finished[key] = finished
            while len(self._finished) > _MAX_WAITING:
                self._finished.popitem(last=False)

    def take(
        self, key: Hashable, messages: Sequence[BaseMessage], state: MemoryState | None
    ) -> MemoryState | None:
        """Return the state that waits for a conversation, if it fits; the given one else."""
        with self._lock:
            finished = self._finished.get(key)
            taken = finished.applied_to(messages, state or new_state()) if finished else None
            if taken is None:
                return state
            del self._finished[key]
        return taken

    def is_waiting(
        self, key: Hashable, messages: Sequence[BaseMessage], state: MemoryState
    ) -> bool:
        """Return whether a state waits for a conversation that `take` would return."""
        with self._lock:
            finished = self._finished.get(key)
        return finished is not None and finished.applied_to(messages, state) is not None


def _later_modes(
    now: MemoryState, made: MemoryState, messages: Sequence[BaseMessage]
) -> ModesState | None:
    """Return the modes of the state that has read further; None where neither has any.

    The mode is that of `now`: the session may have been switched since.
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


def _pointer(state: MemoryState) -> str | None:
    return state["summary"]["covers_to"] if state["summary"] else None


def _messages_after(messages: Sequence[BaseMessage], pointer: str | None) -> Sequence[BaseMessage]:
    named = with_ids(messages)
    for index in range(len(named) - 1, -1, -1):
        if named[index].id == pointer:
            return named[index + 1 :]
    return named


def _digests(messages: Sequence[BaseMessage]) -> tuple[tuple[str, str], ...]:
    return tuple((message.id or "", digest_of(as_said(message))) for message in messages)
