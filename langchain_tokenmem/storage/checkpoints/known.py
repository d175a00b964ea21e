"""What is known of the messages of a list that is to be stored.

A list that goes on where it was left, as in nearly every step of a chat, is known object by
object; other messages by their id. Either is where it was stored if it still says the same. These
loops run in C where they can: every step of a chat goes through all of its messages.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, compress, count
from operator import attrgetter, is_
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langchain_tokenmem.storage.checkpoints.breath import AT_A_STRETCH, breathe
from langchain_tokenmem.storage.checkpoints.imprints import Imprint, are_same, imprinted
from langchain_tokenmem.storage.checkpoints.shapes import to_ranges

_FIELDS = attrgetter("fields")


class Known(NamedTuple):
    """Where a message is stored, and what it says there.

    Attributes:
        fields: Its fields as they are stored; nobody changes them. None where that is not all.
        kind: Its type.
        reference: Where it is stored.
    """

    fields: dict[str, Any] | None
    kind: type
    reference: int


class Stretch(NamedTuple):
    """What is known of messages that are looked at together; shared, and never changed.

    Attributes:
        fields: What each said when it was stored; None where that is not all it said.
        imprint: What the first ones of them held then, the very objects; no more than the fields.
    """

    fields: Sequence[dict[str, Any] | None]
    imprint: Imprint | None


class Run(NamedTuple):
    """A list of messages whose places are known.

    Attributes:
        objects: The messages; to hold them keeps them from being taken for others.
        stretches: What is known of each `AT_A_STRETCH` of them.
        references: Where each is stored.
        ranges: The same as ranges.
        hidden: The places of those that are rows of contents.
        is_main: Whether it was the value of the channel that is the transcript.
    """

    objects: Sequence[BaseMessage]
    stretches: Sequence[Stretch]
    references: array[int]
    ranges: str
    hidden: Sequence[int]
    is_main: bool


class Found:
    """A list of messages, and where they are stored, whether they still say it or not.

    Args:
        messages: The list; nobody changes it any more.
        group_id: Number of the session in which they are looked for; None where it is unknown.
        runs: The lists whose places are known there, the last one first.
        named: What is known of single messages, by their id.
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
        self,
        messages: Sequence[BaseMessage],
        group_id: int | None,
        runs: Iterable[Run],
        named: Mapping[str, Known],
        *,
        is_main: bool,
    ) -> None:
        self.messages = messages
        self.group_id = group_id
        self._is_main = is_main
        self.new: Sequence[int] = range(len(messages))
        # What has no id may be said again in the same words: the transcript has it from the main
        # channel only.
        runs = [run for run in runs if run.is_main or not is_main]
        self.base = next((run for run in runs if _goes_on(messages, run)), None)
        base = self.base or _NOTHING
        self._shared = self.fresh_from = start = min(len(base.objects), len(messages))
        whole, rest = divmod(start, AT_A_STRETCH)
        self._stretches = [*base.stretches[:whole]]
        begun = base.stretches[whole] if rest else Stretch([], None)
        fields = [*begun.fields[:rest]]
        # What an imprint says of objects that are not in this list would be taken for others.
        is_here = begun.imprint is not None and begun.imprint.size <= rest
        self.references = base.references[:start]
        self._hidden = [at for at in base.hidden if at < start]
        self._unknown = len(messages)  # place of the first one that nothing is known of
        unnamed = _without_ids(runs) if not all(one.id for one in messages[start:]) else {}
        for index, message in enumerate(messages[start:], start):
            one = named.get(message.id) if isinstance(message.id, str) else None
            if not message.id and id(message) in unnamed:
                one = unnamed[id(message)]
                self.fresh_from = index + 1
            if one is None or one.kind is not type(message):
                self._unknown = min(self._unknown, index)
                one = _UNKNOWN
            fields.append(one.fields)
            self.references.append(one.reference)
            if one.reference < 0:
                self._hidden.append(index)
        for at in range(0, len(fields), AT_A_STRETCH):
            imprint = begun.imprint if is_here and at == 0 else None
            self._stretches.append(Stretch(fields[at : at + AT_A_STRETCH], imprint))

    def check(self, settled: Collection[int] | None) -> None:
        """Decide what is new: what does not say the same, and what could be stored elsewhere.

        Args:
            settled: Rows of contents that stay there; others count as new. None: all stay.
        """
        new: list[int] = []
        for number in range(len(self._stretches)):
            new += self._changed_in(number)
            breathe()
        if settled is not None:
            moving = (at for at in self._hidden if self.references[at] not in settled)
            new = sorted({*new, *moving})
        for index in new:
            self.references[index] = 0
        self.new = new

    def _changed_in(self, number: int) -> list[int]:
        """Return the places in a stretch of the messages that do not say what is stored."""
        start = number * AT_A_STRETCH
        fields, imprint = self._stretches[number]
        end = start + len(fields)
        seen = start
        if imprint is not None and imprint.fits(self.messages[start : start + imprint.size]):
            seen = start + imprint.size
        elif end <= self._shared and len(fields) == AT_A_STRETCH:
            imprint = imprinted(self.messages[start:end], fields)
            self._stretches[number] = Stretch(fields, imprint)
            seen = start if imprint is None else end
        changed: list[int] = []
        # The last ones are new in nearly every step of a chat: apart, so that one comparison does
        # for all before them.
        for cut in (min(self._unknown, end), end):
            if seen < cut:
                some = fields[seen - start : cut - start]
                changed += _changed(some, self.messages[seen:cut], seen)
                seen = cut
        return changed

    def hidden(self) -> list[int]:
        """Return the places of those that are known to be rows of contents."""
        return [at for at in self._hidden if self.references[at] < 0]

    def place(self, index: int, fields: dict[str, Any] | None, reference: int) -> None:
        """Take in where a new message was stored, and as what."""
        number, at = divmod(index, AT_A_STRETCH)
        known, imprint = self._stretches[number]
        # It may say something else by now than when it was looked at.
        fits = imprint is not None and at >= imprint.size
        known = [*known[:at], fields, *known[at + 1 :]]
        self._stretches[number] = Stretch(known, imprint if fits else None)
        self.references[index] = reference
        if reference < 0:
            self._hidden.append(index)

    @cached_property
    def ranges(self) -> str:
        """The references as ranges; every message is placed by then."""
        base = self.base or _NOTHING
        is_longer = len(base.objects) == self._shared <= min(self.new, default=self._shared)
        known = self._shared if is_longer else 0
        return to_ranges(self.references[known:], after=base.ranges if known else "")

    def as_run(self) -> Run:
        """Return the list as a run."""
        hidden = sorted({*self.hidden()})
        return Run(
            self.messages, self._stretches, self.references, self.ranges, hidden, self._is_main
        )


_NOTHING = Run([], [], array("q"), "", [], is_main=True)
_UNKNOWN = Known(None, BaseMessage, 0)


def _without_ids(runs: Iterable[Run]) -> dict[int, Known]:
    """Return what is known of objects that have no id: where a list was cut they are no run."""
    return {
        id(message): Known(fields, type(message), reference)
        for run in runs
        for message, fields, reference in zip(
            run.objects,
            chain.from_iterable(map(_FIELDS, run.stretches)),
            run.references,
            strict=True,
        )
        if fields is not None and not message.id
    }


def _changed(
    fields: Sequence[dict[str, Any] | None], messages: Sequence[BaseMessage], start: int
) -> Iterable[int]:
    """Return the places, counted from `start`, of messages that do not say what is stored."""
    if are_same(fields, messages):
        return ()
    return compress(count(start), map(_is_changed, fields, messages))


def _goes_on(messages: Sequence[BaseMessage], run: Run) -> bool:
    return bool(run.objects) and all(map(is_, messages, run.objects))


def _is_changed(fields: dict[str, Any] | None, message: BaseMessage) -> bool:
    return not are_same([fields], [message])
