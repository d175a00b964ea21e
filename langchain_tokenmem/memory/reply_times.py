"""Times at which replies were complete, until the next call of their thread keeps them.

A node behind the model's sees when a reply is complete, but writes nothing: another node may write
the memory's state in the same step. Lost with the process; the reply then has no time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping

from langchain_tokenmem.background import ForkSafeLock

_MAX_CONVERSATIONS = 1_024
"""Conversations whose newest reply is kept; the oldest one goes first."""


class ReplyTimes:
    """The time of the newest replies of each conversation, as UTC in ISO 8601, by message id."""

    def __init__(self) -> None:
        self._times: OrderedDict[Hashable, Mapping[str, str]] = OrderedDict()
        self._lock = ForkSafeLock()

    def put(self, key: Hashable, times: Mapping[str, str]) -> None:
        """Keep the times of a conversation's newest replies, in the place of those before."""
        with self._lock:
            self._times.pop(key, None)
            self._times[key] = times
            if len(self._times) > _MAX_CONVERSATIONS:
                self._times.popitem(last=False)

    def of(self, key: Hashable) -> Mapping[str, str]:
        """Return the times of a conversation's newest replies; none where none is known."""
        with self._lock:
            return self._times.get(key, {})
