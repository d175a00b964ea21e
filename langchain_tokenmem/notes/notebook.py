"""`Notebook`: notes of users, projects and sessions, in a LangGraph `BaseStore`."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.config import get_store
from langgraph.store.base import BaseStore

from langchain_tokenmem.background import ForkSafeLock, in_thread
from langchain_tokenmem.core.argument_checks import BeforeStore, checked_before_store, checked_parts
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.notes.erasing import erase_notes
from langchain_tokenmem.notes.note import Note, NoteKind, NoteLevel, Project
from langchain_tokenmem.notes.scoped_notes import ScopedNotes
from langchain_tokenmem.notes.search import NoteRanker
from langchain_tokenmem.recall.analysis import TextAnalyser
from langchain_tokenmem.state import Author

logger = logging.getLogger(__name__)

Notes = list[Note]


class Notebook:
    """Notes that are kept deliberately: for a session, a project of a user, or a user.

    They are kept in a `BaseStore`: `store`, or else that of the running graph.
    Global notes belong to one user and are never shared.

    Args:
        store: Keeps the notes.
        project: Name or path of the project.
        limit: Maximum number of notes per level and scope; the oldest is dropped, with a warning.
        local_user: The only user of this process, for calls that name none.
        language: Language of stems and stop words: `english`, `german`, `french` ...
        session_lifetime: Time after which a note of a session expires, counted from its last
            change; default: the `default_ttl` of the store, if it has one, else never.
        in_requests: Whether notes that match the newest question are shown in its memory block.
        before_store: Function that changes contents, keys and tags before they are stored, as
            messages; default: that of the `TokenMemory`.
        now: Clock that returns the time in UTC.

    Raises:
        ConfigurationError: When a setting is invalid; at the first use, when there is no store.

    Example:
        >>> from langgraph.store.memory import InMemoryStore
        >>> notebook = Notebook(InMemoryStore(), project="shop")
        >>> _ = notebook.add("Use tabs.", level="global", kind="preference", user_id="ann")
        >>> [note.content for note in notebook.search("tabs or spaces?", user_id="ann")]
        ['Use tabs.']
        >>> notebook.list(user_id="bob")
        []
    """

    def __init__(
        self,
        store: BaseStore | None = None,
        *,
        project: str | os.PathLike[str] = "default",
        limit: int = 1_000,
        local_user: str | None = None,
        language: str = "english",
        session_lifetime: timedelta | None = None,
        in_requests: bool = True,
        before_store: BeforeStore | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if store is not None:
            checked_parts(store, ("batch", "abatch"), "store", "Notebook(SqlStore(store))")
        if not isinstance(limit, int) or limit < 1:
            raise ConfigurationError(f"limit is {limit!r}; it is how many notes a level may have.")
        if session_lifetime is not None and session_lifetime <= timedelta():
            raise ConfigurationError(
                f"session_lifetime is {session_lifetime!r}; it is a time above 0, such as "
                f"timedelta(days=30)."
            )
        self.project = Project.named(project)
        self.limit = limit
        self.local_user = local_user
        self.before_store = checked_before_store(before_store)
        self.session_lifetime = session_lifetime
        self.in_requests = in_requests
        self._store = store
        self.ranker = NoteRanker(TextAnalyser(language))
        self.now = now
        self._lock = ForkSafeLock()

    def __repr__(self) -> str:
        store = None if self._store is None else f"<{type(self._store).__name__}>"
        return f"Notebook({store}, project={self.project.label!r})"

    @property
    def store(self) -> BaseStore | None:
        """Its own store, or None if it uses that of the running graph."""
        return self._store

    def with_before_store(self, before_store: BeforeStore | None) -> Notebook:
        """Return this notebook with a `before_store`, if it has none of its own."""
        own = copy.copy(self)
        own.before_store = self.before_store or before_store
        return own

    def add(
        self,
        content: str,
        *,
        level: NoteLevel = "project",
        key: str | None = None,
        kind: NoteKind | None = None,
        tags: Iterable[str] = (),
        source: int | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> Note:
        """Keep a note and return it.

        A note with the same key replaces the earlier one; identical content without a key is
        stored once.

        Args:
            content: What to keep, at most 10,000 characters.
            level: `session`, `project` or `global`.
            key: Name of the note: one with the same key, level and scope is overwritten.
            kind: `fact`, `preference`, `convention` or `pattern`.
            tags: Words to find it by, in addition to those found in its content.
            source: Number of the message that it comes from.
            user_id: The user; optional for a note of a session.
            session_id: The session or thread.

        Raises:
            ScopeError: When the level needs a user or a session that is missing.
            ConfigurationError: When an argument is invalid.
        """
        scope = self.scoped(user_id, session_id)
        owner = f"Session {session_id!r}" if level == "session" else f"User {scope.user_id!r}"
        added = scope.add(content, level=level, key=key, kind=kind, tags=tags, source=source)
        for note in added.dropped:
            logger.warning(
                "%s: A level has more than %d notes: the oldest one, %s (%s), was removed.",
                owner,
                self.limit,
                note.id,
                note.type,
            )
        return added.note

    aadd = in_thread(add)

    def get(
        self,
        name: str,
        *,
        level: NoteLevel | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> Note | None:
        """Return the note with a key or an id, or None.

        Args:
            name: Its key or id.
            level: Its level; default: the nearest one that has it, session before project before
                global.
            user_id: The user.
            session_id: The session or thread.

        Raises:
            ScopeError: When the level needs a user or a session that is missing.
        """
        return self.scoped(user_id, session_id).get(name, level=level)

    aget = in_thread(get)

    def search(
        self,
        query: str | Sequence[str],
        *,
        level: NoteLevel | None = None,
        tags: Iterable[str] = (),
        limit: int = 20,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> Notes:
        """Return the notes that match a question, best first; an empty list if none does.

        Args:
            query: The question, or several, of which the first counts most.
            level: Their level; default: all.
            tags: Tags that they all must have, case-insensitive.
            limit: Maximum number of notes.
            user_id: The user.
            session_id: The session or thread.

        Raises:
            ScopeError: When the level needs a user or a session that is missing.
        """
        questions = [query] if isinstance(query, str) else query
        notes = self.scoped(user_id, session_id)
        return notes.search(questions, level=level, tags=tags, limit=limit)

    asearch = in_thread(search)

    def list(
        self,
        *,
        level: NoteLevel | None = None,
        tags: Iterable[str] = (),
        limit: int | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> Notes:
        """Return all notes, the newest first.

        Args:
            level: Their level; default: all.
            tags: Tags that they all must have, case-insensitive.
            limit: Maximum number of notes; None for all.
            user_id: The user.
            session_id: The session or thread.

        Raises:
            ScopeError: When the level needs a user or a session that is missing.
        """
        return self.scoped(user_id, session_id).listed(level=level, tags=tags, limit=limit)

    alist = in_thread(list)  # noqa: A003  # the method above

    def remove(
        self,
        name: str,
        *,
        level: NoteLevel | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> Note | None:
        """Delete the note with a key or an id and return it, or None.

        Args:
            name: Its key or id.
            level: Its level; default: the nearest one that has it.
            user_id: The user.
            session_id: The session or thread.

        Raises:
            ScopeError: When the level needs a user or a session that is missing.
        """
        return self.scoped(user_id, session_id).remove(name, level=level)

    aremove = in_thread(remove)

    def erase(self, session_id: str | None = None, user_id: str | None = None) -> int:
        """Delete every note of a session or a user; return how many there were.

        `TokenMemory.erase` deletes everything else, too.

        Args:
            session_id: Session whose notes are deleted; without it all notes of the user are.
            user_id: Owner of the notes.

        Raises:
            ScopeError: When neither id is given.
            StoreError: When the store still has one of them.
        """
        with self._lock:
            return erase_notes(self._found_store(), user_id, session_id)

    aerase = in_thread(erase)

    def scoped(
        self,
        user_id: str | None = None,
        session_id: str | None = None,
        *,
        by: Author = "application",
        store: BaseStore | None = None,
    ) -> ScopedNotes:
        """Return the notes of a user and a session.

        Args:
            user_id: The user.
            session_id: The session or thread.
            by: The caller: a tool cannot change notes by the application.
            store: Store for a notebook without one; default: that of the running graph.

        Raises:
            ScopeError: When an id cannot be used.
        """
        user_id = self.local_user if user_id is None else user_id
        return ScopedNotes(self, self._found_store(store), user_id, session_id, by)

    def batch(self, store: BaseStore, ops: Sequence[Any]) -> Any:
        """Execute a store's operations, one batch at a time for all threads."""
        with self._lock:
            return store.batch(ops)

    def _found_store(self, given: BaseStore | None = None) -> BaseStore:
        """Return the notebook's own store, or else the given one, or the running graph's.

        Raises:
            ConfigurationError: When there is none: a default file would keep notes on one machine
                only, and memory would lose them.
        """
        found = self._store or given or _store_of_graph()
        if found is None:
            raise ConfigurationError(
                "These notes have no store. Name one, as in Notebook(SqlStore(store)) with a "
                "TranscriptStore, or compile the graph with store=InMemoryStore()."
            )
        return found


def _store_of_graph() -> BaseStore | None:
    """Return the store of the graph whose node is running, or None outside of a graph."""
    try:
        return get_store()
    except (RuntimeError, KeyError):
        return None
