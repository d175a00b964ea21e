"""What a saver remembers of messages: decoded ones, and which objects are stored where."""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_tokenmem.storage.checkpoints.breath import AT_A_STRETCH, breathe
from langchain_tokenmem.storage.checkpoints.copies import Decoded, prepared
from langchain_tokenmem.storage.checkpoints.imprints import copies
from langchain_tokenmem.storage.checkpoints.known import Found, Known, Run, Stretch
from langchain_tokenmem.storage.checkpoints.spaces import Space

_RUNS = 8
"""Lists of messages of one session that are remembered: graphs that run at the same time."""

_WORTH = 16
"""Messages in a list that is worth remembering as one; what has no id is known by it alone."""

_NONE = Found([], None, [], {}, is_main=False)


class Lesson(NamedTuple):
    """What may be remembered of a message once the transaction that stored it is committed.

    Attributes:
        stored: What was stored.
        reference: Where it is stored.
        is_settled: Whether the transcript has it, or never will.
    """

    stored: Decoded
    reference: int
    is_settled: bool


@dataclass
class Lessons:
    """The messages that a transaction stored, and the lists whose places are known now."""

    stored: list[Lesson] = field(default_factory=list)
    lists: list[Found] = field(default_factory=list)


@dataclass
class _Group:
    number: int
    decoded: dict[int, Decoded] = field(default_factory=dict)
    named: dict[str, Known] = field(default_factory=dict)
    runs: deque[Run] = field(default_factory=lambda: deque(maxlen=_RUNS))
    # Rows of contents whose message the transcript has, or never will.
    settled: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.decoded) + len(self.named) + sum(len(run.objects) for run in self.runs)

    def learn(self, stored: Decoded, reference: int, *, is_settled: bool) -> None:
        """Remember where a message is, by its id."""
        message, fields = stored.message, stored.fields
        if message.id and isinstance(message.id, str) and fields is not None:
            self.named[message.id] = Known(fields, type(message), reference)
        if is_settled:
            self.settled.add(reference)

    def add(self, found: Found) -> None:
        """Remember a list, in place of the one that it goes on from."""
        kept = [run for run in self.runs if run is not found.base]
        self.runs.clear()
        self.runs.extend([*kept, found.as_run()])

    def shrink(self, size: int) -> None:
        """Forget what was kept first, until no more than `size` messages are left."""
        while len(self) > size and len(self.runs) > 1:
            self.runs.popleft()
        if len(self.settled) > size:
            self.settled.clear()
        every: list[dict[Any, Any]] = [self.named, self.decoded]
        for kept in every:
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
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        self._lock = threading.Lock()
        self._closings = 0

    def belong(self, closings: int) -> None:
        """Forget everything if the database was closed meanwhile: it may be another one now.

        Args:
            closings: How often it was closed.
        """
        with self._lock:
            if closings != self._closings:
                self._groups.clear()
                self._closings = closings

    def remembered(self, space: Space, references: Iterable[int]) -> dict[int, Decoded]:
        """Return the messages that are here, by reference."""
        with self._lock:
            decoded = self._group(space).decoded
            return {number: decoded[number] for number in references if number in decoded}

    def keep(
        self, space: Space, messages: Mapping[int, BaseMessage], settled: Collection[int]
    ) -> dict[int, Decoded]:
        """Remember messages that were read; nobody may change them any more.

        Args:
            space: Whose they are.
            messages: The messages, by reference.
            settled: Those of the references that the transcript stands behind.
        """
        decoded = {number: prepared(message) for number, message in messages.items()}
        with self._lock:
            group = self._group(space)
            group.decoded.update(decoded)
            for number, message in decoded.items():
                group.learn(message, number, is_settled=number > 0 or number in settled)
            self._shrink(group)
        return decoded

    def give(
        self,
        space: Space,
        references: Sequence[int],
        ranges: str,
        decoded: Mapping[int, Decoded],
        *,
        is_main: bool,
    ) -> list[BaseMessage]:
        """Return copies of decoded messages, and remember where each copy is stored.

        Args:
            space: Whose they are.
            references: Their references.
            ranges: The same as ranges.
            decoded: The messages, by reference.
            is_main: Whether they are the value of the channel that is the transcript.
        """
        kept = list(map(decoded.__getitem__, references))
        given: list[BaseMessage] = []
        stretches: list[Stretch] = []
        for start in range(0, len(kept), AT_A_STRETCH):
            some = kept[start : start + AT_A_STRETCH]
            made, imprint = copies(some)
            stretches.append(Stretch([one.fields for one in some], imprint))
            given += made
            breathe()
        hidden = [at for at, reference in enumerate(references) if reference < 0]
        run = Run(given, stretches, array("q", references), ranges, hidden, is_main)
        with self._lock:
            group = self._group(space)
            group.runs.append(run)
            self._shrink(group)
        return given

    def known(
        self,
        session_id: str,
        messages: Sequence[BaseMessage],
        *,
        is_main: bool,
        group_id: int | None = None,
    ) -> Found:
        """Return where objects are stored, as far as that is known.

        Args:
            session_id: The session.
            messages: The objects.
            is_main: Whether those that could move to the transcript count as new.
            group_id: Number of the session; None for the one that it had last.
        """
        if not messages:
            return _NONE
        with self._lock:
            group = self._groups.get(session_id)
            if group is None or group_id not in {None, group.number}:
                return Found(messages, group_id, [], {}, is_main=is_main)
            runs = [*reversed(group.runs)]
            found = Found(messages, group.number, runs, group.named, is_main=is_main)
            settled = group.settled if is_main else None
        found.check(settled)
        return found

    def learn(self, space: Space, lessons: Lessons) -> None:
        """Remember where messages are stored."""
        with self._lock:
            group = self._group(space)
            for stored, reference, is_settled in lessons.stored:
                group.learn(stored, reference, is_settled=is_settled)
            for found in lessons.lists:
                if len(found.messages) >= _WORTH or not all(one.id for one in found.messages):
                    group.add(found)
            self._shrink(group)

    def forget(self, session_id: str) -> None:
        """Forget a session."""
        with self._lock:
            self._groups.pop(session_id, None)

    def _group(self, space: Space) -> _Group:
        group = self._groups.get(space.session_id)
        if group is None or group.number != space.group_id:
            group = self._groups[space.session_id] = _Group(space.group_id)
        self._groups.move_to_end(space.session_id)
        return group

    def _shrink(self, group: _Group) -> None:
        total = sum(map(len, self._groups.values()))
        while total > self._size and len(self._groups) > 1:
            total -= len(self._groups.popitem(last=False)[1])
        group.shrink(self._size)
