"""Inverted index: which units have a term, how often, and how long they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, select, update

from langchain_tokenmem.core.search_units import (
    PARTITION_SHIFT,
    Entry,
    ScopePartitions,
    pack_unit,
)
from langchain_tokenmem.storage.search_index.partitions import Partition
from langchain_tokenmem.storage.search_index.tables import partitions, terms
from langchain_tokenmem.storage.transcripts.message_rows import chunks

Postings = list[Any]
"""Rows of three: unit, how often it has the term, how many terms it has."""


def add_entries(
    connection: Connection,
    partition: Partition,
    entries: Mapping[int, Sequence[Entry]],
    done_to: int,
) -> None:
    """Store the entries of some numbers of a partition, which is indexed up to `done_to` then."""
    rows = [
        {
            "owner_id": partition.owner,
            "term": term,
            "unit": pack_unit(partition.number, seq, entry.part),
            "occurrences": occurrences,
            "unit_length": entry.length,
        }
        for seq, parts in entries.items()
        for entry in parts
        for term, occurrences in entry.terms.items()
    ]
    if rows:
        connection.execute(insert(terms), rows)
    found = [entry for parts in entries.values() for entry in parts]
    connection.execute(
        _update(partition).values(
            indexed_to_seq=done_to,
            unit_count=partitions.c.unit_count + len(found),
            term_count=partitions.c.term_count + sum(entry.length for entry in found),
        )
    )


def delete_entries(
    connection: Connection, partition: Partition, seq: int, last_seq: int | None = None
) -> None:
    """Delete the entries of one number of a partition, or of those up to another one."""
    end = (seq if last_seq is None else last_seq) + 1
    first, last = pack_unit(partition.number, seq), pack_unit(partition.number, end)
    _delete_between(connection, partition, first, last)


def _delete_between(connection: Connection, partition: Partition, first: int, last: int) -> None:
    own = _between(partition.owner, first, last)
    known = connection.execute(select(terms.c.unit, terms.c.unit_length).where(own).distinct())
    lengths = [row.unit_length for row in known]
    connection.execute(delete(terms).where(own))
    connection.execute(
        _update(partition).values(
            unit_count=partitions.c.unit_count - len(lengths),
            term_count=partitions.c.term_count - sum(lengths),
        )
    )


def delete_known_entries(
    connection: Connection, partition: Partition, seq: int, entries: Sequence[Entry]
) -> bool:
    """Delete the entries of one number by their terms, if they are these; else delete nothing.

    `delete_entries` reads every posting of the owner, because postings are in the order of terms.
    """
    found = [
        and_(
            terms.c.owner_id == partition.owner,
            terms.c.unit == pack_unit(partition.number, seq, entry.part),
            terms.c.term.in_(some),
        )
        for entry in entries
        for some in chunks(list(entry.terms))
    ]
    count = sum(connection.execute(select(func.count()).where(own)).scalar_one() for own in found)
    if count != sum(len(entry.terms) for entry in entries):
        return False
    for own in found:
        connection.execute(delete(terms).where(own))
    connection.execute(
        _update(partition).values(
            unit_count=partitions.c.unit_count - len(entries),
            term_count=partitions.c.term_count - sum(entry.length for entry in entries),
        )
    )
    return True


def delete_entries_from(connection: Connection, partition: Partition, seq: int) -> None:
    """Delete the entries of a partition from a number on: it is indexed up to there only."""
    last = (partition.number + 1) << PARTITION_SHIFT
    _delete_between(connection, partition, pack_unit(partition.number, seq), last)
    connection.execute(_update(partition).values(indexed_to_seq=seq - 1))


def delete_partition_entries(connection: Connection, partition: Partition, indexed_to: int) -> int:
    """Delete every entry of a partition and return how many there were."""
    first = partition.number << PARTITION_SHIFT
    own = _between(partition.owner, first, first + (1 << PARTITION_SHIFT))
    gone = connection.execute(delete(terms).where(own)).rowcount
    connection.execute(
        _update(partition).values(unit_count=0, term_count=0, indexed_to_seq=indexed_to)
    )
    return gone


def delete_all_entries(connection: Connection) -> None:
    """Empty the whole index."""
    connection.execute(delete(terms))
    connection.execute(update(partitions).values(unit_count=0, term_count=0, indexed_to_seq=0))


def _update(partition: Partition) -> Any:
    return update(partitions).where(partitions.c.partition_id == partition.number)


def _between(owner: Any, first: Any, last: Any) -> Any:
    return and_(terms.c.owner_id == owner, terms.c.unit >= first, terms.c.unit < last)


# Made once: a search asks them many times, and making one takes longer than many an answer.
_IN_SCOPE = and_(
    _between(bindparam("owner"), bindparam("first"), bindparam("last")),
    terms.c.term == bindparam("term"),
)
_POSTING = select(terms.c.unit, terms.c.occurrences, terms.c.unit_length)
_NEWEST = _POSTING.where(_IN_SCOPE).order_by(terms.c.unit.desc()).limit(bindparam("most"))
_COUNT = select(func.count()).where(_IN_SCOPE)
_AT = _POSTING.where(
    terms.c.owner_id == bindparam("owner"),
    terms.c.term == bindparam("term"),
    terms.c.unit.in_(bindparam("units", expanding=True)),
)


class PostingsReader:
    """The postings of a scope.

    Args:
        connection: In a transaction.
        partitions: The partitions that the scope covers.
    """

    def __init__(self, connection: Connection, partitions: ScopePartitions) -> None:
        self._connection = connection
        self.partitions = partitions

    def totals(self) -> tuple[int, int]:
        """Return how many units are in scope, and how many terms they have together."""
        counted = select(func.sum(partitions.c.unit_count), func.sum(partitions.c.term_count))
        row = self._connection.execute(counted.where(self._in_scope())).one()
        return int(row[0] or 0), int(row[1] or 0)

    def _in_scope(self) -> Any:
        if self.partitions.whole:
            return partitions.c.owner_id == self.partitions.owner
        return partitions.c.partition_id.in_(self.partitions.partitions)

    def counts(self, terms: Sequence[str]) -> dict[str, int]:
        """Return in how many units in scope each term occurs; only of terms that do."""
        found: dict[str, int] = {}
        for term, bounds in product(terms, self._bounds()):
            count = self._connection.execute(_COUNT, {**bounds, "term": term}).scalar_one()
            if count:
                found[term] = found.get(term, 0) + count
        return found

    def postings(self, terms: Sequence[str], most: int) -> dict[str, Postings]:
        """Return (unit, tf, length) of terms; of one with more than `most`, the newest."""
        found: dict[str, Postings] = {term: [] for term in terms}
        for bounds, term in product(self._bounds(), terms):
            given = {**bounds, "term": term, "most": most}
            found[term] += self._connection.execute(_NEWEST, given).all()
        return found

    def postings_of(self, terms: Sequence[str], units: Sequence[int]) -> dict[str, Postings]:
        """Return (unit, tf, length) of terms in some units only."""
        found: dict[str, Postings] = {term: [] for term in terms}
        for term, some in product(terms, chunks(units)):
            given = {"owner": self.partitions.owner, "term": term, "units": some}
            found[term] += self._connection.execute(_AT, given).all()
        return found

    def _bounds(self) -> list[dict[str, int]]:
        """Return the ranges of units in scope."""
        owner = self.partitions.owner
        if self.partitions.whole:
            return [{"owner": owner, "first": 0, "last": 1 << 62}]
        return [
            {
                "owner": owner,
                "first": number << PARTITION_SHIFT,
                "last": (number + 1) << PARTITION_SHIFT,
            }
            for number in self.partitions.partitions
        ]
