"""`Notebook`: notes of users, projects and sessions, in a LangGraph `BaseStore`."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar, Unpack

from langgraph.config import get_store
from langgraph.store.base import BaseStore

from langchain_tokenmem.background import ForkSafeLock
from langchain_tokenmem.core.argument_checks import checked_parts
from langchain_tokenmem.core.before_store import BeforeStore, checked_before_store
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.notes.erasing import erase_notes
from langchain_tokenmem.notes.known_notes import KnownNotes
from langchain_tokenmem.notes.note import Note, Project
from langchain_tokenmem.notes.operations import NoteAddition, NoteOperations
from langchain_tokenmem.notes.options import NewNote, NoteChoice, NoteOwner, NotesChoice
from langchain_tokenmem.notes.scope import NoteScope
from langchain_tokenmem.notes.search import NoteRanker
from langchain_tokenmem.notes.store_work import StoreWork, arun, run
from langchain_tokenmem.notes.stores.sql_store import SqlStore
from langchain_tokenmem.notes_state import Author
from langchain_tokenmem.recall.analysis import TextAnalyser
from langchain_tokenmem.storage.transcript_store import TranscriptStore

logger = logging.getLogger(__name__)

T = TypeVar("T")
Notes = list[Note]


class Notebook:
    """Notes that are kept on purpose: of a session, a project of a user, or all of a user.

    They live in a `BaseStore`, where an application's long-term memory lives: `store`, else the one
    that the running graph was compiled with, else a `SqlStore`.
    Global notes are those of one user, never shared with another.

    Args:
        store: Keeps the notes.
        project: Name or path of the project whose notes are meant.
        limit: Most notes of a level and scope; the oldest one goes, with a warning.
        local_user: The only user of this process, for calls that name none.
        language: Of stems and stop-words; `english`, `german`, `french` ...
        before_store: Changes contents, keys and tags before they are stored: a function over
            messages, as that of `TokenMemory`, whose own it is by default.
        now: Gives the time, in UTC.

    Raises:
        ConfigurationError: When a setting cannot work.

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
        before_store: BeforeStore | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if store is not None:
            checked_parts(store, ("batch", "abatch"), "store", "Notebook(InMemoryStore())")
        if not isinstance(limit, int) or limit < 1:
            raise ConfigurationError(f"limit is {limit!r}; it is how many notes a level may have.")
        self.project = Project.named(project)
        self.limit = limit
        self.local_user = local_user
        self.before_store = checked_before_store(before_store)
        self._store = store
        analyser = TextAnalyser(language)
        self._ranker, self._known = NoteRanker(analyser), KnownNotes(analyser)
        self._now = now
        self._lock = ForkSafeLock()

    @property
    def store(self) -> BaseStore | None:
        """Store of its own; None where it takes that of the running graph."""
        return self._store

    def with_store(self, store: BaseStore) -> Notebook:
        """Return this notebook on a store, for where it has none of its own."""
        own = copy.copy(self)
        own._store = self._store or store  # noqa: SLF001  # it is a copy of this one
        return own

    def with_before_store(self, before_store: BeforeStore | None) -> Notebook:
        """Return this notebook with a function that changes texts, for where it has none."""
        own = copy.copy(self)
        own.before_store = self.before_store or before_store
        return own

    def add(self, content: str, **options: Unpack[NewNote]) -> Note:
        """Keep a note and return it.

        A note of the same key takes the place of the one before; identical content without a key
        is not stored twice.

        Args:
            content: What to keep, at most 10,000 characters.
            options: Keywords `level`, `key`, `kind`, `tags`, `source`, `user_id` and `session_id`:
                see `NewNote`.

        Raises:
            ScopeError: When the level needs a user or a session that is not named.
            ConfigurationError: When an argument is none.
        """
        return self._said(self.run(self._work(NoteOperations.add, options, content)))

    async def aadd(self, content: str, **options: Unpack[NewNote]) -> Note:
        """Do the same as `add` without blocking the event loop."""
        return self._said(await self.arun(self._work(NoteOperations.add, options, content)))

    def get(self, name: str, **options: Unpack[NoteChoice]) -> Note | None:
        """Return the note of a key or an id; None where there is none.

        Args:
            name: Its key or id.
            options: Keywords `level`, `user_id` and `session_id`: see `NoteChoice`.

        Raises:
            ScopeError: When the level needs a user or a session that is not named.
        """
        return self.run(self._work(NoteOperations.get, options, name))

    async def aget(self, name: str, **options: Unpack[NoteChoice]) -> Note | None:
        """Do the same as `get` without blocking the event loop."""
        return await self.arun(self._work(NoteOperations.get, options, name))

    def search(self, query: str | Sequence[str], **options: Unpack[NotesChoice]) -> Notes:
        """Return the notes that match a question, best first; none where nothing is near enough.

        Args:
            query: The question; of several the first one counts most.
            options: Keywords `level`, `tags`, `limit` (20), `user_id` and `session_id`: see
                `NotesChoice`.

        Raises:
            ScopeError: When the level needs a user or a session that is not named.
        """
        return self.run(self._work(NoteOperations.search, options, _as_list(query)))

    async def asearch(self, query: str | Sequence[str], **options: Unpack[NotesChoice]) -> Notes:
        """Do the same as `search` without blocking the event loop."""
        return await self.arun(self._work(NoteOperations.search, options, _as_list(query)))

    def list(self, **options: Unpack[NotesChoice]) -> Notes:
        """Return all notes, the newest first.

        Args:
            options: Keywords `level`, `tags`, `limit` (none), `user_id` and `session_id`: see
                `NotesChoice`.

        Raises:
            ScopeError: When the level needs a user or a session that is not named.
        """
        return self.run(self._work(NoteOperations.listed, options))

    async def alist(self, **options: Unpack[NotesChoice]) -> Notes:
        """Do the same as `list` without blocking the event loop."""
        return await self.arun(self._work(NoteOperations.listed, options))

    def remove(self, name: str, **options: Unpack[NoteChoice]) -> Note | None:
        """Delete the note of a key or an id; return it, None where there is none.

        Args:
            name: Its key or id.
            options: Keywords `level`, `user_id` and `session_id`: see `NoteChoice`.

        Raises:
            ScopeError: When the level needs a user or a session that is not named.
        """
        return self.run(self._work(NoteOperations.remove, options, name))

    async def aremove(self, name: str, **options: Unpack[NoteChoice]) -> Note | None:
        """Do the same as `remove` without blocking the event loop."""
        return await self.arun(self._work(NoteOperations.remove, options, name))

    def erase(self, session_id: str | None = None, user_id: str | None = None) -> int:
        """Delete every note of a session or a user, for good; return how many there were.

        The store is asked again afterwards. `TokenMemory.erase` does this with everything else.

        Args:
            session_id: Whose session notes; without it all notes of the user are meant.
            user_id: Whose notes.

        Raises:
            ScopeError: When neither id is given.
            StoreError: When the store still has one of them.
        """
        return self.run(erase_notes(user_id, session_id, self._found_store(None)))

    async def aerase(self, session_id: str | None = None, user_id: str | None = None) -> int:
        """Do the same as `erase` without blocking the event loop."""
        return await self.arun(erase_notes(user_id, session_id, self._found_store(None)))

    def operations(
        self,
        user_id: str | None = None,
        session_id: str | None = None,
        *,
        store: BaseStore | None = None,
        by: Author = "application",
    ) -> NoteOperations:
        """Return what can be done with the notes of a user and a session, for `run` and `arun`.

        Args:
            user_id: The user.
            session_id: The session or thread.
            store: Store of the running graph, where it is known.
            by: Who asks: a tool changes no note of the application.

        Raises:
            ScopeError: When an id cannot be used.
        """
        return NoteOperations(
            scope=NoteScope(
                self.local_user if user_id is None else user_id, session_id, self.project
            ),
            limit=self.limit,
            now=self._now,
            ranker=self._ranker,
            known=self._known,
            store=self._found_store(store),
            before_store=self.before_store,
            by=by,
        )

    def _work(
        self, operation: Callable[..., StoreWork[T]], options: Any, *given: Any
    ) -> StoreWork[T]:
        """Return the work of an operation, on the notes of the owner that its options name."""
        owner = {name: options[name] for name in NoteOwner.__annotations__ if name in options}
        others = {name: value for name, value in options.items() if name not in owner}
        return operation(self.operations(**owner), *given, **others)

    def run(self, work: StoreWork[T], store: BaseStore | None = None) -> T:
        """Do what an operation asks the store for; one after the other, as tools run in threads."""
        with self._lock:
            return run(work, self._found_store(store).batch)

    async def arun(self, work: StoreWork[T], store: BaseStore | None = None) -> T:
        """Do the same as `run` without blocking the event loop."""
        return await arun(work, self._found_store(store).abatch)

    def _found_store(self, given: BaseStore | None) -> BaseStore:
        """Return the notebook's own store, else the running graph's, else one in a database."""
        found = self._store or given or _store_of_graph()
        if found is None:
            found = self._store = SqlStore(TranscriptStore())
        return found

    def _said(self, added: NoteAddition) -> Note:
        """Return the note; where it was one too many, the log says which one went."""
        for note in added.dropped:
            logger.warning(
                "A level has more than %d notes: the oldest one, %s (%s), was removed.",
                self.limit,
                note.id,
                note.type,
            )
        return added.note


def _as_list(query: str | Sequence[str]) -> Sequence[str]:
    return [query] if isinstance(query, str) else query


def _store_of_graph() -> BaseStore | None:
    """Return the store of the graph whose node is running; None outside of one."""
    try:
        return get_store()
    except (RuntimeError, KeyError):
        return None
