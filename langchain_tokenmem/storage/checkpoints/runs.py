"""Lists of messages whose places are known, and what is known of a list that is to be stored.

A chat of thousands of messages is handed over with every step, so these loops run in C where they
can: about half a microsecond a message to know that it is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress, count, repeat
from operator import attrgetter, is_, ne, or_
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

WORTH = 16
"""Messages in a list that is worth remembering as one; shorter ones are looked up by object."""

_FIELDS = attrgetter("__dict__")
_EXTRAS = attrgetter("__pydantic_extra__")


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


class Run:
    """Objects whose place is known; to hold them keeps their `id()` their own.

    Args:
        objects: The messages.
        fields: What each said when it was stored.
        references: Where each is stored.
    """

    def __init__(
        self,
        objects: Sequence[BaseMessage],
        fields: Sequence[dict[str, Any] | None],
        references: Sequence[int],
    ) -> None:
        self.objects = objects
        self.fields = fields
        self.references = references

    def __len__(self) -> int:
        return len(self.objects)

    def places_of(self, messages: Sequence[BaseMessage]) -> Iterator[int | None]:
        """Yield the place of each message, None where it is no object of the run."""
        if len(messages) < WORTH:  # to look through the run is faster than to make a table of it
            for message in messages:
                yield next(compress(count(), map(is_, repeat(message), self.objects)), None)
        else:
            yield from map(self._places.get, map(id, messages))

    @cached_property
    def _places(self) -> dict[int, int]:
        return dict(zip(map(id, self.objects), range(len(self.objects)), strict=True))


class Found:
    """What is known of a list of messages, as it is put together.

    Args:
        messages: The list.

    Attributes:
        messages: The list.
        fields: What each message said when it was stored.
        references: Where each is stored, 0 for what is new.
        new: The places of what is new.
        base: The run that the list goes on from.
    """

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self.messages = messages
        self.fields: list[dict[str, Any] | None] = [None] * len(messages)
        self.references = [0] * len(messages)
        self.new: list[int] = []
        self.base: Run | None = None
        self._changed: list[int] = []

    def take(self, run: Run) -> bool:
        """Look among the objects of a run; return whether nothing is left to look for."""
        size = min(len(run), len(self.messages))
        if size and all(map(is_, self.messages, run.objects)):
            # What goes on where it was left, as nearly every step of a chat does.
            self.fields[:size] = run.fields[:size]
            self.references[:size] = run.references[:size]
            self.base = run
            return True
        for index, place in enumerate(run.places_of(self.messages)):
            if place is not None and self.references[index] == 0:
                self.fields[index] = run.fields[place]
                self.references[index] = run.references[place]
        return 0 not in self.references

    def check(self) -> list[int]:
        """Return the places of those that do not say what they said, or were not found."""
        try:
            changed = list(map(ne, self.fields, map(_FIELDS, self.messages)))
        except (TypeError, ValueError):  # values that cannot be compared, such as arrays
            changed = list(map(_is_changed, self.fields, self.messages))
        if any(map(_EXTRAS, self.messages)):
            changed = list(map(or_, changed, map(bool, map(_EXTRAS, self.messages))))
        self._changed = list(compress(range(len(changed)), changed))
        return self._changed

    def settle(self, learned: Mapping[int, Learned], settled: Collection[int] | None) -> None:
        """Decide what is new, with what was learned of those that had changed.

        Args:
            learned: What was learned of objects, by their place.
            settled: Rows of contents that stay there; others count as new. None: all stay.
        """
        found = self.references
        for index in self._changed:
            one, message = learned.get(index), self.messages[index]
            is_known = one is not None and not message.__pydantic_extra__
            if one is not None and is_known and not _is_changed(one.fields, message):
                found[index], self.fields[index] = one.reference, one.fields
            else:
                found[index] = 0
        self.new = [index for index in self._changed if found[index] == 0]
        if settled is not None and min(found) < 0:
            hidden = compress(range(len(found)), map((0).__gt__, found))
            moving = [index for index in hidden if found[index] not in settled]
            for index in moving:
                found[index] = 0
            self.new = sorted({*self.new, *moving})

    def place(self, one: Learned, index: int) -> None:
        """Take in where a new message was stored."""
        self.fields[index], self.references[index] = one.fields, one.reference

    def as_run(self) -> Run | None:
        """Return the list as a run; None when it tells nothing that its base does not."""
        if self.base is not None and len(self.base) >= len(self.messages) and not self._changed:
            return None
        return Run(tuple(self.messages), self.fields, self.references)


def _is_changed(fields: dict[str, Any] | None, message: BaseMessage) -> bool:
    try:
        return fields != message.__dict__
    except (TypeError, ValueError):
        return True
