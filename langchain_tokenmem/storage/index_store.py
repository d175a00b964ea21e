"""The index side of a store: what recall reads and writes, and what an append does for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import Connection, func, select

from langchain_tokenmem.core.units import Change, Entry, Pending, Reach, Scope, Source
from langchain_tokenmem.storage import postings, vector_rows
from langchain_tokenmem.storage.database import Database
from langchain_tokenmem.storage.erasing import session_keys, shelf_keys
from langchain_tokenmem.storage.index_documents import home_of, put, remove
from langchain_tokenmem.storage.index_facts import fact, owe_everything, set_fact
from langchain_tokenmem.storage.index_sources import (
    Place,
    chosen,
    present_units,
    source_of,
    sources_at,
    sources_from,
)
from langchain_tokenmem.storage.message_rows import TranscriptRow, read_some
from langchain_tokenmem.storage.postings import Table
from langchain_tokenmem.storage.recall_tables import outbox
from langchain_tokenmem.storage.sessions import SessionRow, find, find_by_key
from langchain_tokenmem.storage.shelves import (
    LEXICAL,
    SINKS,
    VECTORS,
    Shelf,
    find_or_make_shelf,
    find_owner,
    find_shelf,
    hand_over,
    owe,
    owner_key,
    pending,
    reach_of,
    settle,
)

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


class IndexReader:
    """One consistent picture of the index, for one scope."""

    def __init__(self, connection: Connection, scope: Scope, reach: Reach) -> None:
        self._connection = connection
        self._scope = scope
        self.reach = reach

    def totals(self) -> tuple[int, int]:
        """Return how many units are in reach, and how many terms they have together."""
        return postings.totals(self._connection, self.reach)

    def counts(self, terms: Sequence[str]) -> dict[str, int]:
        """Return in how many units in reach each term occurs; only of terms that do."""
        return postings.document_counts(self._connection, self.reach, terms)

    def postings(self, terms: Sequence[str], most: int) -> dict[str, Table]:
        """Return (unit, tf, length) of terms; of one with more than `most`, the newest."""
        return postings.postings(self._connection, self.reach, terms, most)

    def postings_of(self, terms: Sequence[str], units: Sequence[int]) -> dict[str, Table]:
        """Return (unit, tf, length) of terms in some units only."""
        return postings.postings_of(self._connection, self.reach, terms, units)

    def vectors(self, fingerprint: str) -> dict[int, bytes]:
        """Return every vector in reach by unit."""
        return vector_rows.vectors_in(self._connection, fingerprint, self.reach)

    def fact(self, name: str) -> Any:
        """Return a fact about an index (plain JSON); None when it is not known."""
        return fact(self._connection, name)

    def count_vectors(self, fingerprint: str, most: int) -> int:
        """Return how many vectors are in reach; counts no further than `most`."""
        return vector_rows.count_vectors(self._connection, fingerprint, self.reach, most)

    def chosen(
        self, units: Sequence[int], among: Collection[str] | None, exclude: Collection[str]
    ) -> list[int]:
        """Return the units whose message is among some ids, and not among others."""
        return chosen(self._connection, units, among, exclude)

    def sources(self, units: Iterable[int]) -> dict[Place, Source]:
        """Return what stands at some units by (shelf, seq), if it is there and in scope."""
        return sources_at(self._connection, self._scope, units)


class IndexStore:
    """What recall needs of a database; `TranscriptStore.index` is one.

    Args:
        database: The database of the transcripts.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
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
            except Exception:  # noqa: PERF203  an index never fails a turn
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
        shelf = find_shelf(connection, session.key)
        if shelf is not None:
            shelf = hand_over(connection, session, shelf)
        if not rows:
            return Change("added", [shelf.number] if shelf else [])
        first, last = rows[0].seq, rows[-1].seq
        owe(connection, VECTORS, session.key, first)
        entries = self._entries([source_of(row, session) for row in rows])
        if entries is not None and shelf is None and session.last_seq < session.first_seq:
            shelf = find_or_make_shelf(
                connection, session.key, owner_key(session), session.last_seq
            )
        if entries is None or shelf is None or shelf.indexed_to != session.last_seq:
            owe(connection, LEXICAL, session.key, first)
        else:
            postings.add_entries(connection, shelf, entries, last)
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
    def reading(self, scope: Scope) -> Iterator[IndexReader | None]:
        """Give a consistent picture of a scope; None when nothing is indexed in it.

        Raises:
            ScopeError: When an id is blank, or the session belongs to another user.
        """
        if self._is_behind(scope):
            self.index_lexical(scope)
        with self._database.reading("The index of recall") as connection:
            reach = reach_of(connection, scope)
            yield None if reach is None else IndexReader(connection, scope, reach)

    def _is_behind(self, scope: Scope) -> bool:
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

    def index_lexical(self, scope: Scope | None = None) -> int:
        """Index what the lexical index lacks, of one scope or of all; return how many messages.

        Nothing happens without an analyser.
        """
        if self._analyser is None:
            return 0
        self.make_ready()
        done = 0
        for owed in self.pending(LEXICAL, scope=scope):
            more = True
            while more:
                count, more = self._index_some(self._analyser, owed.shelf_key)
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

    def _index_some(self, analyser: Analyser, shelf_key: str) -> tuple[int, bool]:
        with self._database.writing("The index of recall") as connection:
            shelf = self._shelf(connection, shelf_key)
            if shelf is None:
                settle(connection, LEXICAL, shelf_key, 0, 0)
                return 0, False
            found, last = sources_from(connection, shelf_key, shelf.indexed_to + 1, _BATCH)
            entries = {source.seq: analyser.entries(source) for source in found}
            done_to = found[-1].seq if found else last
            postings.add_entries(connection, shelf, entries, done_to)
            settle(connection, LEXICAL, shelf_key, done_to, last)
            return len(found), done_to < last

    def _shelf(self, connection: Connection, shelf_key: str) -> Shelf | None:
        """Return a shelf, its row locked against other writers; make it for a session."""
        if shelf_key[0] not in "=#":
            return find_shelf(connection, shelf_key, lock=True)
        session = find_by_key(connection, shelf_key)
        if session is None:
            return None
        find_or_make_shelf(connection, shelf_key, owner_key(session), session.first_seq - 1)
        found = find_shelf(connection, shelf_key, lock=True)
        return None if found is None else hand_over(connection, session, found)

    # --- the side of the vectors

    def shelf_number(self, shelf_key: str) -> int | None:
        """Return the number of a shelf; make it for a session that has none."""
        with self._database.writing("The index of recall") as connection:
            shelf = self._shelf(connection, shelf_key)
            return None if shelf is None else shelf.number

    def owner_of(self, shelf: int) -> int | None:
        """Return the number of the owner of a shelf."""
        with self._database.reading("The index of recall") as connection:
            return find_owner(connection, shelf)

    def put_vectors(
        self,
        fingerprint: str,
        vectors: Mapping[int, bytes],
        *,
        done: tuple[str, int] | None = None,
    ) -> None:
        """Store vectors by unit; with `done`, also that its shelf is taken in up to a number.

        Vectors of what is no longer there are left out.

        Args:
            fingerprint: Of the model.
            vectors: float32, little-endian, by unit.
            done: Key of the shelf, and the last of its numbers that is taken in; the outbox row
                goes when no later one is there.
        """
        with self._database.writing("The vectors of recall") as connection:
            # What was erased while its text was being embedded must not come back.
            there = present_units(connection, vectors) if vectors else ()
            kept = {unit: vectors[unit] for unit in vectors if unit in there}
            vector_rows.put_vectors(connection, fingerprint, kept)
            if done is not None:
                _, last = sources_from(connection, done[0], done[1] + 1, 1)
                settle(connection, VECTORS, done[0], done[1], last)

    def vectors_of(self, fingerprint: str, units: Sequence[int]) -> dict[int, bytes]:
        """Return the vectors of some units, as far as there are any."""
        with self._database.reading("The vectors of recall") as connection:
            return vector_rows.vectors_of(connection, fingerprint, units)

    def vector_units(self, fingerprint: str, *, after: int = -1, limit: int = 1_000) -> list[int]:
        """Return the units that have a vector, in order, one page at a time."""
        with self._database.reading("The vectors of recall") as connection:
            return vector_rows.vector_units(connection, fingerprint, after=after, limit=limit)

    def count_vectors(self, fingerprint: str) -> int:
        """Return how many vectors there are under a fingerprint."""
        with self._database.reading("The vectors of recall") as connection:
            return vector_rows.count_vectors(connection, fingerprint)

    def drop_vectors(self, fingerprint: str) -> int:
        """Delete the vectors of a model; return how many there were."""
        with self._database.writing("The vectors of recall") as connection:
            return vector_rows.drop_vectors(connection, fingerprint=fingerprint)

    def owe_vectors(self) -> None:
        """Put every shelf into the outbox of the vectors, from its first number on."""
        with self._database.writing("The outbox of recall") as connection:
            owe_everything(connection, VECTORS)

    # --- facts

    def fact(self, name: str) -> Any:
        """Return a fact about an index (plain JSON); None when it is not known."""
        with self._database.reading("The facts of recall") as connection:
            return fact(connection, name)

    def set_fact(self, name: str, value: Any) -> None:
        """Keep a fact; None forgets it."""
        with self._database.writing("The facts of recall") as connection:
            set_fact(connection, name, value)
