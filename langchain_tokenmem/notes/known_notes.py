"""Notes as they were read from a store before, with the terms by which they are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from langgraph.store.base import Item

from langchain_tokenmem.notes.note import Note, NoteLevel, note_of
from langchain_tokenmem.recall.lexical.analysis import MONTHS, TextAnalyser

_KNOWN_NOTES = 16_384


@dataclass(frozen=True)
class KnownNote:
    """A note with its terms.

    Attributes:
        note: The note.
        analyser: Makes the terms, when they are first asked for.
    """

    note: Note
    analyser: TextAnalyser

    @cached_property
    def terms(self) -> Counter[str]:
        """Return how often each term occurs in content, key, tags and date."""
        note, day = self.note, self.note.updated_at
        date = f"{day.day} {MONTHS[day.month - 1]} {day.year}"
        text = "\n".join((note.content, note.key or "", *note.tags, date))
        return Counter(self.analyser.terms(text))

    @cached_property
    def length(self) -> int:
        """Return how many terms it has."""
        return self.terms.total()


@dataclass
class _Place:
    """The place of one version of a note among those that are known."""

    note: KnownNote | None = None
    is_read: bool = field(default=False)


class KnownNotes:
    """Reads the items of a store as notes; the same version of a note is read and analysed once.

    A question over 1,000 notes may take 10 ms. On a busy machine the first one, which reads and
    analyses them all, took 279 ms, the others 8.7 (benchmarks/notes_recall.py --time).

    Args:
        analyser: Makes the terms of notes.
    """

    def __init__(self, analyser: TextAnalyser) -> None:
        self._analyser = analyser
        self._place: Callable[..., _Place] = lru_cache(maxsize=_KNOWN_NOTES)(lambda *_: _Place())

    def read(self, item: Item, user_id: str | None, level: NoteLevel) -> KnownNote | None:
        """Return the note of an item; None where it is none, or another user's."""
        value = item.value
        if value.get("user_id") != user_id:
            return None
        version = (item.key, value.get("id"), value.get("updated_at"), user_id, level)
        try:
            place = self._place(*version)
        except TypeError:  # what cannot be a key is no id and no time
            return None
        if not place.is_read:
            note = note_of(value, user_id, level)
            is_own = note is not None and note.item_key == item.key
            place.note = KnownNote(note, self._analyser) if note is not None and is_own else None
            place.is_read = True
        return place.note
