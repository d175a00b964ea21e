"""Operations on the notes of one scope, as generators over the operations of a `BaseStore`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from langgraph.store.base import BaseStore, GetOp, Op, PutOp, SearchItem, SearchOp

from langchain_tokenmem.core.before_store import BeforeStore, text_as_kept
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.notes.known_notes import KnownNote, KnownNotes
from langchain_tokenmem.notes.lifetime import SessionLifetime
from langchain_tokenmem.notes.note import (
    Note,
    NoteLevel,
    checked_content,
    checked_key,
    checked_kind,
    checked_level,
    checked_tags,
    is_note_id,
    item_key_of,
    note_id,
    value_of,
)
from langchain_tokenmem.notes.reading import LevelReader
from langchain_tokenmem.notes.scope import Namespace, NoteScope
from langchain_tokenmem.notes.search import NoteRanker
from langchain_tokenmem.notes.store_work import StoreWork
from langchain_tokenmem.notes.tags import tags_in
from langchain_tokenmem.notes_state import Author

OptionalText = TypeVar("OptionalText", str, str | None)

_NEAREST = 50
"""Notes that are asked for by their vectors."""


@dataclass(frozen=True)
class NoteAddition:
    """The outcome of adding a note.

    Attributes:
        note: The note as it is stored now.
        is_stored: Whether it was written; False where the same content was there already.
        replaced: The note of the same key whose place it took.
        dropped: The oldest notes that went, because there were more than the limit.
    """

    note: Note
    is_stored: bool = True
    replaced: Note | None = None
    dropped: tuple[Note, ...] = ()


@dataclass(frozen=True)
class NoteOperations:
    """Operations on the notes of a scope.

    Attributes:
        scope: Whose notes, of which session and project.
        limit: Most notes of a level.
        now: Gives the time, in UTC.
        ranker: Ranks notes by a question.
        known: Reads notes; those that were read before are known.
        store: Keeps them.
        before_store: Changes texts before they are stored.
        by: Who asks for them: a tool changes no note of the application.
    """

    scope: NoteScope
    limit: int
    now: Callable[[], datetime]
    ranker: NoteRanker
    known: KnownNotes
    store: BaseStore
    before_store: BeforeStore | None = None
    by: Author = "application"

    def add(
        self,
        content: str,
        *,
        level: NoteLevel = "project",
        key: str | None = None,
        kind: str | None = None,
        tags: Iterable[str] = (),
        source: int | None = None,
    ) -> StoreWork[NoteAddition]:
        """Keep a note; arguments as for `Notebook.add`."""
        level, key = checked_level(level), checked_key(self._as_kept(checked_key(key)))
        content = checked_content(self._as_kept(checked_content(content)))
        given = checked_tags(map(self._as_kept, checked_tags(tags)))
        namespace = self.scope.namespace(level)
        here = yield from self._notes([level])
        twin = next((note for note in here if note.content == content), None)
        if twin is not None and key is None:
            return NoteAddition(twin, is_stored=False)
        replaced = next((note for note in here if key is not None and note.key == key), None)
        self._check(replaced)
        moved = [n for n in here if n.content == content and n.key is None and self._may_change(n)]
        moment = self.now()
        note = Note(
            id=note_id(content, {n.id for n in here if n not in moved and n != replaced}),
            content=content,
            type=level,
            created_at=replaced.created_at if replaced else moment,
            updated_at=moment,
            key=key,
            kind=checked_kind(kind),
            tags=tuple(dict.fromkeys([*given, *checked_tags(tags_in(content))])),
            project=self.scope.project if level == "project" else None,
            source=source,
            by=self.by,
        )
        yield [self._put(note, namespace), *_deletions(namespace, moved)]
        dropped: tuple[Note, ...] = ()
        if len(here) - len(moved) + (replaced is None) > self.limit:
            dropped = yield from self._drop_oldest(level, note)
        return NoteAddition(note, replaced=replaced, dropped=dropped)

    def _as_kept(self, text: OptionalText) -> OptionalText:
        return text_as_kept(self.before_store, text) if text else text

    def _may_change(self, note: Note) -> bool:
        return self.by in {"application", note.by}

    def _check(self, note: Note | None) -> None:
        """Raise where a tool is about to replace or remove a note of the application."""
        if note is not None and not self._may_change(note):
            raise ConfigurationError(f"{note.id} was written by the application; it stays.")

    def _put(self, note: Note, namespace: Namespace) -> PutOp:
        value = value_of(note, self.scope.user_id)
        if note.type != "session":
            return PutOp(namespace, note.item_key, value, index=["content"])
        lifetime = SessionLifetime.of(self.store)
        value |= lifetime.in_value(note.updated_at)
        return PutOp(namespace, note.item_key, value, index=["content"], ttl=lifetime.minutes)

    def _drop_oldest(self, level: NoteLevel, newest: Note) -> StoreWork[tuple[Note, ...]]:
        """Delete what is over the limit, and return it; read again, for others may write, too."""
        here = yield from self._notes([level])
        others = [note for note in _newest_first(here) if note.item_key != newest.item_key]
        older = [*filter(self._may_change, others)]
        dropped = older[max(0, len(older) + self.limit - len(here)) :]
        yield _deletions(self.scope.namespace(level), dropped)
        return tuple(dropped)

    def get(self, name: str, *, level: NoteLevel | None = None) -> StoreWork[Note | None]:
        """Return the note of a key or an id, of the nearest level; None where there is none."""
        levels = self._levels(level)
        is_id = is_note_id(name)
        name = name if is_id else self._as_kept(name)
        key = name if is_id else item_key_of(name)
        namespaces = [self.scope.namespace(each) for each in levels]
        gets = [GetOp(n, key, self._reader.lifetime.refreshes) for n in namespaces]
        items = yield gets
        for each, namespace, item in zip(levels, namespaces, items, strict=True):
            found = self._reader.of_item(item, each, namespace) if item is not None else None
            if found is not None and name in {found.note.id, found.note.key}:
                return found.note
        if not is_id:
            return None
        here = yield from self._notes(levels)  # a note that has a key is stored by that
        return next((note for note in here if note.id == name), None)

    def listed(
        self,
        *,
        level: NoteLevel | None = None,
        tags: Iterable[str] = (),
        limit: int | None = None,
    ) -> StoreWork[list[Note]]:
        """Return notes, the newest first; arguments as for `Notebook.list`."""
        wanted = {tag.casefold() for tag in checked_tags(tags)}
        here = yield from self._notes(self._levels(level))
        found = [note for note in here if wanted <= {tag.casefold() for tag in note.tags}]
        return _newest_first(found)[: None if limit is None else max(0, limit)]

    def remove(self, name: str, *, level: NoteLevel | None = None) -> StoreWork[Note | None]:
        """Delete the note of a key or an id, and return it; None where there is none."""
        note = yield from self.get(name, level=level)
        if note is not None:
            self._check(note)
            yield _deletions(self.scope.namespace(note.type), [note])
        return note

    def search(
        self,
        questions: Sequence[str],
        *,
        level: NoteLevel | None = None,
        tags: Iterable[str] = (),
        limit: int = 20,
    ) -> StoreWork[list[Note]]:
        """Return the notes that match the first question, then those that match the others."""
        wanted = {tag.casefold() for tag in checked_tags(tags)}
        levels = self._levels(level)
        here = yield from self._known_notes(levels)
        found = yield from self._ranked(here, questions, levels)
        return [n for n in found if wanted <= {t.casefold() for t in n.tags}][: max(0, limit)]

    def relevant(self, questions: Sequence[str]) -> StoreWork[tuple[list[Note], set[str]]]:
        """Return the notes that match the questions, the first one counts most; and all ids."""
        levels = self._levels(None)
        here = yield from self._known_notes(levels)
        found = yield from self._ranked(here, questions, levels)
        return found, {known.note.id for known in here}

    def _ranked(
        self, here: Sequence[KnownNote], questions: Sequence[str], levels: Sequence[NoteLevel]
    ) -> StoreWork[list[Note]]:
        """Return the notes that match, of the first question first; the same content once."""
        cosines: dict[str, float] = {}
        if self._has_vectors and here and questions and questions[0].strip():
            asked = questions[0]
            pages = yield [
                SearchOp(self.scope.namespace(each), limit=_NEAREST, query=asked) for each in levels
            ]
            cosines = _cosines(item for page in pages for item in page)
        found: dict[str, Note] = {}
        for ranking in self.ranker.rankings(here, questions, cosines):
            for note in ranking:
                found.setdefault(note.content, note)
        return list(found.values())

    @property
    def _has_vectors(self) -> bool:
        return bool(getattr(self.store, "index_config", None))

    def _levels(self, level: NoteLevel | None) -> tuple[NoteLevel, ...]:
        return self.scope.levels(None if level is None else checked_level(level))

    def _notes(self, levels: Sequence[NoteLevel]) -> StoreWork[list[Note]]:
        """Return all notes of some levels."""
        found = yield from self._known_notes(levels)
        return [known.note for known in found]

    def _known_notes(self, levels: Sequence[NoteLevel]) -> StoreWork[list[KnownNote]]:
        """Return all notes of some levels; what is no note of this scope is left out."""
        namespaces = {level: self.scope.namespace(level) for level in levels}
        return (yield from self._reader.notes(namespaces))

    @property
    def _reader(self) -> LevelReader:
        lifetime = SessionLifetime.of(self.store)
        return LevelReader(self.known, self.scope.user_id, self.store, self.now, lifetime)


def _deletions(namespace: Namespace, notes: Iterable[Note]) -> list[Op]:
    return [PutOp(namespace, note.item_key, None) for note in notes]


def _newest_first(notes: Iterable[Note]) -> list[Note]:
    return sorted(notes, key=lambda note: (note.updated_at, note.id), reverse=True)


def _cosines(items: Iterable[SearchItem]) -> dict[str, float]:
    """Return the scores of items by their content; a store without an index gives none."""
    return {
        item.value["content"]: item.score
        for item in items
        if item.score is not None and isinstance(item.value.get("content"), str)
    }
