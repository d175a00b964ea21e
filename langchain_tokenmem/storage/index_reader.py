"""The reader of a scope of the search index: its terms, vectors and texts."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, exists, func, select, true

from langchain_tokenmem.core.messages import marks_of, role_of, text_of
from langchain_tokenmem.core.search_units import (
    PART_BITS,
    PARTITION_SHIFT,
    IndexSource,
    Scope,
    ScopePartitions,
    pack_unit,
    unpack_unit,
)
from langchain_tokenmem.storage import documents
from langchain_tokenmem.storage.database import in_pairs, rows_with
from langchain_tokenmem.storage.sessions import (
    MESSAGES,
    OF_USER,
    Session,
    UserRule,
    check_owner,
    checked_id,
    sessions_of_name,
)
from langchain_tokenmem.storage.tables import messages, sessions, terms
from langchain_tokenmem.storage.transcripts import TranscriptRow, read_places, visible
from langchain_tokenmem.storage.vectors import VectorsReader

Postings = list[Any]
"""Rows of (unit, occurrences, length, whether the unit elaborates)."""


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
        metadata={"superseded": marks["superseded"]} if "superseded" in marks else {},
    )


def reader_of(connection: Connection, scope: Scope, users: UserRule) -> IndexReader | None:
    """Return the reader of a scope, or None if there is nothing in it.

    Raises:
        ScopeError: When an id is blank, the session belongs to another user, or a required user is
            missing.
    """
    own: list[Session] = []
    session = None
    if scope.session_id or not scope.whole_user:
        own = sessions_of_name(connection, scope.session_id)
        session = next((one for one in own if one.kind == MESSAGES), None)
        if scope.user_id is not None:
            check_owner(session, scope.user_id)
        users.check(scope.session_id, scope.user_id, session.user_id if session else None)
    if not scope.whole_user:
        if not own:
            return None
        numbers = tuple(one.id for one in own)
        owner = owner_number(session.user_id if session else None, numbers[0])
        has_backlog = any(one.last_seq >= one.words_from for one in own)
        covered = ScopePartitions(owner, numbers)
        return IndexReader(connection, scope, covered, own, has_backlog=has_backlog)
    theirs = sessions.c.user_id == checked_id(scope.user_id, "user_id")
    is_late = sessions.c.last_seq >= sessions.c.words_from
    query = select(sessions.c.id, is_late).where(theirs).order_by(sessions.c.id)
    late = {row[0]: bool(row[1]) for row in connection.execute(query)}
    if not late:
        return None
    numbers = tuple(late)
    covered = ScopePartitions(owner_number(scope.user_id, numbers[0]), numbers, whole=True)
    return IndexReader(connection, scope, covered, own, has_backlog=any(late.values()))


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

_NAMES = select(messages.c.message_id).where(
    messages.c.session == bindparam("of"), messages.c.seq.is_not(None)
)


class IndexReader(VectorsReader):
    """A consistent view of a scope: its terms, vectors and texts.

    Args:
        connection: A connection in a transaction.
        scope: The scope; every text is checked against it again.
        partitions: The sessions that it covers, documents included.
        known: Rows of sessions that were read so far.
        has_backlog: Whether some of their texts are not in the index of words yet.
    """

    def __init__(
        self,
        connection: Connection,
        scope: Scope,
        partitions: ScopePartitions,
        known: Sequence[Session],
        *,
        has_backlog: bool,
    ) -> None:
        super().__init__(connection, partitions)
        self.partitions, self.has_backlog = partitions, has_backlog
        self._scope = scope
        self._held = {session.id: session for session in known}

    def totals(self) -> tuple[int, int]:
        """Return the number of units in scope, and their total number of terms."""
        if not self.partitions.whole:
            own = [self._held[number] for number in self.partitions.partitions]
            return sum(one.unit_count for one in own), sum(one.term_count for one in own)
        counted = select(func.sum(sessions.c.unit_count), func.sum(sessions.c.term_count))
        theirs = sessions.c.user_id == self._scope.user_id
        row = self._connection.execute(counted.where(theirs)).one()
        return int(row[0] or 0), int(row[1] or 0)

    def _mine(self) -> Any:
        return and_(self._has_session(terms.c.session), self._is_of_time())

    def _has_session(self, column: Any) -> Any:
        """Return the condition that a session is in scope."""
        if self.partitions.whole:
            theirs = sessions.c.user_id == self._scope.user_id
            return column.in_(select(sessions.c.id).where(theirs))
        return column.in_(self.partitions.partitions)

    def _is_of_time(self) -> Any:
        """Return the condition that a posting's message is in the scope's time range."""
        if not (bounds := _time_bounds(self._scope)):
            return true()
        same = (messages.c.session == terms.c.session, messages.c.seq == terms.c.seq)
        return exists().where(*same, messages.c.is_shown == 1, *bounds)

    def counts(self, words: Sequence[str]) -> dict[str, int]:
        """Return the number of units in scope that have each term; omit terms that do not occur."""
        query = select(terms.c.term, func.count()).where(self._mine()).group_by(terms.c.term)
        return {row[0]: row[1] for row in rows_with(self._connection, query, terms.c.term, words)}

    def postings(self, words: Sequence[str], most: int) -> dict[str, Postings]:
        """Return the rows of terms: all rows of several, or the newest `most` of a single one."""
        query = _POSTING.where(self._mine())
        if len(words) != 1:
            return self._by_term(query, words)
        order = (terms.c.session.desc(), terms.c.seq.desc(), terms.c.part.desc())
        newest = query.where(terms.c.term == words[0]).order_by(*order).limit(most)
        return {words[0]: list(self._connection.execute(newest))}

    def postings_of(self, words: Sequence[str], units: Sequence[int]) -> dict[str, Postings]:
        """Return the rows of terms in some units."""
        places = map(_place, units)
        here, values = in_pairs(self._connection, terms.c.session, terms.c.seq, places)
        found = self._by_term(_POSTING.where(here, self._is_of_time()), words, **values)
        wanted = set(units)
        return {term: [row for row in rows if row[0] in wanted] for term, rows in found.items()}

    def _by_term(
        self, query: Select[Any], words: Sequence[str], **values: Any
    ) -> dict[str, Postings]:
        found: dict[str, Postings] = {term: [] for term in words}
        query = query.add_columns(terms.c.term)
        for *posting, term in rows_with(self._connection, query, terms.c.term, words, **values):
            found[term].append(posting)
        return found

    def filter_units(
        self, units: Sequence[int], among: Collection[str] | None, exclude: Collection[str]
    ) -> list[int]:
        """Return the units whose messages are in `among` and not in `exclude`, in the given order.

        Both are ids of messages; documents are always returned. Units outside the scope's time
        range are not.
        """
        bounds = _time_bounds(self._scope)
        if not bounds and among is None and not exclude:
            return list(units)
        places = {_place(unit) for unit in units}
        talks = {one.id for one in self._sessions(places) if one.kind == MESSAGES}
        here, values = in_pairs(self._connection, messages.c.session, messages.c.seq, places)
        query = select(messages.c.session, messages.c.seq, messages.c.message_id)
        found = {
            (number, seq)
            for number, seq, name in self._connection.execute(query.where(here, *bounds), values)
            if number not in talks or (name not in exclude and (among is None or name in among))
        }
        return [unit for unit in units if _place(unit) in found]

    def has_more_than(self, ids: Collection[str]) -> bool:
        """Return whether there may be texts in scope besides the messages with these ids.

        True for the scope of a whole user, where looking takes as long as searching.
        """
        if self.partitions.whole:
            return True
        own = [self._held[number] for number in self.partitions.partitions]
        if sum(one.count for one in own) > len(ids):
            return True
        if any(one.count for one in own if one.kind != MESSAGES):
            return True
        talks = (one for one in own if one.kind == MESSAGES)
        names = (self._connection.scalars(_NAMES, {"of": talk.id}) for talk in talks)
        return not set(chain.from_iterable(names)) <= set(ids)

    def units_between(self, first: date, last: date) -> list[int]:
        """Return the first unit of each message from some days in scope, the earliest first."""
        talks = select(sessions.c.id).where(sessions.c.kind == MESSAGES)
        mine = messages.c.session.in_(talks.where(self._has_session(sessions.c.id)))
        bounds = _time_bounds(self._scope.within(first, last))
        query = select(messages.c.session, messages.c.seq).where(
            mine, messages.c.is_shown == 1, *bounds
        )
        rows = self._connection.execute(query.order_by(messages.c.created_at, messages.c.seq))
        return [pack_unit(session, seq) for session, seq in rows]

    def of_documents(self, units: Sequence[int]) -> list[int]:
        """Return the units of documents, not those of messages."""
        numbers = {session for session, _ in map(_place, units)}
        talks = {one.id for one in self._sessions((n, 0) for n in numbers) if one.kind == MESSAGES}
        return [unit for unit in units if _place(unit)[0] not in talks]

    def _sessions(self, places: Iterable[tuple[int, int]]) -> list[Session]:
        """Return the sessions of places, in order; each is read once."""
        wanted = sorted({number for number, _ in places})
        missing = [number for number in wanted if number not in self._held]
        rows = rows_with(self._connection, select(sessions), sessions.c.id, missing)
        self._held |= {row.id: Session(*row) for row in rows}
        return [self._held[number] for number in wanted if number in self._held]

    def sources(self, units: Iterable[int]) -> dict[tuple[int, int], IndexSource]:
        """Return the texts of units by (session, seq), if they exist and are in scope."""
        places = {_place(unit) for unit in units}
        mine = [one for one in self._sessions(places) if _is_in_scope(one, self._scope)]
        talks = [session for session in mine if session.kind == MESSAGES]
        rows = read_places(self._connection, talks, places) if talks else {}
        found: dict[tuple[int, int], IndexSource] = {}
        for session in mine:
            if session.kind == MESSAGES:
                sources = [source_of(row, session) for row in visible(rows[session.id])]
            else:
                seqs = [seq for number, seq in places if number == session.id]
                sources = documents.read(self._connection, session, seqs=seqs)
            found |= {
                (session.id, source.seq): source
                for source in sources
                if self._scope.has_time(source.created_at)
            }
        return found


def _time_bounds(scope: Scope) -> list[Any]:
    """Return the conditions that a message is in a scope's time range; often none."""
    after, before = scope.after, scope.before
    bounds = [] if after is None else [messages.c.created_at >= after.isoformat()]
    return bounds if before is None else [*bounds, messages.c.created_at < before.isoformat()]


def _place(unit: int) -> tuple[int, int]:
    """Return the session of a unit, and the position of its message in it."""
    return unpack_unit(unit)[:2]


def _is_in_scope(session: Session, scope: Scope) -> bool:
    if scope.whole_user:
        return scope.user_id is not None and session.user_id == scope.user_id
    is_theirs = scope.user_id is None or session.user_id in {None, scope.user_id}
    return session.kind != OF_USER and session.name == scope.session_id and is_theirs
