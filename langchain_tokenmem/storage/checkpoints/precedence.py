"""Which of two writers of a namespace goes first: a checkpoint, or the writes that it takes up."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import Event

_YIELDS = 2
"""Times that pending writes let others run: the graph, and the thread of its next checkpoint."""

_PATIENCE = 1
"""Seconds that they wait for that one at most; they may be stored in any order."""


class Precedence:
    """Lets pending writes wait for a checkpoint that is being stored.

    LangGraph hands over the writes of a step and, right after, the checkpoint that takes them up,
    each in a thread of its own; it minds their order itself where it matters. Writes that come
    first store their messages apart, and hold up the checkpoint, which moves the messages to where
    they stay. Writes that come after it find them there.
    """

    def __init__(self) -> None:
        self._storing: dict[Hashable, Event] = {}

    @contextmanager
    def storing(self, namespace: Hashable) -> Iterator[None]:
        """Store a checkpoint of a namespace."""
        is_over = self._storing[namespace] = Event()
        try:
            yield
        finally:
            is_over.set()
            if self._storing.get(namespace) is is_over:
                self._storing.pop(namespace, None)

    def give_way(self, namespace: Hashable) -> None:
        """Wait for the checkpoint of a namespace that was begun last, if it is being stored."""
        for _ in range(_YIELDS):
            time.sleep(0)  # gives up Python's lock, and does not wait
        is_over = self._storing.get(namespace)
        if is_over is not None:
            is_over.wait(_PATIENCE)
