"""Notes as they were read from a store before, with the terms by which they are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from langgraph.store.base import Item

from langchain_tokenmem.notes.note import Note, NoteLevel, note_of
from langchain_tokenmem.notes.scope import Namespace
from langchain_tokenmem.recall.lexical.analysis import MONTHS, TextAnalyser

_KNOWN_NOTES = 16_384
_KNOWN_LEVELS = 16


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
    def written_s(self) -> float:
        """Return when it was last written, in seconds since 1970."""
        return self.note.updated_at.timestamp()

    @cached_property
    def place(self) -> tuple[str, float]:
        """Return its place among the notes of several levels: by level and time."""
        return self.note.type, self.written_s

    @cached_property
    def length(self) -> int:
        """Return how many terms it has."""
        return self.terms.total()


@dataclass
class _Place:
    """The place of one version of a note among those that are known."""

    note: KnownNote | None = None
    is_read: bool = field(default=False)


@dataclass
class KnownLevel:
    """The notes of a level as they were read from a store that tells whether they are the same.

    Attributes:
        read: The store's version of the level, None for none, and its notes. One value, for
            several threads may read a level.
    """

    read: tuple[object, Sequence[KnownNote]] = (None, ())


class KnownNotes:
    """Reads the items of a store as notes; the same version of a note is read and analysed once.

    A question over 1,000 notes may take 10 ms. The first one of a process reads and analyses them
    all, and takes 30 times as long as the others (benchmarks/notes_question.py).

    Args:
        analyser: Makes the terms of notes.
    """

    def __init__(self, analyser: TextAnalyser) -> None:
        self._analyser = analyser
        self._place: Callable[..., _Place] = lru_cache(maxsize=_KNOWN_NOTES)(lambda *_: _Place())
        self._levels: Callable[..., KnownLevel] = lru_cache(_KNOWN_LEVELS)(lambda *_: KnownLevel())

    def level(self, store: Hashable, namespace: Namespace) -> KnownLevel:
        """Return what was read of a level of a store; nothing where that was long ago."""
        return self._levels(store, namespace)

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
