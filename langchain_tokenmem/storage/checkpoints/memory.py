"""What a saver remembers of messages: decoded ones, and which objects are stored where.

A chat of thousands of messages is handed over with every step, so these loops run in C where they
can: about half a microsecond a message to know that it is stored.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import attrgetter, is_, ne, or_
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_tokenmem.storage.checkpoints.copies import Decoded, copied, prepared

_FIELDS = attrgetter("__dict__")
_EXTRAS = attrgetter("__pydantic_extra__")

AT_A_STRETCH = 200
"""Messages worked on before other threads get their turn: less than a millisecond."""

_RUNS = 8
"""Lists of messages handed out for one session that are remembered: runs at the same time."""


def breathe() -> None:
    """Let other threads run: an event loop would otherwise wait for Python's switch interval."""
    time.sleep(0)


class Learned(NamedTuple):
    """An object that is stored.

    Attributes:
        message: The object itself: while it is held, its `id()` is nobody else's.
        copy: What was stored; the object may be changed in place afterwards.
        reference: Where it is stored.
        is_settled: Whether the transcript has it, or never will.
    """

    message: BaseMessage
    copy: BaseMessage
    reference: int
    is_settled: bool

    @property
    def fields(self) -> dict[str, Any]:
        """What the object said when it was stored."""
        return self.copy.__dict__


class _Handed(NamedTuple):
    """Objects whose place is known; to hold them keeps their `id()` their own."""

    objects: Sequence[BaseMessage]
    fields: Sequence[dict[str, Any]]
    references: Sequence[int]
    places: dict[int, int]


class _Found:
    """What is known of a list of messages, as it is put together."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self._messages = messages
        self._fields: list[dict[str, Any] | None] = [None] * len(messages)
        self._references = [0] * len(messages)
        self._changed: list[int] = []

    def take(self, handed: _Handed) -> bool:
        """Look among objects that were handed out; return whether the list begins with them."""
        size = min(len(handed.objects), len(self._messages))
        if size and all(map(is_, self._messages, handed.objects)):
            # What goes on where it was left, as nearly every step of a chat does.
            self._fields[:size] = handed.fields[:size]
            self._references[:size] = handed.references[:size]
            return True
        for index, place in enumerate(map(handed.places.get, map(id, self._messages))):
            if place is not None and self._references[index] == 0:
                self._fields[index] = handed.fields[place]
                self._references[index] = handed.references[place]
        return False

    def check(self) -> list[int]:
        """Return the places of those that do not say what they said, or were not found."""
        try:
            changed = list(map(ne, self._fields, map(_FIELDS, self._messages)))
        except (TypeError, ValueError):  # values that cannot be compared, such as arrays
            changed = list(map(_is_changed, self._fields, self._messages))
        if any(map(_EXTRAS, self._messages)):
            changed = list(map(or_, changed, map(bool, map(_EXTRAS, self._messages))))
        self._changed = list(compress(range(len(changed)), changed))
        return self._changed

    def references(
        self, learned: Mapping[int, Learned], settled: Collection[int] | None
    ) -> tuple[list[int], list[int]]:
        """Return the references, with what was learned of those that had changed.

        Args:
            learned: What was learned of objects, by their place.
            settled: Rows of contents that stay there; others count as new. None: all stay.

        Returns:
            The references, 0 for what is new, and the places of those.
        """
        found = self._references
        for index in self._changed:
            one, message = learned.get(index), self._messages[index]
            is_known = one is not None and not message.__pydantic_extra__
            is_same = is_known and one is not None and not _is_changed(one.fields, message)
            found[index] = one.reference if one is not None and is_same else 0
        new = [index for index in self._changed if found[index] == 0]
        if settled is not None and min(found) < 0:
            moving = [n for n, number in enumerate(found) if number < 0 and number not in settled]
            for index in moving:
                found[index] = 0
            new = sorted({*new, *moving})
        return found, new


@dataclass
class _Group:
    decoded: dict[int, Decoded] = field(default_factory=dict)
    learned: dict[int, Learned] = field(default_factory=dict)
    handed: deque[_Handed] = field(default_factory=lambda: deque(maxlen=_RUNS))
    # Rows of contents whose message the transcript has, or never will.
    settled: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        handed = sum(len(one.objects) for one in self.handed)
        return len(self.decoded) + len(self.learned) + handed

    def shrink(self, size: int) -> None:
        """Forget what was kept first, until no more than `size` messages are left."""
        while len(self) > size and len(self.handed) > 1:
            self.handed.popleft()
        if len(self.settled) > size:
            self.settled.clear()
        for kept in (self.learned, self.decoded):
            if len(self) > size:
                for key in list(kept)[: len(self) - size // 2]:
                    del kept[key]


class MessageMemory:
    """A bounded memory of messages, safe to share between threads.

    The sessions used last stay. A message is given out as a copy, so that nobody's changes reach
    anybody else.

    Args:
        size: Most messages that are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._groups: OrderedDict[int, _Group] = OrderedDict()
        self._lock = threading.Lock()

    def remembered(self, group_id: int, references: Iterable[int]) -> dict[int, Decoded]:
        """Return the messages that are here, by reference."""
        with self._lock:
            decoded = self._group(group_id).decoded
            return {number: decoded[number] for number in references if number in decoded}

    def keep(
        self, group_id: int, messages: Mapping[int, BaseMessage], settled: Iterable[int]
    ) -> dict[int, Decoded]:
        """Remember messages that were read; nobody may change them any more.

        Args:
            group_id: The session.
            messages: The messages, by reference.
            settled: Those of the references that the transcript stands behind.
        """
        decoded = {number: prepared(message) for number, message in messages.items()}
        with self._lock:
            group = self._group(group_id)
            group.decoded.update(decoded)
            group.settled.update(settled)
            self._shrink(group_id)
        return decoded

    def give(
        self, group_id: int, references: Sequence[int], decoded: Mapping[int, Decoded]
    ) -> list[BaseMessage]:
        """Return copies of decoded messages, and remember where each copy is stored."""
        kept = list(map(decoded.__getitem__, references))
        given: list[BaseMessage] = []
        for start in range(0, len(kept), AT_A_STRETCH):
            given += map(copied, kept[start : start + AT_A_STRETCH])
            breathe()
        places = dict(zip(map(id, given), range(len(given)), strict=True))
        fields = [one.message.__dict__ for one in kept]
        with self._lock:
            self._group(group_id).handed.append(_Handed(given, fields, references, places))
            self._shrink(group_id)
        return given

    def known(
        self, group_id: int, messages: Sequence[BaseMessage], *, is_main: bool
    ) -> tuple[list[int], list[int]]:
        """Return where objects are stored.

        Args:
            group_id: The session.
            messages: The objects.
            is_main: Whether those that could move to the transcript count as new.

        Returns:
            Their references, 0 for those that are new or were changed, and the places of those.
        """
        found = _Found(messages)
        with self._lock:
            group = self._group(group_id)
            for handed in reversed(group.handed):
                if found.take(handed):
                    break
            learned = {
                index: one
                for index in found.check()
                if (one := group.learned.get(id(messages[index]))) is not None
            }
            settled = group.settled if is_main else None
            return found.references(learned, settled)

    def learn(self, group_id: int, learned: Sequence[Learned]) -> None:
        """Remember where objects are stored."""
        with self._lock:
            group = self._group(group_id)
            group.learned.update({id(one.message): one for one in learned})
            group.settled.update(one.reference for one in learned if one.is_settled)
            self._shrink(group_id)

    def forget(self, group_id: int) -> None:
        """Forget a session."""
        with self._lock:
            self._groups.pop(group_id, None)

    def _group(self, group_id: int) -> _Group:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = _Group()
        self._groups.move_to_end(group_id)
        return group

    def _shrink(self, group_id: int) -> None:
        total = sum(map(len, self._groups.values()))
        while total > self._size and len(self._groups) > 1:
            total -= len(self._groups.popitem(last=False)[1])
        self._groups[group_id].shrink(self._size)


def _is_changed(fields: dict[str, Any] | None, message: BaseMessage) -> bool:
    try:
        return fields != message.__dict__
    except (TypeError, ValueError):
        return True
