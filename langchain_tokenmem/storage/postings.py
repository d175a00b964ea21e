"""The inverted index: which units have a term, how often, and how long they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from langchain_tokenmem.core.units import SHELF_SHIFT, Entry, Reach, unit_number
from langchain_tokenmem.storage.recall_tables import shelves, terms
from langchain_tokenmem.storage.shelves import Shelf

Posting = tuple[int, int, int]
"""Unit, how often it has the term, how many terms it has."""

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
    """Return in how many units each term occurs; what nobody in reach said is left out."""
    found: dict[str, int] = {}
    for term in wanted:
        count = connection.execute(
            select(func.count()).select_from(terms).where(_within(reach), terms.c.term == term)
        ).scalar_one()
        if count:
            found[term] = count
    return found


def postings(connection: Connection, reach: Reach, term: str, most: int) -> list[Posting]:
    """Return the postings of a term; of more than `most`, those with the highest numbers."""
    query = (
        select(terms.c.unit, terms.c.tf, terms.c.length)
        .where(_within(reach), terms.c.term == term)
        .order_by(terms.c.unit.desc())
        .limit(most)
    )
    return [(unit, tf, length) for unit, tf, length in connection.execute(query)]


def postings_of(
    connection: Connection, reach: Reach, term: str, units: Sequence[int]
) -> list[Posting]:
    """Return the postings of a term in some units only."""
    query = select(terms.c.unit, terms.c.tf, terms.c.length)
    return [
        (unit, tf, length)
        for chunk in _chunks(units)
        for unit, tf, length in connection.execute(
            query.where(_within(reach), terms.c.term == term, terms.c.unit.in_(chunk))
        )
    ]


def _within(reach: Reach) -> Any:
    own = terms.c.owner == reach.owner
    if reach.whole:
        return own
    return and_(own, or_(*(_on_shelf(number) for number in reach.shelves)))


def _on_shelf(number: int) -> Any:
    return and_(terms.c.unit >= number << SHELF_SHIFT, terms.c.unit < (number + 1) << SHELF_SHIFT)


def _chunks(units: Sequence[int]) -> Iterator[Sequence[int]]:
    return (units[start : start + _AT_ONCE] for start in range(0, len(units), _AT_ONCE))
