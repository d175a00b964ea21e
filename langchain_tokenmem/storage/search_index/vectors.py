"""Vectors of texts as rows, so that no text is ever embedded twice by one model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select

from langchain_tokenmem.core.search_units import ScopePartitions, pack_unit, unpack_unit
from langchain_tokenmem.storage.search_index.outbox import get_property
from langchain_tokenmem.storage.search_index.tables import partitions, vectors
from langchain_tokenmem.storage.transcripts.message_rows import chunks

_RANGES = 50
"""Ranges of units in one query."""


def put_vectors(connection: Connection, fingerprint: str, given: Mapping[int, bytes]) -> None:
    """Store the vectors of some units, in the place of earlier ones."""
    for units in chunks(list(given)):
        connection.execute(delete(vectors).where(*_at(fingerprint, units)))
        rows = [
            {
                "partition_id": unpack_unit(unit)[0],
                "fingerprint": fingerprint,
                "unit": unit,
                "checksum": _digest(unit, given[unit]),
                "vector": given[unit],
            }
            for unit in units
        ]
        connection.execute(insert(vectors), rows)


def delete_vectors(
    connection: Connection, partition: int, seq: int | None = None, last_seq: int | None = None
) -> int:
    """Delete the vectors of a partition, or of one number or some in it; return how many."""
    query = delete(vectors).where(vectors.c.partition_id == partition)
    if seq is not None:
        end = (seq if last_seq is None else last_seq) + 1
        first, last = pack_unit(partition, seq), pack_unit(partition, end)
        query = query.where(vectors.c.unit >= first, vectors.c.unit < last)
    return connection.execute(query).rowcount


def delete_vectors_but(connection: Connection, fingerprint: str) -> None:
    """Delete the vectors of every model but one."""
    connection.execute(delete(vectors).where(vectors.c.fingerprint != fingerprint))


def _at(fingerprint: str, units: Sequence[int]) -> list[Any]:
    return [
        vectors.c.fingerprint == fingerprint,
        vectors.c.partition_id.in_(sorted({unpack_unit(unit)[0] for unit in units})),
        vectors.c.unit.in_(units),
    ]


def _digest(unit: int, vector: bytes) -> str:
    return hashlib.blake2b(b"%d:" % unit + vector, digest_size=8).hexdigest()


def _whole(rows: Iterable[Any]) -> dict[int, bytes]:
    """Return the vectors of rows by unit; a damaged row is as good as none."""
    return {
        unit: bytes(vector)
        for unit, checksum, vector in rows
        if checksum == _digest(unit, bytes(vector))
    }


class VectorsReader:
    """The vectors of a scope, or of the whole store.

    Args:
        connection: In a transaction.
        partitions: The partitions that the scope covers; None for all.
    """

    def __init__(self, connection: Connection, partitions: ScopePartitions | None = None) -> None:
        self._connection = connection
        self._within = partitions

    def vectors(self, fingerprint: str, units: Sequence[int] | None = None) -> dict[int, bytes]:
        """Return vectors by unit, all or those of some units; a damaged row is as good as none."""
        if units is None:
            return self._read(*self._of_model(fingerprint))
        found: dict[int, bytes] = {}
        for some in chunks(units):
            found |= self._read(*_at(fingerprint, some))
        return found

    def _read(self, *conditions: Any) -> dict[int, bytes]:
        """Return vectors by unit, in the order of these."""
        query = select(vectors.c.unit, vectors.c.checksum, vectors.c.vector).where(*conditions)
        return _whole(self._connection.execute(query.order_by(vectors.c.unit)))

    def vectors_around(
        self, fingerprint: str, units: Sequence[int], distance: int
    ) -> dict[int, bytes]:
        """Return the vectors in scope of some units' messages and those around them.

        Args:
            fingerprint: Of the model.
            units: Numbers of units, wherever they are.
            distance: How far the others stand at most, in messages.
        """
        places = sorted({unpack_unit(unit)[:2] for unit in units})
        found: dict[int, bytes] = {}
        for start in range(0, len(places), _RANGES):
            near = or_(
                *(
                    (vectors.c.partition_id == partition)
                    & (vectors.c.unit >= pack_unit(partition, max(0, seq - distance)))
                    & (vectors.c.unit < pack_unit(partition, seq + distance + 1))
                    for partition, seq in places[start : start + _RANGES]
                )
            )
            found |= self._read(*self._of_model(fingerprint), near)
        return found

    def vector_units(
        self, fingerprint: str, *, partition: int | None = None, limit: int | None = None
    ) -> list[int]:
        """Return the units that have a vector, in order: all, or those of one partition."""
        query = select(vectors.c.unit).where(*self._of_model(fingerprint))
        if partition is not None:
            query = query.where(vectors.c.partition_id == partition)
        query = query.order_by(vectors.c.partition_id, vectors.c.unit).limit(limit)
        return list(self._connection.execute(query).scalars())

    def count_vectors(self, fingerprint: str, most: int | None = None) -> int:
        """Return how many vectors there are; counts no further than `most`.

        Rows are large, and to count all of them all would be read.
        """
        some = select(vectors.c.unit).where(*self._of_model(fingerprint)).limit(most).subquery()
        query = select(func.count()).select_from(some)
        return self._connection.execute(query).scalar_one()

    def vector_pages(self, fingerprint: str, size: int) -> Iterator[dict[int, bytes]]:
        """Give all vectors in the order of their units, `size` rows at a time."""
        query = select(vectors.c.unit, vectors.c.checksum, vectors.c.vector)
        query = query.order_by(vectors.c.partition_id, vectors.c.unit).limit(size)
        last = -1
        while True:
            own = [*self._of_model(fingerprint), vectors.c.unit > last]
            rows = self._connection.execute(query.where(*own)).all()
            if not rows:
                return
            yield _whole(rows)
            last = rows[-1].unit

    def get_property(self, name: str) -> Any:
        """Return a property of the index (plain JSON); None when it is not set."""
        return get_property(self._connection, name)

    def _of_model(self, fingerprint: str) -> list[Any]:
        own: list[Any] = [vectors.c.fingerprint == fingerprint]
        if self._within is not None:
            numbers: Any = self._within.partitions
            if self._within.whole:
                numbers = select(partitions.c.partition_id).where(
                    partitions.c.owner_id == self._within.owner
                )
            own.append(vectors.c.partition_id.in_(numbers))
        return own
