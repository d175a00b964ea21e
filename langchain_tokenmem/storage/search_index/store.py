"""The index side of a store: what recall reads and writes, and what an append does for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection, func, select

from langchain_tokenmem.core.search_units import Change, Entry, Pending, Scope, Source
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.search_index import postings
from langchain_tokenmem.storage.search_index.documents import home_of, put, remove
from langchain_tokenmem.storage.search_index.erasing import shelf_keys
from langchain_tokenmem.storage.search_index.facts import fact, owe_everything, set_fact
from langchain_tokenmem.storage.search_index.reader import IndexReader
from langchain_tokenmem.storage.search_index.shelves import (
    LEXICAL,
    SINKS,
    VECTORS,
    claimed,
    find_or_make_shelf,
    find_shelf,
    owe,
    owner_key,
    pending,
    reach_of,
    settle,
)
from langchain_tokenmem.storage.search_index.sources import (
    shelf_to_write,
    source_of,
    sources_from,
)
from langchain_tokenmem.storage.search_index.tables import outbox
from langchain_tokenmem.storage.search_index.vectors import IndexVectors
from langchain_tokenmem.storage.transcripts.encoded_message import key_of
from langchain_tokenmem.storage.transcripts.message_rows import TranscriptRow, read_some
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, find, session_keys

logger = logging.getLogger(__name__)

_ANALYSER = "analyser"

_BATCH = 200
"""Messages that are indexed in one transaction, so that other writers wait a tenth of a second."""


_OWED = select(outbox.c.from_seq).where(outbox.c.sink == LEXICAL).limit(1)


class Analyser(Protocol):
    """Says what the lexical index keeps of a text."""

    @property
    def version(self) -> str:
        """Another version means another index."""
        ...

    def entries(self, source: Source) -> Sequence[Entry]:
        """Return an entry for each part; none for what is not to be found."""
        ...


class IndexStore(IndexVectors):
    """What recall needs of a database; `TranscriptStore.index` is one.

    Args:
        database: The database of the transcripts.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._analyser: Analyser | None = None
        self._listeners: list[Callable[[Change], None]] = []
        self._is_ready = False
        self._lock = threading.Lock()

    # --- what the transcript calls

    def attach(self, analyser: Analyser) -> None:
        """Let every append write its lexical entries in its own transaction."""
        self._analyser = analyser
        self._is_ready = False

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` after each commit that changed something; return how to stop it."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def tell(self, change: Change) -> None:
        """Tell the listeners; what one of them raises is its own affair."""
        for listener in list(self._listeners):
            try:
                listener(change)
            except Exception:  # an index never fails a turn
                logger.exception("A listener of the store failed.")

    def appended(
        self, connection: Connection, session: SessionRow, rows: Sequence[TranscriptRow]
    ) -> Change:
        """Index new messages in the transaction that stores them, or note them in the outbox.

        Args:
            connection: Of that transaction.
            session: The session as it was before.
            rows: The new messages.
        """
        shelf = claimed(connection, session)
        if not rows:
            return Change("added", [shelf.number] if shelf else [])
        first, last = rows[0].seq, rows[-1].seq
        owed = [VECTORS]
        entries = self._entries([source_of(row, session) for row in rows])
        if entries is not None and shelf is None and session.last_seq < session.first_seq:
            shelf = find_or_make_shelf(
                connection, session.key, owner_key(session), session.last_seq
            )
        if entries is None or shelf is None or shelf.indexed_to != session.last_seq:
            owed.append(LEXICAL)
        else:
            postings.add_entries(connection, shelf, entries, last)
        owe(connection, owed, session.key, first)
        return Change("added", [shelf.number] if shelf else [])

    def _entries(self, sources: Sequence[Source]) -> dict[int, Sequence[Entry]] | None:
        if self._analyser is None:
            return None
        try:
            return {source.seq: self._analyser.entries(source) for source in sources}
        except Exception:  # an index never fails a turn; the outbox keeps what is owed
            logger.exception("Messages could not be analysed; they are not found yet.")
            return None

    # --- reading

    @contextmanager
    def reading(self, scope: Scope, *, take_in: bool = True) -> Iterator[IndexReader | None]:
        """Give a consistent picture of a scope; None when nothing is indexed in it.

        With `take_in`, what the lexical index lacks of it is taken in before.

        Raises:
            ScopeError: When an id is blank, or the session belongs to another user.
        """
        if take_in:
            self.index_lexical(scope)
        with self._database.reading("The index of recall") as connection:
            reach = reach_of(connection, scope)
            yield None if reach is None else IndexReader(connection, scope, reach)

    def _is_behind(self, scope: Scope | None) -> bool:
        if self._analyser is None:
            return False
        self.make_ready()
        with self._database.reading("The outbox of recall") as connection:
            owed = connection.execute(_OWED).first() is not None
            return owed and bool(pending(connection, LEXICAL, scope=scope, limit=1))

    def pending(
        self, sink: str, *, scope: Scope | None = None, limit: int | None = None
    ) -> list[Pending]:
        """Return the shelves that a sink (`lexical`, `vectors`) has not taken in whole."""
        with self._database.reading("The outbox of recall") as connection:
            return pending(connection, sink, scope=scope, limit=limit)

    def backlog(self) -> dict[str, int]:
        """Return for each sink how many shelves it has not taken in whole."""
        with self._database.reading("The outbox of recall") as connection:
            query = select(outbox.c.sink, func.count()).group_by(outbox.c.sink)
            counted = {row[0]: int(row[1]) for row in connection.execute(query)}
        return {**dict.fromkeys(SINKS, 0), **counted}

    def sources_from(self, shelf_key: str, from_seq: int, limit: int) -> tuple[list[Source], int]:
        """Return what stands on a shelf from a number on, and the last number that there is."""
        with self._database.reading("The transcript of a shelf") as connection:
            return sources_from(connection, shelf_key, from_seq, limit)

    def history(self, scope: Scope, before: int | None, limit: int) -> list[Source]:
        """Return the messages of a session in front of a number, the newest `limit`, in order.

        Raises:
            ScopeError: When an id is blank, or the session belongs to another user.
        """
        with self._database.reading(f"Session {scope.session_id!r}") as connection:
            session = find(connection, scope.session_id, scope.user_id)
            if session is None:
                return []
            end = session.last_seq + 1 if before is None else before
            start = max(session.first_seq, end - limit)
            found = read_some(connection, session, start, end - start) if end > start else []
            return [source_of(row, session) for row in found]

    def shelves_of(self, *, session_id: str | None, user_id: str | None) -> list[int]:
        """Return the numbers of the shelves that an `erase` of the same would empty."""
        with self._database.reading("The index of recall") as connection:
            keys = session_keys(connection, session_id, user_id)
            found = [find_shelf(connection, key) for key in shelf_keys(keys, session_id, user_id)]
            return [shelf.number for shelf in found if shelf is not None]

    # --- documents

    def put_document(self, source: Source, *, now: datetime) -> None:
        """Add a document to the session or user that it names, in the place of one of its id.

        Raises:
            ScopeError: When it names neither, or the session belongs to another user.
        """
        self.make_ready()
        entries = self._entries([replace(source, created_at=now)])
        with self._database.writing("The documents of recall") as connection:
            shelf = home_of(connection, source.session_id, source.user_id, make=True)
            if shelf is None:
                raise LookupError("the shelf was not made")
            put(connection, shelf, source, entries[source.seq] if entries else None, now)
        self.tell(Change("added", [shelf.number]))

    def delete_document(
        self, document_id: str, *, session_id: str | None, user_id: str | None
    ) -> bool:
        """Delete a document; return whether there was one.

        Raises:
            ScopeError: When neither id is given, or the session belongs to another user.
        """
        with self._database.writing("The documents of recall") as connection:
            shelf = home_of(connection, session_id, user_id, make=False)
            was_there = shelf is not None and remove(connection, shelf, document_id)
        if was_there and shelf is not None:
            self._database.forget_deleted()
            self.tell(Change("cleared", [shelf.number]))
        return was_there

    # --- the lexical side

    def index_lexical(self, scope: Scope | None = None, most: int | None = None) -> int:
        """Index what the lexical index lacks, of one scope or of all; return how many messages.

        Nothing happens without an analyser. At most `most` messages are taken in, those of the
        scope's own session first.
        """
        if self._analyser is None or not self._is_behind(scope):
            return 0
        own = None if scope is None else key_of(scope.session_id)
        done = 0
        for owed in sorted(self.pending(LEXICAL, scope=scope), key=lambda o: o.shelf_key != own):
            more = True
            while more and (most is None or done < most):
                batch = _BATCH if most is None else min(_BATCH, most - done)
                count, more = self._index_some(self._analyser, owed.shelf_key, batch)
                done += count
        return done

    def make_ready(self) -> None:
        """Begin the index anew where it was made by another version of the analyser."""
        analyser = self._analyser
        if analyser is None or self._is_ready:
            return
        with self._lock, self._database.writing("The index of recall") as connection:
            known = fact(connection, _ANALYSER)
            if known != analyser.version:
                self._start_over(connection)
                set_fact(connection, _ANALYSER, analyser.version)
        self._is_ready = True

    def rebuild_lexical(self) -> int:
        """Throw the lexical index away and make it anew; return how many messages it has."""
        with self._database.writing("The index of recall") as connection:
            self._start_over(connection)
        return self.index_lexical()

    def _start_over(self, connection: Connection) -> None:
        postings.drop_all_entries(connection)
        owe_everything(connection, LEXICAL)

    def _index_some(self, analyser: Analyser, shelf_key: str, batch: int) -> tuple[int, bool]:
        with self._database.writing("The index of recall") as connection:
            shelf = shelf_to_write(connection, shelf_key)
            if shelf is None:
                settle(connection, LEXICAL, shelf_key, 0, 0)
                return 0, False
            found, last = sources_from(connection, shelf_key, shelf.indexed_to + 1, batch)
            entries = {source.seq: analyser.entries(source) for source in found}
            done_to = found[-1].seq if found else last
            postings.add_entries(connection, shelf, entries, done_to)
            settle(connection, LEXICAL, shelf_key, done_to, last)
            return len(found), done_to < last
