"""Summaries made beside a graph's model call, handed over to its next one.

A graph keeps the memory's state in its own checkpoints, where no thread of ours may write. So a
summary waits here, and the next call takes it, provided that the conversation still begins with
what was summarized: after a fork, an edit or a removal it does not, and the summary is left alone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import digest_of, with_ids
from langchain_tokenmem.state import MemoryState, new_state

_MOST = 1_024
"""Conversations for which a summary may wait at the same time; the oldest one goes first."""


@dataclass(frozen=True)
class _Offer:
    """A finished summary.

    Attributes:
        pointer: Pointer of the state that it was made under; None for none.
        covered: Ids and digests of what it covers beyond that pointer, in order.
        state: The state with it.
    """

    pointer: str | None
    covered: tuple[tuple[str, str], ...]
    state: MemoryState


class Handover:
    """Keeps one finished summary for each conversation until a call takes it."""

    def __init__(self) -> None:
        self._offers: OrderedDict[Hashable, _Offer] = OrderedDict()
        self._lock = threading.Lock()

    def put(
        self,
        key: Hashable,
        messages: Sequence[BaseMessage],
        before: MemoryState | None,
        after: MemoryState,
    ) -> None:
        """Offer the state that a compaction of `messages` under `before` has given."""
        old, summary = before or new_state(), after["summary"]
        if summary is None or summary == old["summary"]:
            return
        pointer = _pointer(old)
        tail = _after(messages, pointer)
        end = [message.id for message in tail].index(summary["covers_to"]) + 1
        with self._lock:
            self._offers.pop(key, None)
            self._offers[key] = _Offer(pointer, _said(tail[:end]), after)
            while len(self._offers) > _MOST:
                self._offers.popitem(last=False)

    def take(
        self, key: Hashable, messages: Sequence[BaseMessage], state: MemoryState | None
    ) -> MemoryState | None:
        """Return the state that waits for a conversation, if it fits; the given one else.

        Cuts that were made meanwhile are kept: a form that a model has seen stays.
        """
        with self._lock:
            offer = self._offers.get(key)
            now = state or new_state()
            if offer is None or offer.pointer != _pointer(now):
                return state
            tail = _after(messages, offer.pointer)
            size = len(offer.covered)
            if _said(tail[:size]) != offer.covered:
                return state
            del self._offers[key]
        newer = {message.id for message in tail[size:]}
        cuts = {name: cut for name, cut in now["cuts"].items() if name in newer}
        done = max(now["totals"]["compactions"], offer.state["totals"]["compactions"])
        return {
            **offer.state,
            "cuts": {**offer.state["cuts"], **cuts},
            "totals": {**offer.state["totals"], "compactions": done},
        }


def _pointer(state: MemoryState) -> str | None:
    return state["summary"]["covers_to"] if state["summary"] else None


def _after(messages: Sequence[BaseMessage], pointer: str | None) -> Sequence[BaseMessage]:
    named = with_ids(messages)
    for index in range(len(named) - 1, -1, -1):
        if named[index].id == pointer:
            return named[index + 1 :]
    return named


def _said(messages: Sequence[BaseMessage]) -> tuple[tuple[str, str], ...]:
    return tuple((message.id or "", digest_of(message)) for message in messages)
