"""The search index: updated by every append, completed later, and rebuilt."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from sqlalchemy import (
    JSON,
    Connection,
    Text,
    and_,
    bindparam,
    cast,
    column,
    delete,
    func,
    insert,
    select,
    update,
)

from langchain_tokenmem.core.search_units import (
    Analyser,
    Change,
    Entry,
    IndexSource,
    Scope,
    Unindexed,
)
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage import documents, transcripts
from langchain_tokenmem.storage import sessions as session_rows
from langchain_tokenmem.storage.database import Database, chunks, lock_threads
from langchain_tokenmem.storage.index_reader import IndexReader, reader_of, source_of
from langchain_tokenmem.storage.sessions import MESSAGES, Session, UserRule
from langchain_tokenmem.storage.tables import fact, sessions, set_fact, terms
from langchain_tokenmem.storage.transcripts import TranscriptRow
from langchain_tokenmem.storage.vectors import VectorTable, delete_vectors

logger = logging.getLogger(__name__)

WORDS, VECTORS = "lexical", "vectors"
_FIRST_MISSING = {WORDS: sessions.c.words_from, VECTORS: sessions.c.vectors_from}

_ANALYSER = "analyser"
_REBUILT_TO = "rebuilt_to"
_BATCH = 50
"""Messages indexed in one transaction; an append waits about 30 ms for it."""

_ABOUT = "The index of recall"
_DOCUMENTS = "The documents of recall"


class SearchIndex(VectorTable):
    """The search index of a database; `TranscriptStore.index` is one.

    Args:
        database: The database of the transcripts.
        users: Whether a search may leave out the user.
    """

    def __init__(self, database: Database, users: UserRule = UserRule()) -> None:  # noqa: B008
        super().__init__(database)
        self._users = users
        self._analyser: Analyser | None = None
        self._listeners: list[Callable[[Change], None]] = []
        self._is_ready = False
        self._lock = threading.Lock()

    # --- called by the transcript

    def attach(self, analyser: Analyser) -> None:
        """Make every append write its terms in its own transaction."""
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
        """Call the listeners; their exceptions are logged."""
        for listener in list(self._listeners):
            try:
                listener(change)
            except Exception:  # an index never fails a turn
                logger.exception("A listener of the store failed.")

    def appended(
        self, connection: Connection, session: Session, rows: Sequence[TranscriptRow]
    ) -> Change:
        """Index new messages in the transaction that stores them, if all earlier ones are indexed.

        Args:
            connection: In that transaction.
            session: The session with the messages; the caller saves it.
            rows: The messages.
        """
        if rows and self._analyser and session.words_from == rows[0].seq:
            sources = [source_of(row, session) for row in rows]
            self._index(connection, self._analyser, session, sources)
        return Change("added")

    def edited(self, connection: Connection, session: Session, seqs: Sequence[int]) -> Change:
        """Update the index entries of texts, in the transaction that edits them."""
        known = [seq for seq in seqs if seq < session.words_from]
        forget(connection, session, seqs)
        session.vectors_from = min(session.vectors_from, *seqs)
        if known and self._analyser:
            self._index(connection, self._analyser, session, sources_at(connection, session, known))
        elif known:
            forget_from(connection, session, min(known))
        return Change("cleared", [session.id])

    def _index(
        self,
        connection: Connection,
        analyser: Analyser,
        session: Session,
        sources: Sequence[IndexSource],
    ) -> None:
        try:
            found = entries_of(analyser, sources)
        except Exception:  # an index never fails a turn; the messages are indexed later
            logger.exception("Messages could not be analysed; searches do not find them yet.")
            forget_from(connection, session, sources[0].seq)
            return
        last = max((source.seq for source in sources), default=0)
        add_terms(connection, session, found, last)

    # --- reading

    @contextmanager
    def reading(self, scope: Scope) -> Iterator[IndexReader | None]:
        """Open a consistent view of a scope; yield None if it is empty.

        Raises:
            ScopeError: When an id is blank, or the session belongs to another user.
        """
        with self._database.reading(_ABOUT) as connection:
            yield reader_of(connection, scope, self._users)

    def pending(
        self, index_name: str, *, scope: Scope | None = None, limit: int | None = None
    ) -> list[Unindexed]:
        """Return the sessions that an index (`lexical`, `vectors`) has not fully indexed.

        The session of the scope is the first.
        """
        column = _FIRST_MISSING[index_name]
        query = select(sessions.c.id, column).where(sessions.c.last_seq >= column)
        with self._database.reading(_ABOUT) as connection:
            if scope is not None:
                reader = reader_of(connection, scope, self._users)
                numbers = reader.partitions.partitions if reader else ()
                query = query.where(sessions.c.id.in_(numbers))
                query = query.order_by(sessions.c.name != scope.session_id)
            rows = connection.execute(query.order_by(sessions.c.id).limit(limit))
            return [Unindexed(*row) for row in rows]

    def backlog(self) -> dict[str, int]:
        """Return the number of sessions that are not fully indexed, by index."""
        return {name: len(self.pending(name)) for name in _FIRST_MISSING}

    def sources_from(
        self, partition: int, from_seq: int, limit: int
    ) -> tuple[Session | None, list[IndexSource]]:
        """Return a session, if it exists, and its texts from a number on, in one read."""
        with self._database.reading(_ABOUT) as connection:
            session = session_rows.find_by_id(connection, partition)
            found = sources_from(connection, session, from_seq, limit) if session else []
            return session, found

    def history(
        self, scope: Scope, before: int | None, limit: int, *, include_superseded: bool = False
    ) -> list[IndexSource]:
        """Return the newest `limit` messages of a session before a number, in order.

        Raises:
            ScopeError: When an id is blank, or the session belongs to another user.
        """
        with self._database.reading(f"Session {scope.session_id!r}") as connection:
            session = self._users.find(connection, scope.session_id, scope.user_id)
            if session is None:
                return []
            end = session.last_seq + 1 if before is None else before
            chosen = transcripts.with_superseded if include_superseded else transcripts.current
            rows = chosen(transcripts.read(connection, session, end - limit, end - 1))
            return [source_of(row, session) for row in rows]

    # --- documents

    def put_documents(self, sources: Sequence[IndexSource]) -> None:
        """Add documents (at least one) to the session or user that they name.

        Each replaces the one with its id.

        Raises:
            ScopeError: When they name neither, or the session belongs to another user.
        """
        first = sources[0]
        with self._documents(first.session_id, first.user_id, change=True) as (connection, _):
            session, old = documents.put(connection, sources)
            forget(connection, session, old)
            session_rows.save(connection, session)
        self.tell(Change("cleared" if old else "added", [session.id]))
        self.make_ready()
        if self._analyser is not None:
            self._index_batch(self._analyser, session.id)

    def delete_document(
        self, document_id: str, *, session_id: str | None, user_id: str | None
    ) -> bool:
        """Delete a document and its parts; return whether anything was deleted.

        Raises:
            ScopeError: When neither id is given, or the session belongs to another user.
        """
        with self._documents(session_id, user_id, change=True) as (connection, session):
            gone = documents.remove(connection, session, document_id) if session else []
            if session is None or not gone:
                return False
            forget(connection, session, gone)
            session_rows.save(connection, session)
        self._database.forget_deleted()
        self.tell(Change("cleared", [session.id]))
        return True

    def document(
        self, document_id: str, *, session_id: str | None, user_id: str | None
    ) -> IndexSource | None:
        """Return a document, or None if there is none."""
        with self._documents(session_id, user_id) as (connection, session):
            found = documents.read(connection, session, named=document_id) if session else []
            return found[0] if found else None

    def count_documents(self, session_id: str | None, user_id: str | None) -> int:
        """Return the number of documents of a session, of a user or, by default, of the store."""
        if session_id is None and user_id is None:
            with self._database.reading(_DOCUMENTS) as connection:
                return documents.count(connection)
        with self._documents(session_id, user_id) as (connection, session):
            return documents.count(connection, session) if session else 0

    @contextmanager
    def _documents(
        self, session_id: str | None, user_id: str | None, *, change: bool = False
    ) -> Iterator[tuple[Connection, Session | None]]:
        """Yield the session with the documents of a session or, if none is named, of a user.

        With `change`, in a write transaction that has locked them.
        """
        kind, name = documents.home_of(session_id, user_id)
        opened = (
            self._database.writing(_DOCUMENTS, session_rows.lock_name(kind, name))
            if change
            else self._database.reading(_DOCUMENTS)
        )
        with opened as connection:
            if session_id is not None:
                self._users.find(connection, session_id, user_id)
            yield connection, session_rows.find(connection, name, user_id, kind=kind)

    # --- the index of words

    def index_lexical(
        self,
        scope: Scope | None = None,
        most: int | None = None,
        keep_going: Callable[[], bool] = lambda: True,
    ) -> int:
        """Index the words of one scope or of all; return how many messages were indexed.

        Nothing happens without an analyser. Indexing starts with the scope's session, and stops
        after the batch with which `most` messages are indexed, or `keep_going` returns false. A
        session that cannot be read is skipped.
        """
        analyser = self._analyser
        if analyser is None:
            return 0
        self.make_ready()
        done = 0
        for entry in self.pending(WORDS, scope=scope):
            for count, _ in self._batches(analyser, entry.partition):
                done += count
                if (most is not None and done >= most) or not keep_going():
                    return done
        return done

    def _batches(
        self, analyser: Analyser, number: int, start: int | None = None
    ) -> Iterator[tuple[int, int | None]]:
        """Index a session batch by batch; yield what `_index_batch` returns."""
        at = start
        while True:
            try:
                count, following = self._index_batch(analyser, number, at)
            except CorruptStoreError as error:
                logger.warning("Search by words does not find it: %s", error)
                count, following = 0, None
            yield count, following
            if following is None:
                return
            at = None if start is None else following

    def _index_batch(
        self, analyser: Analyser, number: int, start: int | None = None
    ) -> tuple[int, int | None]:
        """Index some texts of a session: what is missing, or everything from a number on again.

        Returns:
            How many texts, and the number with which to continue; None at the end of the session.
        """
        with self.writing_to(number) as (connection, session):
            if session is None:
                return 0, None
            first = session.words_from if start is None else min(start, session.words_from)
            found = sources_from(connection, session, first, _BATCH)
            last = found[-1].seq if found else session.last_seq
            following = last + 1 if last < session.last_seq else None
            if start is not None:
                delete_where(connection, session, terms.c.seq.between(first, last))
                # The end of one session is the start of the next.
                place = (number, following) if following else (number + 1, 1)
                set_fact(connection, _REBUILT_TO, place)
                if following is None:
                    recount(connection, session)
            add_terms(connection, session, entries_of(analyser, found), last)
            session_rows.save(connection, session)
            return len(found), following

    def make_ready(self) -> None:
        """Clear the index if another version of the analyser made it."""
        analyser = self._analyser
        if analyser is None or self._is_ready:
            return
        with self._lock, self._database.writing(_ABOUT) as connection:
            lock_threads(connection, [_ANALYSER])  # once for processes that start together
            if fact(connection, _ANALYSER) != analyser.version:
                new = {"unit_count": 0, "term_count": 0, "words_from": sessions.c.first_seq}
                connection.execute(update(sessions).values(**new))
                connection.execute(delete(terms))
                set_fact(connection, _ANALYSER, analyser.version)
        self._is_ready = True

    def rebuild_lexical(self) -> Iterator[tuple[int, int, int]]:
        """Rebuild the index of words in place, and index what is missing.

        Yields after each batch how many texts it has indexed, how many sequence numbers are done,
        and of how many.

        Each batch is replaced in one transaction, so searches find everything meanwhile. The place
        is stored with the batch: a rebuild that was interrupted continues there, until
        `finish_rebuild`. A session that cannot be read is skipped.
        """
        analyser = self._analyser
        if analyser is None:
            return
        self.make_ready()
        with self._database.reading(_ABOUT) as connection:
            number, start = fact(connection, _REBUILT_TO) or (0, 1)
            columns = (sessions.c.id, sessions.c.first_seq, sessions.c.last_seq)
            query = select(*columns).where(sessions.c.id >= number).order_by(sessions.c.id)
            left = [
                (one, start if one == number else first, last)
                for one, first, last in connection.execute(query)
            ]
        sizes = [max(0, last + 1 - first) for _, first, last in left]
        done, total = 0, sum(sizes)
        for (one, first, _), size in zip(left, sizes, strict=True):
            for count, at in self._batches(analyser, one, first):
                yield count, done + (size if at is None else min(at - first, size)), total
            done += size
        yield self.index_lexical(), total, total

    def finish_rebuild(self) -> None:
        """Let the next rebuild begin with the first session."""
        with self._database.writing(_ABOUT) as connection:
            set_fact(connection, _REBUILT_TO, None)


# --- texts


def sources_from(
    connection: Connection, session: Session, from_seq: int, limit: int
) -> list[IndexSource]:
    """Return the texts of a session from a number on."""
    if session.kind != MESSAGES:
        return documents.read(connection, session, from_seq=from_seq, limit=limit)
    start = max(from_seq, session.first_seq)
    rows = transcripts.current(transcripts.read(connection, session, start, start + limit - 1))
    return [source_of(row, session) for row in rows]


def sources_at(connection: Connection, session: Session, seqs: Sequence[int]) -> list[IndexSource]:
    """Return the texts of a session with the given numbers, if they are shown."""
    if session.kind != MESSAGES:
        return documents.read(connection, session, seqs=seqs)
    return [
        source_of(row, session)
        for row in transcripts.visible(transcripts.read_at(connection, session, seqs))
    ]


# --- the inverted index

# psycopg sends one statement per row of a list, and takes as long for an array as for those.
_ROWS = func.json_to_recordset(cast(bindparam("rows", type_=Text), JSON)).table_valued(
    *(column(one.name, one.type) for one in terms.c)
)
_ADD_AT_ONCE = insert(terms).from_select([*terms.c], select(_ROWS.render_derived(with_types=True)))
"""Inserts rows given as a JSON array of objects, on PostgreSQL."""


def entries_of(analyser: Analyser, sources: Sequence[IndexSource]) -> list[tuple[int, Entry]]:
    """Return what an analyser finds in texts, each with the number of its text."""
    return [(source.seq, entry) for source in sources for entry in analyser.entries(source)]


def add_terms(
    connection: Connection, session: Session, found: Sequence[tuple[int, Entry]], last: int
) -> None:
    """Store the terms of texts of a session, and count them in it; its caller saves it.

    Args:
        connection: In a write transaction.
        session: The session.
        found: What was found in the texts.
        last: Number of the last of these texts.
    """
    new = [
        {
            "session": session.id,
            "term": term,
            "seq": seq,
            "part": entry.part,
            "occurrences": occurrences,
            "unit_length": entry.length,
            "elaborates": int(entry.elaborates),
        }
        for seq, entry in found
        for term, occurrences in entry.terms.items()
    ]
    if new and connection.dialect.name == "postgresql":
        connection.execute(_ADD_AT_ONCE, {"rows": orjson.dumps(new).decode()})
    elif new:
        connection.execute(insert(terms), new)
    session.unit_count += len(found)
    session.term_count += sum(entry.length for _, entry in found)
    session.words_from = max(session.words_from, last + 1)


def recount(connection: Connection, session: Session) -> None:
    """Count the units and terms of a session again."""
    every = select(terms.c.seq, terms.c.part, terms.c.unit_length)
    own = every.where(terms.c.session == session.id).distinct().subquery()
    counted = select(func.count(), func.coalesce(func.sum(own.c.unit_length), 0)).select_from(own)
    session.unit_count, session.term_count = connection.execute(counted).one()


def forget(connection: Connection, session: Session, seqs: Sequence[int]) -> None:
    """Delete the terms and vectors of some texts."""
    for some in chunks(seqs):
        delete_where(connection, session, terms.c.seq.in_(some))
    delete_vectors(connection, session.id, seqs)


def forget_from(connection: Connection, session: Session, seq: int) -> None:
    """Delete the terms of a message and all later ones, which are then indexed again."""
    delete_where(connection, session, terms.c.seq >= seq)
    session.words_from = min(session.words_from, seq)


def delete_where(connection: Connection, session: Session, condition: Any) -> None:
    """Delete the terms of a session that meet a condition, and update its counts."""
    own = and_(terms.c.session == session.id, condition)
    known = select(terms.c.seq, terms.c.part, terms.c.unit_length).where(own).distinct()
    lengths = [row.unit_length for row in connection.execute(known)]
    if lengths:
        connection.execute(delete(terms).where(own))
        session.unit_count -= len(lengths)
        session.term_count -= sum(lengths)
