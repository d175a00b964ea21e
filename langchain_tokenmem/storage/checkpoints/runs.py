"""Lists of messages whose places are known, and what is known of a list that is to be stored.

A chat of thousands of messages is handed over with every step, so these loops run in C where they
can: about half a microsecond a message to know that it is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import compress, count, pairwise
from operator import attrgetter, is_
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_tokenmem.storage.checkpoints.breath import breathe

WORTH = 16
"""Messages in a list that is worth remembering as one; shorter ones are known by object."""

_AT_ONCE = 1_000
"""Messages compared before other threads get their turn: about half a millisecond."""

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

    @cached_property
    def places(self) -> dict[int, int]:
        """The place of each object, by its `id()`."""
        return dict(zip(map(id, self.objects), range(len(self.objects)), strict=True))

    @cached_property
    def hidden(self) -> list[int]:
        """The places of those that are rows of contents."""
        return hidden_in(self.references)


class Found:
    """What is known of a list of messages, as it is put together.

    Args:
        messages: The list.
        group_id: Number of the session in which they were looked for; None where it is unknown.

    Attributes:
        messages: The list.
        group_id: That number.
        fields: What each message said when it was stored.
        references: Where each is stored, 0 for what is new.
        new: The places of what is new.
        base: The run that the list goes on from.
    """

    def __init__(self, messages: Sequence[BaseMessage], group_id: int | None) -> None:
        self.messages = messages
        self.group_id = group_id
        self.fields: list[dict[str, Any] | None] = [None] * len(messages)
        self.references = [0] * len(messages)
        self.new: list[int] = []
        self.base: Run | None = None
        self._changed: list[int] = []

    def __len__(self) -> int:
        return len(self.messages)

    def take(self, run: Run) -> bool:
        """Look among the objects of a run; return whether nothing is left to look for."""
        size = min(len(run), len(self.messages))
        if size and all(map(is_, self.messages, run.objects)):
            # What goes on where it was left, as nearly every step of a chat does.
            self.fields[:size] = run.fields[:size]
            self.references[:size] = run.references[:size]
            self.base = run
            return True
        for index, place in enumerate(map(run.places.get, map(id, self.messages))):
            if place is not None and self.references[index] == 0:
                self.fields[index] = run.fields[place]
                self.references[index] = run.references[place]
        return 0 not in self.references

    def check(self) -> list[int]:
        """Return the places of those that do not say what they said, or were not found."""
        size = len(self)
        known = min(len(self.base), size) if self.base else size
        self._changed = []
        for start, end in [*pairwise([*range(0, known, _AT_ONCE), known]), (known, size)]:
            pairs = self.fields[start:end], self.messages[start:end]
            if not _are_same(*pairs):
                self._changed += compress(count(start), map(_is_changed, *pairs))
            if end < known:
                breathe()
        return self._changed

    def settle(self, learned: Mapping[int, Learned], settled: Collection[int] | None) -> None:
        """Decide what is new, with what was learned of those that had changed.

        Args:
            learned: What was learned of objects, by their place.
            settled: Rows of contents that stay there; others count as new. None: all stay.
        """
        found = self.references
        for index in self._changed:
            one = learned.get(index)
            if one is not None and not _is_changed(one.fields, self.messages[index]):
                found[index], self.fields[index] = one.reference, one.fields
            else:
                found[index] = 0
        self.new = [index for index in self._changed if found[index] == 0]
        moving = [
            index for index in self.hidden() if settled is not None and found[index] not in settled
        ]
        if moving:
            for index in moving:
                found[index] = 0
            self.new = sorted({*self.new, *moving})

    def hidden(self) -> list[int]:
        """Return the places of those that are known to be rows of contents."""
        if self.base is None:
            return hidden_in(self.references)
        places = {*self.base.hidden, *self._changed, *range(len(self.base), len(self.messages))}
        return [at for at in sorted(places) if at < len(self) and self.references[at] < 0]

    def place(self, one: Learned, index: int) -> None:
        """Take in where a new message was stored."""
        self.fields[index], self.references[index] = one.fields, one.reference

    def as_run(self) -> Run | None:
        """Return the list as a run; None when it tells nothing that its base does not."""
        if self.base is not None and len(self.base) >= len(self.messages) and not self._changed:
            return None
        run = Run(tuple(self.messages), self.fields, self.references)
        run.hidden = self.hidden()
        return run


def hidden_in(references: Sequence[int]) -> list[int]:
    """Return the places of the rows of contents among references."""
    if min(references, default=0) >= 0:
        return []
    return list(compress(count(), map((0).__gt__, references)))


def _are_same(fields: Sequence[dict[str, Any] | None], messages: Sequence[BaseMessage]) -> bool:
    """Return whether all messages say what they said, in one comparison."""
    try:
        return fields == list(map(_FIELDS, messages)) and not any(map(_EXTRAS, messages))
    except (TypeError, ValueError):  # values that cannot be compared, such as arrays
        return False


def _is_changed(fields: dict[str, Any] | None, message: BaseMessage) -> bool:
    try:
        return bool(message.__pydantic_extra__) or fields != message.__dict__
    except (TypeError, ValueError):
        return True
