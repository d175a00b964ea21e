"""Notes as they were read from a store before, with the terms by which they are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from langgraph.store.base import Item

from langchain_tokenmem.notes.note import Note, NoteLevel, note_of
from langchain_tokenmem.notes.scope import Namespace
from langchain_tokenmem.recall.analysis import MONTHS, TextAnalyser

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
    """The place of one version of a note among those that are known.

    Attributes:
        read: The value that the store had there, and its note; one value, for several threads may
            read it.
    """

    read: tuple[dict[str, Any] | None, KnownNote | None] = (None, None)


@dataclass(frozen=True)
class ReadLevel:
    """The notes of a level as they were read from a store that tells what has changed since.

    Attributes:
        versions: The store's version of each item, by its name there.
        by_name: The notes by the same names; None for an item that is none.
    """

    versions: Mapping[str, Any]
    by_name: Mapping[str, KnownNote | None]

    @cached_property
    def notes(self) -> tuple[KnownNote, ...]:
        """Return the notes of the items that hold one."""
        return tuple(note for note in self.by_name.values() if note is not None)

    def after(
        self, versions: Mapping[str, Any], changed: Mapping[str, KnownNote | None]
    ) -> ReadLevel:
        """Return the level as it is with the items that have changed since it was read."""
        if versions is self.versions:
            return self
        names = [*versions, *(name for name in changed if name not in versions)]
        held = self.by_name
        return ReadLevel(versions, {n: changed[n] if n in changed else held[n] for n in names})


@dataclass
class KnownLevel:
    """The last reading of a level, as one value, for several threads may read it."""

    read: ReadLevel = field(default_factory=lambda: ReadLevel({}, {}))


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
        held, known = place.read
        if held != value:  # a file can be changed by hand, and keep id and time
            note = note_of(value, user_id, level)
            is_own = note is not None and note.item_key == item.key
            known = KnownNote(note, self._analyser) if note is not None and is_own else None
            place.read = (dict(value), known)
        return known
