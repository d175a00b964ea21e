"""`ScopedNotes`: the notes of one user, session and project in a LangGraph store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from langgraph.store.base import BaseStore, GetOp, Item, PutOp, SearchItem, SearchOp
from pydantic import ValidationError

from langchain_tokenmem.core.argument_checks import checked_choice, text_as_kept
from langchain_tokenmem.core.stored_items import Namespace
from langchain_tokenmem.core.thread_names import (
    check_characters,
    namespace_label,
    notes_of_session,
    notes_of_user,
)
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.notes.item_store import ItemStore
from langchain_tokenmem.notes.note import (
    LEVELS,
    Note,
    NoteLevel,
    checked_content,
    checked_key,
    checked_kind,
    checked_tags,
    is_expired,
    is_note_id,
    item_key_of,
    note_id,
    note_of,
    tags_in,
    value_of,
)
from langchain_tokenmem.state import Author

if TYPE_CHECKING:
    from langchain_tokenmem.notes.notebook import Notebook

logger = logging.getLogger(__name__)

OptionalText = TypeVar("OptionalText", str, str | None)

Batch = Callable[[list[Any]], list[Any]]
"""Executes operations of a `BaseStore`, like its `batch`."""

_PAGE = 1_024
"""Items per request to a store; its own default is ten."""

_NEAREST = 50
"""Notes to search by their vectors."""


@dataclass(frozen=True)
class NoteAddition:
    """The outcome of adding a note.

    Attributes:
        note: The note as it is stored now.
        is_stored: Whether it was written; False if the same content was already stored.
        replaced: The note with the same key that it replaced.
        dropped: The oldest notes, deleted because the level was over its limit.
    """

    note: Note
    is_stored: bool = True
    replaced: Note | None = None
    dropped: tuple[Note, ...] = ()


@dataclass(frozen=True)
class ScopedNotes:
    """The notes of a scope: adds, finds and removes them.

    Attributes:
        book: Its notebook.
        store: Keeps them.
        user_id: The user; None if the call names none: then there are only notes of the session.
        session_id: The session or thread.
        by: The caller: a tool cannot change a note by the application.
    """

    book: Notebook
    store: BaseStore
    user_id: str | None
    session_id: str | None
    by: Author = "application"

    def __post_init__(self) -> None:
        check_scope(self.user_id, self.session_id)

    def namespace(self, level: NoteLevel) -> Namespace:
        """Return the namespace of a level.

        Raises:
            ScopeError: When the level needs a session or a user that the call does not name.
        """
        if level == "session":
            if self.session_id is None:
                raise ScopeError(
                    "A session note belongs to a session: name it with session_id, in a graph "
                    'with {"configurable": {"thread_id": "..."}}.'
                )
            return notes_of_session(self.user_id, self.session_id)
        if self.user_id is None:
            raise ScopeError(
                f"A {level} note belongs to a user: name them with user_id, in a graph with "
                '{"configurable": {"user_id": "..."}}. Where this process has one user only, '
                'declare them: Notebook(local_user="me").'
            )
        own = (*notes_of_user(self.user_id), level)
        return own if level == "global" else (*own, namespace_label(self.book.project.id))

    def levels(self, level: NoteLevel | None = None) -> tuple[NoteLevel, ...]:
        """Return the given level, or all that the call's user and session allow.

        Raises:
            ScopeError: When there is none.
            ConfigurationError: When there is no such level.
        """
        if level is not None:
            checked_choice(level, NoteLevel, "level")
            self.namespace(level)
            return (level,)
        found = tuple(
            each
            for each in LEVELS
            if (self.session_id if each == "session" else self.user_id) is not None
        )
        if not found:
            self.namespace("global")
        return found

    def add(
        self,
        content: str,
        *,
        level: NoteLevel = "project",
        key: str | None = None,
        kind: str | None = None,
        tags: Iterable[str] = (),
        source: int | None = None,
    ) -> NoteAddition:
        """Keep a note; arguments as for `Notebook.add`. Expired notes of the level are deleted."""
        level = checked_choice(level, NoteLevel, "level")
        key = checked_key(self._as_kept(checked_key(key)))
        content = checked_content(self._as_kept(checked_content(content)))
        given = checked_tags(map(self._as_kept, checked_tags(tags)))
        (items,) = self._items([level])
        here = self._notes_of(items, level)
        twin = next((note for note in here if note.content == content), None)
        if twin is not None and key is None:
            return NoteAddition(twin, is_stored=False)
        replaced = next((note for note in here if key is not None and note.key == key), None)
        self._check(replaced)
        moved = [n for n in here if n.content == content and n.key is None and self._may_change(n)]
        moment = self.book.now()
        note = Note(
            id=note_id(content, {n.id for n in here if n not in moved and n != replaced}),
            content=content,
            type=level,
            created_at=replaced.created_at if replaced else moment,
            updated_at=moment,
            key=key,
            kind=checked_kind(kind),
            tags=tuple(dict.fromkeys([*given, *checked_tags(tags_in(content))])),
            project=self.book.project if level == "project" else None,
            source=source,
            by=self.by,
        )
        expired = {item.key for item in items if is_expired(item.value, self.book.now)}
        gone = (expired | {n.item_key for n in moved}) - {note.item_key}
        self._batch([self._put(note), *self._deletions(level, gone)])
        dropped: tuple[Note, ...] = ()
        if len(here) - len(moved) + (replaced is None) > self.book.limit:
            dropped = self._drop_oldest(level, note)
        return NoteAddition(note, replaced=replaced, dropped=dropped)

    def get(self, name: str, *, level: NoteLevel | None = None) -> Note | None:
        """Return the note with a key or an id, of the nearest level, or None if there is none."""
        levels = self.levels(level)
        is_id = is_note_id(name)
        name = name if is_id else self._as_kept(name)
        key = name if is_id else item_key_of(name)
        items = self._batch([GetOp(self.namespace(each), key, False) for each in levels])
        pairs = zip(levels, items, strict=True)
        notes = [note for each, item in pairs if item for note in self._notes_of([item], each)]
        if is_id and not notes:  # a note with a key is stored under it
            notes = [note for note in self._notes(levels) if note.id == name]
        return next(iter(notes), None)

    def listed(
        self,
        *,
        level: NoteLevel | None = None,
        tags: Iterable[str] = (),
        limit: int | None = None,
    ) -> list[Note]:
        """Return notes, the newest first; arguments as for `Notebook.list`."""
        found = _with_tags(_newest_first(self._notes(self.levels(level))), tags)
        return found[: None if limit is None else max(0, limit)]

    def remove(self, name: str, *, level: NoteLevel | None = None) -> Note | None:
        """Delete the note with a key or an id and return it, or None if there is none."""
        note = self.get(name, level=level)
        if note is not None:
            self._check(note)
            self._batch(self._deletions(note.type, [note.item_key]))
        return note

    def search(
        self,
        questions: Sequence[str],
        *,
        level: NoteLevel | None = None,
        tags: Iterable[str] = (),
        limit: int = 20,
    ) -> list[Note]:
        """Return the notes that match the first question, then those that match the others."""
        levels = self.levels(level)
        found = self._ranked(self._notes(levels), questions, levels)
        return _with_tags(found, tags)[: max(0, limit)]

    def relevant(self, questions: Sequence[str]) -> tuple[list[Note], set[str]]:
        """Return the notes that match the questions, the first counting most, and all ids."""
        levels = self.levels()
        here = self._notes(levels)
        return self._ranked(here, questions, levels), {note.id for note in here}

    def _as_kept(self, text: OptionalText) -> OptionalText:
        return text_as_kept(self.book.before_store, text) if text else text

    def _may_change(self, note: Note) -> bool:
        return self.by in {"application", note.by}

    def _check(self, note: Note | None) -> None:
        """Raise if a tool is about to replace or remove a note by the application."""
        if note is not None and not self._may_change(note):
            raise ConfigurationError(f"{note.id} was written by the application; it is kept.")

    def _put(self, note: Note) -> PutOp:
        """Return the operation that stores a note; a store may sweep one that has expired."""
        end, ttl = None, None
        lifetime = self.book.session_lifetime or _lifetime_by(self.store)
        if lifetime is not None and note.type == "session":
            end = note.updated_at + lifetime
            ttl = lifetime.total_seconds() / 60 if self.store.supports_ttl else None
        value = value_of(note, self.user_id, end)
        namespace = self.namespace(note.type)
        return PutOp(namespace, note.item_key, value, index=["content"], ttl=ttl)

    def _deletions(self, level: NoteLevel, keys: Iterable[str]) -> list[PutOp]:
        return [PutOp(self.namespace(level), key, None) for key in keys]

    def _drop_oldest(self, level: NoteLevel, newest: Note) -> tuple[Note, ...]:
        """Delete the notes over the limit and return them; read again, as others may write, too."""
        here = self._notes([level])
        others = [note for note in _newest_first(here) if note.item_key != newest.item_key]
        older = [*filter(self._may_change, others)]
        dropped = older[max(0, len(older) + self.book.limit - len(here)) :]
        self._batch(self._deletions(level, (note.item_key for note in dropped)))
        return tuple(dropped)

    def _ranked(
        self, here: Sequence[Note], questions: Sequence[str], levels: Sequence[NoteLevel]
    ) -> list[Note]:
        """Return the matching notes, those of the first question first, each content once."""
        cosines: dict[str, float] = {}
        has_vectors = bool(getattr(self.store, "index_config", None))
        if has_vectors and here and questions and questions[0].strip():
            pages = self._batch(
                [
                    SearchOp(self.namespace(each), limit=_NEAREST, query=questions[0])
                    for each in levels
                ]
            )
            cosines = _cosines(item for page in pages for item in page)
        found: dict[str, Note] = {}
        for ranking in self.book.ranker.rankings(here, questions, cosines):
            for note in ranking:
                found.setdefault(note.content, note)
        return [*found.values()]

    def _notes(self, levels: Sequence[NoteLevel]) -> list[Note]:
        """Return all notes of some levels, without items that are not notes of this scope."""
        pairs = zip(levels, self._items(levels), strict=True)
        return [note for level, items in pairs for note in self._notes_of(items, level)]

    def _notes_of(self, items: Iterable[Item], level: NoteLevel) -> list[Note]:
        """Return the notes in items of a level, except expired ones.

        The owner and the namespace are checked again, whatever the store returned.
        """
        namespace = self.namespace(level)
        found: dict[str, Note] = {}
        for item in items:
            if tuple(item.namespace) != namespace or is_expired(item.value, self.book.now):
                continue
            try:
                note = note_of(item.value, self.user_id, level)
            except ValidationError as error:
                for one in error.errors():
                    _log_left_out(namespace, item.key, f"{one['loc'][0]}: {one['msg']}")
                continue
            if note is not None and note.item_key == item.key:
                found[item.key] = note
            elif note is not None:
                _log_left_out(namespace, item.key, "its id or key was changed")
        return [*found.values()]

    def _items(self, levels: Sequence[NoteLevel]) -> list[list[Item]]:
        return items_in(self.store, self._batch, [*map(self.namespace, levels)])

    def _batch(self, ops: Sequence[Any]) -> Any:
        return self.book.batch(self.store, ops)


@lru_cache(maxsize=1_000)  # once for each note and fault
def _log_left_out(namespace: Namespace, key: str, fault: str) -> None:
    where = "/".join(namespace)
    logger.warning("Note %s in %s is left out (%s); correct or delete it.", key, where, fault)


def check_scope(user_id: Any, session_id: Any) -> None:
    """Raise if an id cannot be used.

    Raises:
        ScopeError: When an id is blank or not a text, or a user's has a control character; that of
            a sub-graph's session has one of ours.
    """
    for name, what in ((user_id, "user_id"), (session_id, "session_id")):
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise ScopeError(f"{what} is {name!r}; it must be a string that is not blank.")
    if user_id is not None:
        check_characters(user_id, "user_id")


def items_in(store: BaseStore, batch: Batch, namespaces: Sequence[Namespace]) -> list[list[Item]]:
    """Return all items under each namespace, read in pages.

    Args:
        store: Where they are.
        batch: Executes the store's operations.
        namespaces: The namespaces.
    """
    found: list[list[Item]] = [[] for _ in namespaces]
    # A third-party store may return smaller pages than requested.
    least = _PAGE if isinstance(store, ItemStore) else 1
    unread = [*zip(namespaces, found, strict=True)]
    while unread:
        pages = batch(
            [
                SearchOp(namespace, limit=_PAGE, offset=len(items), refresh_ttl=False)
                for namespace, items in unread
            ]
        )
        for (_, items), page in zip(unread, pages, strict=True):
            items.extend(page)
        unread = [one for one, page in zip(unread, pages, strict=True) if len(page) >= least]
    return found


def _lifetime_by(store: BaseStore) -> timedelta | None:
    """Return the lifetime of items by a store's own settings; None for ever.

    A store returns expired items until a sweep (LangGraph's `SqliteStore` even when told to omit
    them), and no store reports when an item expires: so the note has its expiry, too.
    """
    settings = (getattr(store, "ttl_config", None) if store.supports_ttl else None) or {}
    minutes = settings.get("default_ttl")
    return None if minutes is None else timedelta(minutes=minutes)


def _with_tags(notes: Iterable[Note], tags: Iterable[str]) -> list[Note]:
    wanted = {tag.casefold() for tag in checked_tags(tags)}
    return [note for note in notes if wanted <= {tag.casefold() for tag in note.tags}]


def _newest_first(notes: Iterable[Note]) -> list[Note]:
    return sorted(notes, key=lambda note: (note.updated_at, note.id), reverse=True)


def _cosines(items: Iterable[SearchItem]) -> dict[str, float]:
    """Return the scores of items by their content; a store without an index has none."""
    return {
        item.value["content"]: item.score
        for item in items
        if item.score is not None and isinstance(item.value.get("content"), str)
    }
