"""Summaries made beside a graph's model call, handed over to its next one.

A graph keeps the memory's state in its own checkpoints, where no thread of ours may write. So a
summary waits here, and the next call takes it, provided that the conversation still begins with
what was summarized: after a fork, an edit or a removal it does not, and the summary is dropped.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from langchain_tokenmem.state import MemoryState

_MOST = 1_024
"""Conversations for which a summary may wait at the same time; the oldest one goes first."""


@dataclass(frozen=True)
class _Offer:
    """A finished summary.

    Attributes:
        pointer: Pointer of the state that it was made under; None for none.
        ids: Ids that it covers beyond that pointer, in order.
        state: The state with it.
    """

    pointer: str | None
    ids: tuple[str | None, ...]
    state: MemoryState


class Handover:
    """Keeps one finished summary for each conversation until it is taken."""

    def __init__(self) -> None:
        self._offers: OrderedDict[Hashable, _Offer] = OrderedDict()
        self._lock = threading.Lock()

    def put(
        self,
        key: Hashable,
        messages: Sequence[BaseMessage],
        before: MemoryState,
        after: MemoryState,
    ) -> None:
        """Offer the state that a compaction of `messages` under `before` has given."""
        if after["summary"] is None or after["summary"] == before["summary"]:
            return
        ids = _after(messages, _pointer(before))
        end = ids.index(after["summary"]["covers_to"]) + 1
        with self._lock:
            self._offers[key] = _Offer(_pointer(before), ids[:end], after)
            while len(self._offers) > _MOST:
                self._offers.popitem(last=False)

    def take(
        self, key: Hashable, messages: Sequence[BaseMessage], state: MemoryState
    ) -> MemoryState | None:
        """Return the state that waits for a conversation, if it still fits it.

        Cuts that were made meanwhile are kept: a form that a model has seen stays.
        """
        with self._lock:
            offer = self._offers.pop(key, None)
        if offer is None or offer.pointer != _pointer(state):
            return None
        ids = _after(messages, offer.pointer)
        if ids[: len(offer.ids)] != offer.ids:
            return None
        newer = set(ids[len(offer.ids) :])
        cuts = {name: cut for name, cut in state["cuts"].items() if name in newer}
        return {**offer.state, "cuts": {**cuts, **offer.state["cuts"]}}


def _pointer(state: MemoryState) -> str | None:
    return state["summary"]["covers_to"] if state["summary"] else None


def _after(messages: Sequence[BaseMessage], pointer: str | None) -> tuple[str | None, ...]:
    ids = tuple(message.id for message in messages)
    return ids[ids.index(pointer) + 1 :] if pointer in ids else ids
