"""The lists of messages that checkpoints were read with last, so that the next read is a copy.

Of 2,000 messages, a get takes 0.85 of SqliteSaver's CPU without it and 0.5 with it
(`benchmarks/checkpoint_growth.py`), once a process has read the thread twice.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

_MOST = 64_000_000
"""Bytes of all lists together."""

_PARTS = 32
"""Parts that a list may have grown in before it is packed anew."""

_Key = tuple[int, int]
"""A session, and the number of the first message: a session may have several channels."""


@dataclass(frozen=True)
class KnownList:
    """A list that was read.

    Attributes:
        numbers: The numbers of its messages.
        parts: The messages, pickled: that is the fastest copy, and nobody shares an object with it.
            What is unpickled never left this process.
        said: Hash of what they say.
    """

    numbers: list[int]
    parts: list[bytes]
    said: hashlib.blake2b | None

    @property
    def size(self) -> int:
        """Its bytes, and about those of its numbers and of the list itself."""
        return sum(map(len, self.parts)) + 8 * len(self.numbers) + 500


_NOTHING = KnownList([], [], None)


class MessageCache:
    """Keeps the newest list of each channel of each session; everybody gets a copy.

    A list is known again by its hash in the checkpoint, whoever wrote that: what was edited, or
    stored anew under an old number, has another one.
    """

    def __init__(self) -> None:
        self._lists: OrderedDict[_Key, KnownList] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(
        self,
        session: int,
        numbers: list[int],
        said: bytes | None,
        read: Callable[[Sequence[int]], list[BaseMessage]],
        hashed: Callable[..., hashlib.blake2b | None],
    ) -> list[BaseMessage]:
        """Return messages of a session by their numbers; what is not known is read.

        Args:
            session: The session.
            numbers: The messages.
            said: Hash of what they say; None where nobody knows.
            read: Reads messages.
            hashed: Hashes what messages say, gone on from the hash of those before them.
        """
        if said is None or not numbers:
            return read(numbers)
        key = session, numbers[0]
        known = self._lists.get(key)
        if known is None:  # whoever reads a thread once shall not pay for the next time
            self._keep(key, _NOTHING)
            return read(numbers)
        if numbers[: len(known.numbers)] != known.numbers:
            known = _NOTHING
        tail = read(numbers[len(known.numbers) :])
        now = hashed(tail, known.said) if tail else known.said
        if now is None or now.digest() != said:
            self._keep(key, _NOTHING)
            return read(numbers) if known.numbers else tail
        found = [message for part in known.parts for message in pickle.loads(part)]  # noqa: S301
        if tail:
            is_long = len(known.parts) >= _PARTS
            parts = _packed([*found, *tail]) if is_long else known.parts + _packed(tail)
            self._keep(key, KnownList(numbers, parts, now))
        return found + tail

    def _keep(self, key: _Key, new: KnownList) -> None:
        with self._lock:
            old = self._lists.pop(key, None)
            self._lists[key] = new
            self._size += new.size - (old.size if old else 0)
            while self._size > _MOST:
                self._size -= self._lists.popitem(last=False)[1].size


def _packed(messages: list[BaseMessage]) -> list[bytes]:
    return [pickle.dumps(messages, protocol=pickle.HIGHEST_PROTOCOL)]
