"""The inverted index: which units have a term, how often, and how long they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, select, update

from langchain_tokenmem.core.search_units import SHELF_SHIFT, Entry, Reach, unit_number, unit_place
from langchain_tokenmem.storage.search_index.shelves import Shelf
from langchain_tokenmem.storage.search_index.tables import shelves, terms

Table = list[Any]
"""Rows of three: unit, how often it has the term, how many terms it has."""

_MOST_COUNTED = 10_000
"""Units of one term that are counted one by one, in about 2 ms."""

_AT_ONCE = 500
"""Numbers in one query; old versions of SQLite take 999 variables."""


def add_entries(
    connection: Connection, shelf: Shelf, entries: Mapping[int, Sequence[Entry]], done_to: int
) -> None:
    """Store the entries of some numbers of a shelf; it has everything up to `done_to` then."""
    rows = [
        {
            "owner": shelf.owner,
            "term": term,
            "unit": unit_number(shelf.number, seq, entry.part),
            "tf": tf,
            "length": entry.length,
        }
        for seq, parts in entries.items()
        for entry in parts
        for term, tf in entry.terms.items()
    ]
    if rows:
        connection.execute(insert(terms), rows)
    found = [entry for parts in entries.values() for entry in parts]
    connection.execute(
        update(shelves)
        .where(shelves.c.shelf == shelf.number)
        .values(
            indexed_to=done_to,
            units=shelves.c.units + len(found),
            length=shelves.c.length + sum(entry.length for entry in found),
        )
    )


def drop_entries(connection: Connection, shelf: Shelf, indexed_to: int) -> int:
    """Delete every entry of a shelf and return how many there were."""
    gone = connection.execute(
        delete(terms).where(terms.c.owner == shelf.owner, _on_shelf(shelf.number))
    ).rowcount
    connection.execute(
        update(shelves)
        .where(shelves.c.shelf == shelf.number)
        .values(units=0, length=0, indexed_to=indexed_to)
    )
    return gone


def drop_units(connection: Connection, shelf: Shelf, seqs: Sequence[int]) -> None:
    """Delete the entries of some numbers of a shelf."""
    units = lengths = 0
    for seq in seqs:
        first, last = unit_number(shelf.number, seq), unit_number(shelf.number, seq + 1)
        own = and_(terms.c.owner == shelf.owner, terms.c.unit >= first, terms.c.unit < last)
        known = connection.execute(select(terms.c.unit, terms.c.length).where(own).distinct()).all()
        units += len(known)
        lengths += sum(row.length for row in known)
        connection.execute(delete(terms).where(own))
    connection.execute(
        update(shelves)
        .where(shelves.c.shelf == shelf.number)
        .values(units=shelves.c.units - units, length=shelves.c.length - lengths)
    )


def drop_all_entries(connection: Connection) -> None:
    """Empty the whole index."""
    connection.execute(delete(terms))
    connection.execute(update(shelves).values(units=0, length=0, indexed_to=0))


def totals(connection: Connection, reach: Reach) -> tuple[int, int]:
    """Return how many units there are in reach, and how many terms they have together."""
    row = connection.execute(
        select(func.sum(shelves.c.units), func.sum(shelves.c.length)).where(_of_shelves(reach))
    ).one()
    return int(row[0] or 0), int(row[1] or 0)


def _of_shelves(reach: Reach) -> Any:
    if reach.whole:
        return shelves.c.owner == reach.owner
    return shelves.c.shelf.in_(reach.shelves)


def document_counts(connection: Connection, reach: Reach, wanted: Sequence[str]) -> dict[str, int]:
    """Return in how many units each term occurs; what nobody in reach said is left out.

    Of a term that very many units have, the newest are counted, and the number is estimated from
    how many units are as new.
    """
    found: dict[str, int] = {}
    for term in wanted:
        for bounds in _bounds(reach):
            given = {**bounds, "term": term, "most": _MOST_COUNTED}
            count, oldest = connection.execute(_COUNT, given).one()
            if count == _MOST_COUNTED:
                count = _estimated(connection, reach, count, oldest)
            if count:
                found[term] = found.get(term, 0) + count
    return found


def _estimated(connection: Connection, reach: Reach, counted: int, oldest: int) -> int:
    shelf, seq, _ = unit_place(oldest)
    rows = connection.execute(
        select(shelves.c.shelf, shelves.c.units, shelves.c.indexed_to).where(_of_shelves(reach))
    ).all()
    newer: int = sum(row.units for row in rows if row.shelf > shelf)
    newer += sum(min(row.units, row.indexed_to - seq + 1) for row in rows if row.shelf == shelf)
    whole: int = sum(row.units for row in rows)
    return min(whole, round(counted * whole / max(newer, 1)))


def postings(
    connection: Connection, reach: Reach, wanted: Sequence[str], most: int
) -> dict[str, Table]:
    """Return the postings of some terms; of one with more than `most`, the newest.

    Args:
        connection: To the database.
        reach: Where to look.
        wanted: The terms.
        most: Postings of one term.
    """
    found: dict[str, Table] = {term: [] for term in wanted}
    for bounds in _bounds(reach):
        for term in wanted:
            given = {**bounds, "term": term, "most": most}
            found[term] += connection.execute(_NEWEST, given).all()
    return found


def postings_of(
    connection: Connection, reach: Reach, wanted: Sequence[str], units: Sequence[int]
) -> dict[str, Table]:
    """Return the postings of some terms in some units only."""
    found: dict[str, Table] = {term: [] for term in wanted}
    for term in wanted:
        for chunk in _chunks(units):
            given = {"owner": reach.owner, "term": term, "units": chunk}
            found[term] += connection.execute(_AT, given).all()
    return found


def _bounds(reach: Reach) -> list[dict[str, int]]:
    """Return the ranges of units that are in reach."""
    if reach.whole:
        return [{"owner": reach.owner, "first": 0, "last": 1 << 62}]
    return [
        {
            "owner": reach.owner,
            "first": number << SHELF_SHIFT,
            "last": (number + 1) << SHELF_SHIFT,
        }
        for number in reach.shelves
    ]


# Made once: a search asks them many times, and making one takes longer than many an answer.
_WITHIN = and_(
    terms.c.owner == bindparam("owner"),
    terms.c.unit >= bindparam("first"),
    terms.c.unit < bindparam("last"),
)
_POSTING = (terms.c.unit, terms.c.tf, terms.c.length)
_NEWEST = (
    select(*_POSTING)
    .where(_WITHIN, terms.c.term == bindparam("term"))
    .order_by(terms.c.unit.desc())
    .limit(bindparam("most"))
)
_NEWEST_UNITS = (
    select(terms.c.unit)
    .where(_WITHIN, terms.c.term == bindparam("term"))
    .order_by(terms.c.unit.desc())
    .limit(bindparam("most"))
    .subquery()
)
_COUNT = select(func.count(), func.min(_NEWEST_UNITS.c.unit))
_AT = select(*_POSTING).where(
    terms.c.owner == bindparam("owner"),
    terms.c.term == bindparam("term"),
    terms.c.unit.in_(bindparam("units", expanding=True)),
)


def _on_shelf(number: int) -> Any:
    return and_(terms.c.unit >= number << SHELF_SHIFT, terms.c.unit < (number + 1) << SHELF_SHIFT)


def _chunks(units: Sequence[int]) -> Iterator[Sequence[int]]:
    return (units[start : start + _AT_ONCE] for start in range(0, len(units), _AT_ONCE))
