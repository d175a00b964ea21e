"""The search index: terms that every append writes, and the reader of a scope."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

from sqlalchemy import Connection, and_, delete, exists, func, insert, select, true, update

from langchain_tokenmem.core.messages import marks_of, role_of, text_of
from langchain_tokenmem.core.search_units import (
    PART_BITS,
    PARTITION_SHIFT,
    Analyser,
    Change,
    IndexSource,
    Scope,
    ScopePartitions,
    Unindexed,
    unpack_unit,
)
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage import documents, facts
from langchain_tokenmem.storage.database import Database, chunks
from langchain_tokenmem.storage.sessions import (
    MESSAGES,
    OF_SESSION,
    OF_USER,
    Session,
    UserRule,
    checked_id,
    find,
    find_by_id,
    save,
)
from langchain_tokenmem.storage.tables import messages, sessions, terms
from langchain_tokenmem.storage.transcripts import (
    TranscriptRow,
    current,
    read,
    read_at,
    visible,
    with_superseded,
)
from langchain_tokenmem.storage.vectors import VectorsReader, VectorTable, delete_vectors

logger = logging.getLogger(__name__)

WORDS, VECTORS = "lexical", "vectors"
_FIRST_MISSING = {WORDS: sessions.c.words_from, VECTORS: sessions.c.vectors_from}

_ANALYSER = "analyser"
_BATCH = 50
"""Messages that are indexed in one transaction; an append waits about 30 ms for it."""

_ABOUT = "The index of recall"

Postings = list[Any]
"""Rows of (unit, occurrences, length, whether the unit elaborates)."""


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

    # --- what the transcript calls

    def attach(self, analyser: Analyser) -> None:
        """Let every append write its terms in its own transaction."""
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
            session: The session with the messages.
            rows: The messages.
        """
        if rows and self._analyser and session.words_from == rows[0].seq:
            self._index(connection, self._analyser, session, rows)
        return Change("added")

    def edited(self, connection: Connection, session: Session, seqs: Sequence[int]) -> Change:
        """Update the index entries of messages, in the transaction that edits them."""
        session = find_by_id(connection, session.id) or session  # an append has counted meanwhile
        known = [seq for seq in seqs if seq < session.words_from]
        _forget(connection, session, known)
        delete_vectors(connection, session.id, seqs)
        session = save(connection, session, vectors_from=min(session.vectors_from, *seqs))
        if known and self._analyser:
            rows = visible(read_at(connection, session, known))
            self._index(connection, self._analyser, session, rows)
        elif known:
            forget_from(connection, session, min(known))
        return Change("cleared", [session.id])

    def _index(
        self,
        connection: Connection,
        analyser: Analyser,
        session: Session,
        rows: Sequence[TranscriptRow],
    ) -> None:
        try:
            add_terms(connection, analyser, session, [source_of(row, session) for row in rows])
        except Exception:  # an index never fails a turn; the messages are indexed later
            logger.exception("Messages could not be analysed; they are not found yet.")
            forget_from(connection, session, rows[0].seq)

    # --- reading

    @contextmanager
    def reading(self, scope: Scope) -> Iterator[IndexReader | None]:
        """Open a consistent view of a scope; None when it is empty.

        Raises:
            ScopeError: When an id is blank, or the session belongs to another user.
        """
        with self._database.reading(_ABOUT) as connection:
            if scope.session_id or not scope.whole_user:
                self._users.find(connection, scope.session_id, scope.user_id)
            found = _sessions_in(connection, scope)
            yield None if found is None else IndexReader(connection, scope, found)

    def pending(
        self, index_name: str, *, scope: Scope | None = None, limit: int | None = None
    ) -> list[Unindexed]:
        """Return the sessions that an index (`lexical`, `vectors`) has not fully indexed."""
        column = _FIRST_MISSING[index_name]
        query = select(sessions.c.id, column).where(sessions.c.last_seq >= column)
        with self._database.reading(_ABOUT) as connection:
            if scope is not None:
                within = _sessions_in(connection, scope)
                query = query.where(sessions.c.id.in_(within.partitions if within else ()))
            rows = connection.execute(query.order_by(sessions.c.id).limit(limit))
            return [Unindexed(*row) for row in rows]

    def backlog(self) -> dict[str, int]:
        """Return the number of sessions that are not fully indexed, by index."""
        with self._database.reading(_ABOUT) as connection:
            return {
                name: connection.execute(
                    select(func.count()).where(sessions.c.last_seq >= column)
                ).scalar_one()
                for name, column in _FIRST_MISSING.items()
            }

    def sources_from(
        self, partition: int, from_seq: int, limit: int
    ) -> tuple[list[IndexSource], int]:
        """Return the texts of a session from a number on, and the session's last number."""
        with self._database.reading(_ABOUT) as connection:
            session = find_by_id(connection, partition)
            if session is None:
                return [], 0
            return sources_from(connection, session, from_seq, limit), session.last_seq

    def history(
        self, scope: Scope, before: int | None, limit: int, *, include_superseded: bool = False
    ) -> list[IndexSource]:
        """Return the messages of a session in front of a number, the newest `limit`, in order.

        Raises:
            ScopeError: When an id is blank, or the session belongs to another user.
        """
        with self._database.reading(f"Session {scope.session_id!r}") as connection:
            session = self._users.find(connection, scope.session_id, scope.user_id)
            if session is None:
                return []
            end = session.last_seq + 1 if before is None else before
            rows = read(connection, session, end - limit, end - 1)
            chosen = with_superseded(rows) if include_superseded else current(rows)
            return [source_of(row, session) for row in chosen]

    # --- documents

    def put_documents(self, sources: Sequence[IndexSource]) -> None:
        """Add documents (at least one) to the session or user that they name.

        Each replaces the one with its id.

        Raises:
            ScopeError: When they name neither, or the session belongs to another user.
        """
        held = documents.lock_of(sources[0].session_id, sources[0].user_id)
        with self._database.writing("The documents of recall", held) as connection:
            self._check(connection, sources[0].session_id, sources[0].user_id)
            session, old = documents.put(connection, sources)
            self.forget(connection, session, old)
        self.tell(Change("cleared" if old else "added", [session.id]))
        self.make_ready()
        if self._analyser is not None:
            self._index_batch(self._analyser, session.id, _BATCH)

    def delete_document(
        self, document_id: str, *, session_id: str | None, user_id: str | None
    ) -> bool:
        """Delete a document and its parts; return whether anything was deleted.

        Raises:
            ScopeError: When neither id is given, or the session belongs to another user.
        """
        held = documents.lock_of(session_id, user_id)
        with self._database.writing("The documents of recall", held) as connection:
            self._check(connection, session_id, user_id)
            session, gone = documents.remove(connection, document_id, session_id, user_id)
            if session is None or not gone:
                return False
            self.forget(connection, session, gone)
        self._database.forget_deleted()
        self.tell(Change("cleared", [session.id]))
        return True

    def document(
        self, document_id: str, *, session_id: str | None, user_id: str | None
    ) -> IndexSource | None:
        """Return a document; None where there is none."""
        with self._database.reading("The documents of recall") as connection:
            self._check(connection, session_id, user_id)
            return documents.find_document(connection, document_id, session_id, user_id)

    def count_documents(self, session_id: str | None, user_id: str | None) -> int:
        """Return the number of documents."""
        with self._database.reading("The documents of recall") as connection:
            return documents.count(connection, session_id, user_id)

    def forget(self, connection: Connection, session: Session, seqs: Sequence[int]) -> None:
        """Delete the terms and vectors of some texts."""
        _forget(connection, session, seqs)
        delete_vectors(connection, session.id, seqs)

    def _check(self, connection: Connection, session_id: str | None, user_id: str | None) -> None:
        if session_id is not None:
            self._users.find(connection, session_id, user_id)

    # --- the index of words

    def index_lexical(
        self,
        scope: Scope | None = None,
        most: int | None = None,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> int:
        """Index the words of one scope or of all; return how many messages were indexed.

        Nothing happens without an analyser. At most `most` messages are indexed, starting with
        those of the scope's session; indexing stops when `goes_on` returns false after a batch. A
        session that cannot be read is skipped.
        """
        analyser = self._analyser
        if analyser is None:
            return 0
        self.make_ready()
        own, done = self._number_of(scope), 0
        for entry in sorted(self.pending(WORDS, scope=scope), key=lambda e: e.partition != own):
            is_more = True
            while is_more and (most is None or done < most):
                size = _BATCH if most is None else min(_BATCH, most - done)
                try:
                    count, is_more = self._index_batch(analyser, entry.partition, size)
                except CorruptStoreError as error:
                    logger.warning("It is not found by its words: %s", error)
                    break
                done += count
                if not goes_on():
                    return done
        return done

    def _number_of(self, scope: Scope | None) -> int | None:
        if scope is None or not scope.session_id:
            return None
        with self._database.reading(_ABOUT) as connection:
            session = find(connection, scope.session_id)
            return None if session is None else session.id

    def _index_batch(self, analyser: Analyser, number: int, size: int) -> tuple[int, bool]:
        """Index some texts of a session; return how many, and whether any are left."""
        with self.writing_to(number) as (connection, session):
            if session is None or session.words_from > session.last_seq:
                return 0, False
            found = sources_from(connection, session, session.words_from, size)
            add_terms(connection, analyser, session, found)
            done_to = found[-1].seq if found else session.last_seq
            connection.execute(
                update(sessions).where(sessions.c.id == number).values(words_from=done_to + 1)
            )
            return len(found), done_to < session.last_seq

    def make_ready(self) -> None:
        """Start the index over if another version of the analyser made it."""
        analyser = self._analyser
        if analyser is None or self._is_ready:
            return
        with self._lock, self._database.writing(_ABOUT) as connection:
            if facts.get(connection, _ANALYSER) != analyser.version:
                _start_over(connection)
                facts.put(connection, _ANALYSER, analyser.version)
        self._is_ready = True

    def rebuild_lexical(self) -> int:
        """Rebuild the index of words; return how many messages it has."""
        with self._database.writing(_ABOUT) as connection:
            _start_over(connection)
        return self.index_lexical()


# --- texts


def source_of(row: TranscriptRow, session: Session) -> IndexSource:
    """Return a message as an `IndexSource`."""
    message, marks = row.message, marks_of(row.message)
    return IndexSource(
        seq=row.seq,
        is_hidden=row.is_hidden,
        text=text_of(message),
        role=role_of(message),
        created_at=row.created_at,
        message=message,
        name=message.name,
        source_id=message.id or "",
        session_id=session.name,
        user_id=session.user_id,
        is_added=bool(marks.get("added")),
        metadata={"superseded": marks["superseded"]} if "superseded" in marks else {},
    )


def sources_from(
    connection: Connection, session: Session, from_seq: int, limit: int
) -> list[IndexSource]:
    """Return the texts of a session from a number on."""
    if session.kind != MESSAGES:
        return documents.read(connection, session, from_seq=from_seq, limit=limit)
    start = max(from_seq, session.first_seq)
    rows = current(read(connection, session, start, start + limit - 1))
    return [source_of(row, session) for row in rows]


# --- terms


def add_terms(
    connection: Connection, analyser: Analyser, session: Session, sources: Sequence[IndexSource]
) -> None:
    """Store the terms of texts of a session, and update the counts in the session's row."""
    found = [
        (source.seq, entry)
        for source in sources
        if not source.is_hidden
        for entry in analyser.entries(source)
    ]
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
    if new:
        connection.execute(insert(terms), new)
    more = (len(found), sum(entry.length for _, entry in found))
    last = max((source.seq for source in sources), default=0)
    own = update(sessions).where(sessions.c.id == session.id)
    next_one = {"words_from": last + 1} if last >= session.words_from else {}
    connection.execute(own.values(**_counted(*more), **next_one))


def _counted(units: int, length: int) -> dict[str, Any]:
    return {
        "unit_count": sessions.c.unit_count + units,
        "term_count": sessions.c.term_count + length,
    }


def _forget(connection: Connection, session: Session, seqs: Sequence[int]) -> None:
    """Delete the terms of some messages."""
    for some in chunks(seqs):
        _delete_where(connection, session, terms.c.seq.in_(some))


def forget_from(connection: Connection, session: Session, seq: int) -> None:
    """Delete the terms of a message and all later ones, which are then indexed again."""
    _delete_where(connection, session, terms.c.seq >= seq)
    save(connection, session, words_from=min(session.words_from, seq))


def _delete_where(connection: Connection, session: Session, condition: Any) -> None:
    own = and_(terms.c.session == session.id, condition)
    known = select(terms.c.seq, terms.c.part, terms.c.unit_length).where(own).distinct()
    lengths = [row.unit_length for row in connection.execute(known)]
    if lengths:
        connection.execute(delete(terms).where(own))
        counted = _counted(-len(lengths), -sum(lengths))
        connection.execute(update(sessions).where(sessions.c.id == session.id).values(**counted))


def _start_over(connection: Connection) -> None:
    connection.execute(delete(terms))
    new = {"unit_count": 0, "term_count": 0, "words_from": sessions.c.first_seq}
    connection.execute(update(sessions).values(**new))


# --- a scope


def _sessions_in(connection: Connection, scope: Scope) -> ScopePartitions | None:
    """Return the sessions that a scope may search, documents included; None if there are none.

    Raises:
        ScopeError: When an id is blank, or the session belongs to another user.
    """
    session = None
    if scope.session_id or not scope.whole_user:
        session = find(connection, scope.session_id, scope.user_id)
    query = select(sessions.c.id)
    if scope.whole_user:
        query = query.where(sessions.c.user_id == checked_id(scope.user_id, "user_id"))
    elif session is not None or scope.session_id:
        kinds = (MESSAGES, OF_SESSION)
        query = query.where(sessions.c.name == scope.session_id, sessions.c.kind.in_(kinds))
    numbers = tuple(connection.execute(query.order_by(sessions.c.id)).scalars())
    if not numbers:
        return None
    user_id = scope.user_id
    if not scope.whole_user:
        user_id = session.user_id if session else None
    return ScopePartitions(owner_number(user_id, numbers[0]), numbers, whole=scope.whole_user)


def owner_number(user_id: str | None, session: int) -> int:
    """Return the number of an owner (user or session) in an index of vectors.

    It does not reveal the user's id to readers of that index. Two users with the same number would
    do no harm: hits are checked against the scope again.
    """
    if user_id is None:
        return -session
    return int.from_bytes(hashlib.blake2b(user_id.encode(), digest_size=6).digest(), "big")


# Multiplication, because PostgreSQL cannot shift a BIGINT by a BIGINT.
_UNIT = terms.c.session * (1 << PARTITION_SHIFT) + terms.c.seq * (1 << PART_BITS) + terms.c.part
_POSTING = select(_UNIT, terms.c.occurrences, terms.c.unit_length, terms.c.elaborates)


class IndexReader(VectorsReader):
    """A consistent view of a scope: its terms, vectors and texts.

    Args:
        connection: In a transaction.
        scope: The scope; every text is checked against it again.
        partitions: The sessions of the scope.

    Attributes:
        partitions: The sessions of the scope.
    """

    def __init__(self, connection: Connection, scope: Scope, partitions: ScopePartitions) -> None:
        super().__init__(connection, partitions)
        self.partitions = partitions
        self._scope = scope

    def totals(self) -> tuple[int, int]:
        """Return the number of units in scope, and their total number of terms."""
        counted = select(func.sum(sessions.c.unit_count), func.sum(sessions.c.term_count))
        row = self._connection.execute(counted.where(self._own())).one()
        return int(row[0] or 0), int(row[1] or 0)

    def _own(self) -> Any:
        if self.partitions.whole:
            return sessions.c.user_id == self._scope.user_id
        return sessions.c.id.in_(self.partitions.partitions)

    def _mine(self) -> Any:
        if self.partitions.whole:
            mine = terms.c.session.in_(select(sessions.c.id).where(self._own()))
        else:
            mine = terms.c.session.in_(self.partitions.partitions)
        return and_(mine, self._is_of_time())

    def _is_of_time(self) -> Any:
        """Return the condition that a posting's message is of a time that may be found."""
        if not (bounds := self._said_in_time()):
            return true()
        same = (messages.c.session == terms.c.session, messages.c.seq == terms.c.seq)
        return exists().where(*same, messages.c.is_shown == 1, *bounds)

    def _said_in_time(self) -> list[Any]:
        """Return the conditions that a message is of a time that may be found; mostly none."""
        after, before = self._scope.after, self._scope.before
        bounds = [] if after is None else [messages.c.created_at >= after.isoformat()]
        return bounds if before is None else [*bounds, messages.c.created_at < before.isoformat()]

    def counts(self, words: Sequence[str]) -> dict[str, int]:
        """Return in how many units in scope each term occurs; terms that do not are left out."""
        found: dict[str, int] = {}
        for some in chunks(words):
            query = select(terms.c.term, func.count()).where(self._mine(), terms.c.term.in_(some))
            rows = self._connection.execute(query.group_by(terms.c.term))
            found |= {row[0]: row[1] for row in rows}
        return found

    def postings(self, words: Sequence[str], most: int) -> dict[str, Postings]:
        """Return the rows of terms: all of several, the newest `most` of a single one."""
        if len(words) == 1:
            order = (terms.c.session.desc(), terms.c.seq.desc(), terms.c.part.desc())
            query = _POSTING.where(self._mine(), terms.c.term == words[0])
            rows = self._connection.execute(query.order_by(*order).limit(most))
            return {words[0]: list(rows)}
        found: dict[str, Postings] = {term: [] for term in words}
        for some in chunks(words):
            query = _POSTING.add_columns(terms.c.term).where(self._mine(), terms.c.term.in_(some))
            for *row, term in self._connection.execute(query):
                found[term].append(row)
        return found

    def postings_of(self, words: Sequence[str], units: Sequence[int]) -> dict[str, Postings]:
        """Return the rows of terms in some units."""
        found: dict[str, Postings] = {term: [] for term in words}
        query = _POSTING.add_columns(terms.c.term).where(self._is_of_time())
        places = [
            (number, some) for number, seqs in _by_session(units).items() for some in chunks(seqs)
        ]
        for (number, some), few in product(places, [*chunks(words)]):
            own = (terms.c.session == number, terms.c.term.in_(few), terms.c.seq.in_(some))
            for *row, term in self._connection.execute(query.where(*own)):
                found[term].append(row)
        wanted = set(units)
        return {term: [row for row in rows if row[0] in wanted] for term, rows in found.items()}

    def filter_units(
        self, units: Sequence[int], among: Collection[str] | None, exclude: Collection[str]
    ) -> list[int]:
        """Return the units whose messages are in `among` and not in `exclude`, in their order.

        Both are ids of messages; documents are always returned. What is of another time than the
        scope's is not.
        """
        if self._said_in_time():
            there = self._of_time(units)
            units = [unit for unit in units if unpack_unit(unit)[:2] in there]
        if among is None and not exclude:
            return list(units)
        names = self._names(units)
        return [
            unit
            for unit in units
            if (name := names.get(unpack_unit(unit)[:2])) is None
            or (name not in exclude and (among is None or name in among))
        ]

    def _of_time(self, units: Iterable[int]) -> set[tuple[int, int]]:
        """Return session and seq of the units that are of a time that may be found."""
        found: set[tuple[int, int]] = set()
        for number, seqs in _by_session(units).items():
            for some in chunks(seqs):
                own = (messages.c.session == number, messages.c.seq.in_(some))
                query = select(messages.c.seq).where(*own, *self._said_in_time())
                found |= {(number, seq) for seq in self._connection.execute(query).scalars()}
        return found

    def _names(self, units: Iterable[int]) -> dict[tuple[int, int], str]:
        """Return the ids of the messages of some units; documents are left out."""
        found: dict[tuple[int, int], str] = {}
        wanted = _by_session(units)
        for session in self._sessions(wanted):
            number, seqs = session.id, wanted[session.id]
            if session.kind != MESSAGES:
                continue
            for some in chunks(seqs):
                own = (messages.c.session == number, messages.c.seq.in_(some))
                query = select(messages.c.seq, messages.c.message_id).where(*own)
                rows = self._connection.execute(query)
                found |= {(number, seq): name or "" for seq, name in rows}
        return found

    def _sessions(self, numbers: Iterable[int]) -> list[Session]:
        """Return the sessions with some numbers, in order."""
        found: list[Session] = []
        for some in chunks(sorted(numbers)):
            query = select(sessions).where(sessions.c.id.in_(some)).order_by(sessions.c.id)
            found += [Session(*row) for row in self._connection.execute(query)]
        return found

    def sources(self, units: Iterable[int]) -> dict[tuple[int, int], IndexSource]:
        """Return the texts of units by (session, seq), if they exist and are in scope."""
        found: dict[tuple[int, int], IndexSource] = {}
        wanted = _by_session(units)
        for session in self._sessions(wanted):
            number, seqs = session.id, wanted[session.id]
            if not _is_in_scope(session, self._scope):
                continue
            if session.kind == MESSAGES:
                rows = visible(read_at(self._connection, session, seqs))
                sources = [source_of(row, session) for row in rows]
            else:
                sources = documents.read(self._connection, session, seqs=seqs)
            found |= {
                (number, source.seq): source
                for source in sources
                if self._scope.has_time(source.created_at)
            }
        return found


def _by_session(units: Iterable[int]) -> dict[int, list[int]]:
    found: dict[int, set[int]] = defaultdict(set)
    for unit in units:
        number, seq, _ = unpack_unit(unit)
        found[number].add(seq)
    return {number: sorted(seqs) for number, seqs in found.items()}


def _is_in_scope(session: Session, scope: Scope) -> bool:
    if scope.whole_user:
        return scope.user_id is not None and session.user_id == scope.user_id
    is_theirs = scope.user_id is None or session.user_id in {None, scope.user_id}
    return session.kind != OF_USER and session.name == scope.session_id and is_theirs
