"""The inverted index: rows of terms, and their counts in the row of their session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import ARRAY

from langchain_tokenmem.core.search_units import Analyser, Entry, IndexSource
from langchain_tokenmem.storage.database import chunks
from langchain_tokenmem.storage.sessions import Session, save
from langchain_tokenmem.storage.tables import sessions, terms

# psycopg sends one statement for each row of a list.
_ADD_AT_ONCE = insert(terms).from_select(
    [*terms.c],
    select(*(func.unnest(bindparam(column.name, type_=ARRAY(column.type))) for column in terms.c)),
)
"""Inserts rows that come as one array for each column, on PostgreSQL."""


def entries_of(analyser: Analyser, sources: Sequence[IndexSource]) -> list[tuple[int, Entry]]:
    """Return what an analyser finds in texts, each with the number of its text."""
    return [
        (source.seq, entry)
        for source in sources
        if not source.is_hidden
        for entry in analyser.entries(source)
    ]


def add_terms(
    connection: Connection, session: Session, found: Sequence[tuple[int, Entry]], last: int
) -> None:
    """Store the terms of texts of a session, and update the counts in the session's row.

    Args:
        connection: In a transaction that writes.
        session: The session.
        found: What was found in the texts.
        last: Number of the last one of these texts.
    """
    new = [
        (session.id, term, seq, entry.part, occurrences, entry.length, int(entry.elaborates))
        for seq, entry in found
        for term, occurrences in entry.terms.items()
    ]
    names = [column.name for column in terms.c]
    if new and connection.dialect.name == "postgresql":
        columns = map(list, zip(*new, strict=True))
        connection.execute(_ADD_AT_ONCE, dict(zip(names, columns, strict=True)))
    elif new:
        connection.execute(insert(terms), [dict(zip(names, row, strict=True)) for row in new])
    changes = _counted(len(found), sum(entry.length for _, entry in found))
    if last >= session.words_from:
        changes["words_from"] = last + 1
    connection.execute(update(sessions).where(sessions.c.id == session.id).values(**changes))


def _counted(units: int, length: int) -> dict[str, Any]:
    return {
        "unit_count": sessions.c.unit_count + units,
        "term_count": sessions.c.term_count + length,
    }


def recount(connection: Connection, session: Session) -> None:
    """Count the units and terms of a session anew."""
    every = select(terms.c.seq, terms.c.part, terms.c.unit_length)
    own = every.where(terms.c.session == session.id).distinct().subquery()
    counted = select(func.count(), func.coalesce(func.sum(own.c.unit_length), 0)).select_from(own)
    units, length = connection.execute(counted).one()
    save(connection, session, unit_count=units, term_count=length)


def forget(connection: Connection, session: Session, seqs: Sequence[int]) -> None:
    """Delete the terms of some messages."""
    for some in chunks(seqs):
        delete_where(connection, session, terms.c.seq.in_(some))


def forget_from(connection: Connection, session: Session, seq: int) -> None:
    """Delete the terms of a message and all later ones, which are then indexed again."""
    delete_where(connection, session, terms.c.seq >= seq)
    save(connection, session, words_from=min(session.words_from, seq))


def delete_where(connection: Connection, session: Session, condition: Any) -> None:
    """Delete the terms of a session that meet a condition, and count without them."""
    own = and_(terms.c.session == session.id, condition)
    known = select(terms.c.seq, terms.c.part, terms.c.unit_length).where(own).distinct()
    lengths = [row.unit_length for row in connection.execute(known)]
    if lengths:
        connection.execute(delete(terms).where(own))
        counted = _counted(-len(lengths), -sum(lengths))
        connection.execute(update(sessions).where(sessions.c.id == session.id).values(**counted))


def start_over(connection: Connection) -> None:
    """Delete all terms; every message is indexed again."""
    connection.execute(delete(terms))
    new = {"unit_count": 0, "term_count": 0, "words_from": sessions.c.first_seq}
    connection.execute(update(sessions).values(**new))
