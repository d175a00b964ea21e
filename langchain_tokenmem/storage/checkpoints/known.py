"""What is known of the messages of a list that is to be stored.

A list that goes on where it was left, as in nearly every step of a chat, is known object by
object; other messages by their id. Either is where it was stored if it still says the same. These
loops run in C where they can: about a microsecond a message, most of it the memory's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress, count
from operator import attrgetter, is_
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_tokenmem.storage.checkpoints.breath import breathe

_AT_ONCE = 1_000
"""Messages compared before other threads get their turn: about a millisecond."""

_FIELDS = attrgetter("__dict__")
_EXTRAS = attrgetter("__pydantic_extra__")


class Known(NamedTuple):
    """Where a message is stored, and what it says there.

    Attributes:
        fields: Its fields as they are stored; nobody changes them.
        kind: Its type.
        reference: Where it is stored.
    """

    fields: dict[str, Any]
    kind: type
    reference: int


class Run(NamedTuple):
    """A list of messages whose places are known.

    Attributes:
        objects: The messages; to hold them keeps them from being taken for others.
        fields: What each said when it was stored; None where that is not all it said.
        references: Where each is stored.
        hidden: The places of those that are rows of contents.
        is_main: Whether it was the value of the channel that is the transcript.
    """

    objects: Sequence[BaseMessage]
    fields: Sequence[dict[str, Any] | None]
    references: Sequence[int]
    hidden: Sequence[int]
    is_main: bool


class Found:
    """A list of messages, and where they are stored.

    Args:
        messages: The list.
        group_id: Number of the session in which they are looked for; None where it is unknown.
        is_main: Whether it is the value of the channel that is the transcript.

    Attributes:
        messages: The list.
        group_id: That number.
        references: Where each is stored, 0 for what is new.
        new: The places of what is new.
        fresh_from: Place behind the last of the messages that were given out or stored before:
            from there on nothing was said before. 0 where none of them was.
        base: The run that the list goes on from.
    """

    def __init__(
        self, messages: Sequence[BaseMessage], group_id: int | None, *, is_main: bool
    ) -> None:
        self.messages = messages
        self.group_id = group_id
        self._is_main = is_main
        self.references = [0] * len(messages)
        self.new: Sequence[int] = range(len(messages))
        self.fresh_from = 0
        self.base: Run | None = None
        self._fields: list[dict[str, Any] | None] = [None] * len(messages)
        self._hidden: list[int] = []
        self._unknown = len(messages)  # place of the first one that nothing is known of

    def look(self, runs: Iterable[Run], named: Mapping[str, Known]) -> None:
        """Take what is known, whether the messages still say it or not."""
        # What has no id may be said again in the same words: the transcript has it from the main
        # channel only.
        runs = [run for run in runs if run.is_main or not self._is_main]
        goes_on = (run for run in runs if _goes_on(self.messages, run))
        self.base = next(goes_on, None)
        start = 0
        if self.base is not None:
            start = min(len(self.base.objects), len(self.messages))
            self._fields[:start] = self.base.fields[:start]
            self.references[:start] = self.base.references[:start]
            self._hidden = [at for at in self.base.hidden if at < start]
            self.fresh_from = start
        unnamed = _without_ids(runs) if not all(one.id for one in self.messages[start:]) else {}
        for index, message in enumerate(self.messages[start:], start):
            one = named.get(message.id) if isinstance(message.id, str) else None
            if not message.id and id(message) in unnamed:
                one = unnamed[id(message)]
                self.fresh_from = index + 1
            if one is None or one.kind is not type(message):
                self._unknown = min(self._unknown, index)
                continue
            self._fields[index], self.references[index] = one.fields, one.reference
            if one.reference < 0:
                self._hidden.append(index)

    def check(self, settled: Collection[int] | None) -> None:
        """Decide what is new: what does not say the same, and what could be stored elsewhere.

        Args:
            settled: Rows of contents that stay there; others count as new. None: all stay.
        """
        new: list[int] = []
        # The last ones are new in nearly every step of a chat: apart, so that one comparison does
        # for all others.
        size = self._unknown
        for start in range(0, size, _AT_ONCE):
            part = slice(start, min(start + _AT_ONCE, size))
            if not _are_same(self._fields[part], self.messages[part]):
                new += self._changed_in(part)
            if start + _AT_ONCE < size:
                breathe()
        new += self._changed_in(slice(size, len(self.messages)))
        if settled is not None:
            moving = (at for at in self._hidden if self.references[at] not in settled)
            new = sorted({*new, *moving})
        for index in new:
            self.references[index] = 0
        self.new = new

    def _changed_in(self, part: slice) -> Iterable[int]:
        changed = map(_is_changed, self._fields[part], self.messages[part])
        return compress(count(part.start), changed)

    def hidden(self) -> list[int]:
        """Return the places of those that are known to be rows of contents."""
        return [at for at in self._hidden if self.references[at] < 0]

    def place(self, index: int, fields: dict[str, Any] | None, reference: int) -> None:
        """Take in where a new message was stored, and as what."""
        self._fields[index], self.references[index] = fields, reference
        if reference < 0:
            self._hidden.append(index)

    def as_run(self) -> Run:
        """Return the list as a run."""
        hidden = sorted({*self.hidden()})
        objects = tuple(self.messages)
        return Run(objects, self._fields, self.references, hidden, self._is_main)


def _without_ids(runs: Iterable[Run]) -> dict[int, Known]:
    """Return what is known of objects that have no id: where a list was cut they are no run."""
    return {
        id(message): Known(fields, type(message), reference)
        for run in runs
        for message, fields, reference in zip(run.objects, run.fields, run.references, strict=True)
        if fields is not None and not message.id
    }


def _goes_on(messages: Sequence[BaseMessage], run: Run) -> bool:
    return bool(run.objects) and all(map(is_, messages, run.objects))


def _are_same(fields: Sequence[dict[str, Any] | None], messages: Sequence[BaseMessage]) -> bool:
    """Return whether all messages say what they said, in one comparison."""
    try:
        return fields == list(map(_FIELDS, messages)) and not any(map(_EXTRAS, messages))
    except (TypeError, ValueError):  # values that cannot be compared, such as arrays
        return False


def _is_changed(fields: dict[str, Any] | None, message: BaseMessage) -> bool:
    return not _are_same([fields], [message])
