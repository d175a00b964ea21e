"""What is known of the messages of a list that is to be stored.

A list that goes on where it was left, as in nearly every step of a chat, is known object by
object; other messages by their id. Either is where it was stored if it still says the same. These
loops run in C where they can: half a microsecond to a whole one a message, most of it the memory's.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress, count
from operator import is_
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_tokenmem.storage.checkpoints.breath import AT_A_STRETCH, breathe
from langchain_tokenmem.storage.checkpoints.imprints import Imprint, are_same, imprinted


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
        imprints: What the messages of a stretch held, by the place of its first one.
    """

    objects: Sequence[BaseMessage]
    fields: Sequence[dict[str, Any] | None]
    references: array[int]
    hidden: Sequence[int]
    is_main: bool
    imprints: Mapping[int, Imprint]


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
        self.references = array("q", bytes(8 * len(messages)))
        self.new: Sequence[int] = range(len(messages))
        self.fresh_from = 0
        self.base: Run | None = None
        self._fields: list[dict[str, Any] | None] = [None] * len(messages)
        self._hidden: list[int] = []
        self._imprints: dict[int, Imprint] = {}
        self._shared = 0  # how many the base has, too
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
            rest = len(self.messages) - start
            self._fields = [*self.base.fields[:start], *[None] * rest]
            self.references = self.base.references[:start] + array("q", bytes(8 * rest))
            self._hidden = [at for at in self.base.hidden if at < start]
            imprints = self.base.imprints.items()
            self._imprints = {at: one for at, one in imprints if at + AT_A_STRETCH <= start}
            self.fresh_from = self._shared = start
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
        whole = self._shared // AT_A_STRETCH * AT_A_STRETCH
        for start in range(0, whole, AT_A_STRETCH):
            new += self._edited_in(slice(start, start + AT_A_STRETCH))
            breathe()
        # The last ones are new in nearly every step of a chat: apart, so that one comparison does
        # for all before them.
        size = self._unknown
        for start in range(whole, size, AT_A_STRETCH):
            new += self._changed_in(slice(start, min(start + AT_A_STRETCH, size)))
            breathe()
        new += self._changed_in(slice(size, len(self.messages)))
        if settled is not None:
            moving = (at for at in self._hidden if self.references[at] not in settled)
            new = sorted({*new, *moving})
        for index in new:
            self.references[index] = 0
        self.new = new

    def _edited_in(self, stretch: slice) -> Iterable[int]:
        """Do the same as `_changed_in` for a whole stretch of what was stored before."""
        messages, known = self.messages[stretch], self._imprints.get(stretch.start)
        if known is not None and known.fits(messages):
            return ()
        known = imprinted(messages, self._fields[stretch])
        if known is None:
            self._imprints.pop(stretch.start, None)
            return self._changed_in(stretch)
        self._imprints[stretch.start] = known
        return ()

    def _changed_in(self, stretch: slice) -> Iterable[int]:
        """Return the places in a stretch of the messages that do not say what is stored."""
        messages, fields = self.messages[stretch], self._fields[stretch]
        if are_same(fields, messages):
            return ()
        return compress(count(stretch.start), map(_is_changed, fields, messages))

    def hidden(self) -> list[int]:
        """Return the places of those that are known to be rows of contents."""
        return [at for at in self._hidden if self.references[at] < 0]

    def place(self, index: int, fields: dict[str, Any] | None, reference: int) -> None:
        """Take in where a new message was stored, and as what."""
        self._fields[index], self.references[index] = fields, reference
        # It may say something else by now than when it was looked at.
        self._imprints.pop(index // AT_A_STRETCH * AT_A_STRETCH, None)
        if reference < 0:
            self._hidden.append(index)

    def as_run(self) -> Run:
        """Return the list as a run."""
        hidden = sorted({*self.hidden()})
        objects = tuple(self.messages)
        return Run(objects, self._fields, self.references, hidden, self._is_main, self._imprints)


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


def _is_changed(fields: dict[str, Any] | None, message: BaseMessage) -> bool:
    return not are_same([fields], [message])
