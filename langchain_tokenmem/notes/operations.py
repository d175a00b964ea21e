"""Operations on the notes of one scope, as generators over the operations of a `BaseStore`.

A generator yields a batch and takes its results, so that sync and async callers share every
decision: `run` and `arun` do the batches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from langgraph.store.base import GetOp, Item, Op, PutOp, SearchItem, SearchOp

from langchain_tokenmem.background import in_own_thread
from langchain_tokenmem.notes.known_notes import KnownNote, KnownNotes
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
from langchain_tokenmem.notes.scope import Namespace, NoteScope
from langchain_tokenmem.notes.search import NoteRanker
from langchain_tokenmem.notes.tags import tags_in

T = TypeVar("T")

StoreWork = Generator[list[Op], list[Any], T]

_PAGE = 1_000
"""Items that a store is asked for at a time; its own default is ten."""

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
        has_vectors: Whether the store has an index for search by meaning.
    """

    scope: NoteScope
    limit: int
    now: Callable[[], datetime]
    ranker: NoteRanker
    known: KnownNotes
    has_vectors: bool = False

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
        level, key = checked_level(level), checked_key(key)
        content = checked_content(content)
        given = checked_tags(tags)
        namespace = self.scope.namespace(level)
        here = yield from self._notes([level])
        twin = next((note for note in here if note.content == content), None)
        if twin is not None and key is None:
            return NoteAddition(twin, is_stored=False)
        replaced = next((note for note in here if key is not None and note.key == key), None)
        moved = [note for note in here if note.content == content and note.key is None]
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
        )
        value = value_of(note, self.scope.user_id)
        put = PutOp(namespace, note.item_key, value, index=["content"])
        yield [put, *_deletions(namespace, moved)]
        dropped: tuple[Note, ...] = ()
        if len(here) - len(moved) + (replaced is None) > self.limit:
            dropped = yield from self._drop_oldest(level, note)
        return NoteAddition(note, replaced=replaced, dropped=dropped)

    def _drop_oldest(self, level: NoteLevel, newest: Note) -> StoreWork[tuple[Note, ...]]:
        """Delete what is over the limit, and return it; read again, for others may write, too."""
        here = yield from self._notes([level])
        older = [note for note in _newest_first(here) if note.item_key != newest.item_key]
        dropped = older[max(0, self.limit - 1) :]
        yield _deletions(self.scope.namespace(level), dropped)
        return tuple(dropped)

    def get(self, name: str, *, level: NoteLevel | None = None) -> StoreWork[Note | None]:
        """Return the note of a key or an id, of the nearest level; None where there is none."""
        levels = self._levels(level)
        is_id = is_note_id(name)
        key = name if is_id else item_key_of(name)
        namespaces = [self.scope.namespace(each) for each in levels]
        items = yield [GetOp(namespace, key) for namespace in namespaces]
        for each, namespace, item in zip(levels, namespaces, items, strict=True):
            found = self._read(item, each, namespace) if item is not None else None
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
        if self.has_vectors and here and questions and questions[0].strip():
            asked = questions[0]
            pages = yield [
                SearchOp(self.scope.namespace(each), limit=_NEAREST, query=asked) for each in levels
            ]
            cosines = _cosines(item for page in pages for item in page)
        found: dict[str, Note] = {}
        for number, question in enumerate(questions):
            for each in self.ranker.ranked(here, question, cosines if number == 0 else None):
                found.setdefault(each.note.content, each.note)
        return list(found.values())

    def _levels(self, level: NoteLevel | None) -> tuple[NoteLevel, ...]:
        return self.scope.levels(None if level is None else checked_level(level))

    def _notes(self, levels: Sequence[NoteLevel]) -> StoreWork[list[Note]]:
        """Return all notes of some levels."""
        found = yield from self._known_notes(levels)
        return [known.note for known in found]

    def _known_notes(self, levels: Sequence[NoteLevel]) -> StoreWork[list[KnownNote]]:
        """Return all notes of some levels; what is no note of this scope is left out."""
        found: dict[tuple[NoteLevel, str], KnownNote] = {}
        namespaces = {level: self.scope.namespace(level) for level in levels}
        unread = dict.fromkeys(levels, 0)
        while unread:
            pages = yield [
                SearchOp(namespaces[level], limit=_PAGE, offset=offset)
                for level, offset in unread.items()
            ]
            unread_before, unread = unread, {}
            for (level, offset), page in zip(unread_before.items(), pages, strict=True):
                for item in page:
                    known = self._read(item, level, namespaces[level])
                    if known is not None:
                        found[level, item.key] = known
                if page:  # a store may have smaller pages than it is asked for
                    unread[level] = offset + len(page)
        return list(found.values())

    def _read(self, item: Item, level: NoteLevel, namespace: Namespace) -> KnownNote | None:
        """Return the note of an item; None for one of another scope, whatever a store brings."""
        if tuple(item.namespace) != namespace:
            return None
        return self.known.read(item, self.scope.user_id, level)


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


def run(work: StoreWork[T], batch: Callable[[list[Op]], list[Any]]) -> T:
    """Do the batches that a generator asks for, and return what it returns."""
    is_done, asked = _step(work, None)
    while not is_done:
        is_done, asked = _step(work, batch(asked) if asked else [])
    return asked  # type: ignore[no-any-return]  # the last one is the result


async def arun(work: StoreWork[T], abatch: Callable[[list[Op]], Awaitable[list[Any]]]) -> T:
    """Do the same as `run` without blocking the event loop: notes are read in a thread of ours."""
    is_done, asked = await in_own_thread(_step, work, None)
    while not is_done:
        results = await abatch(asked) if asked else []
        is_done, asked = await in_own_thread(_step, work, results)
    return asked  # type: ignore[no-any-return]  # the last one is the result


def _step(work: StoreWork[Any], results: list[Any] | None) -> tuple[bool, Any]:
    """Advance a generator; return whether it has ended, and its result or the next batch."""
    try:
        return False, next(work) if results is None else work.send(results)
    except StopIteration as end:
        return True, end.value
