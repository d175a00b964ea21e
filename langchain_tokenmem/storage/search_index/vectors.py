"""Embeddings as rows, so that no text is ever embedded twice by one model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from langchain_tokenmem.core.search_units import ScopePartitions, pack_unit, unpack_unit
from langchain_tokenmem.storage.search_index.tables import partitions, vectors
from langchain_tokenmem.storage.transcripts.message_rows import chunks


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


def read_vectors(
    connection: Connection,
    fingerprint: str,
    within: ScopePartitions | None,
    units: Sequence[int] | None = None,
) -> dict[int, bytes]:
    """Return the vectors of some units, or of all; a damaged row is as good as none."""
    if units is None:
        return _read(connection, _in_scope(fingerprint, within))
    found: dict[int, bytes] = {}
    for some in chunks(units):
        found |= _read(connection, _at(fingerprint, some))
    return found


def _read(connection: Connection, conditions: Sequence[Any]) -> dict[int, bytes]:
    query = select(vectors.c.unit, vectors.c.checksum, vectors.c.vector).where(*conditions)
    rows = connection.execute(query.order_by(vectors.c.unit))
    return {
        unit: bytes(vector)
        for unit, checksum, vector in rows
        if checksum == _digest(unit, bytes(vector))
    }


def count_vectors(
    connection: Connection,
    fingerprint: str,
    within: ScopePartitions | None,
    most: int | None = None,
) -> int:
    """Return how many vectors of a model there are; counts no further than `most`.

    Rows are large, and to count all of them all would be read.
    """
    some = select(vectors.c.unit).where(*_in_scope(fingerprint, within)).limit(most).subquery()
    return connection.execute(select(func.count()).select_from(some)).scalar_one()


def vector_units(
    connection: Connection,
    fingerprint: str,
    within: ScopePartitions | None,
    *,
    after: int = -1,
    limit: int | None = None,
) -> list[int]:
    """Return the units that have a vector, in order, those after one of them."""
    query = (
        select(vectors.c.unit)
        .where(
            *_in_scope(fingerprint, within),
            vectors.c.partition_id >= max(0, unpack_unit(after)[0]),
            vectors.c.unit > after,
        )
        .order_by(vectors.c.partition_id, vectors.c.unit)
        .limit(limit)
    )
    return list(connection.execute(query).scalars())


def delete_vectors(connection: Connection, partition: int, seq: int | None = None) -> int:
    """Delete the vectors of a partition, or of one number in it; return how many."""
    query = delete(vectors).where(vectors.c.partition_id == partition)
    if seq is not None:
        first, last = pack_unit(partition, seq), pack_unit(partition, seq + 1)
        query = query.where(vectors.c.unit >= first, vectors.c.unit < last)
    return connection.execute(query).rowcount


def delete_vectors_of_model(connection: Connection, fingerprint: str) -> None:
    """Delete all vectors of a model."""
    connection.execute(delete(vectors).where(vectors.c.fingerprint == fingerprint))


def _in_scope(fingerprint: str, within: ScopePartitions | None) -> list[Any]:
    own = [vectors.c.fingerprint == fingerprint]
    if within is not None:
        numbers: Any = within.partitions
        if within.whole:
            numbers = select(partitions.c.partition_id).where(partitions.c.owner_id == within.owner)
        own.append(vectors.c.partition_id.in_(numbers))
    return own


def _at(fingerprint: str, units: Sequence[int]) -> list[Any]:
    return [
        vectors.c.fingerprint == fingerprint,
        vectors.c.partition_id.in_(sorted({unpack_unit(unit)[0] for unit in units})),
        vectors.c.unit.in_(units),
    ]


def _digest(unit: int, vector: bytes) -> str:
    return hashlib.blake2b(b"%d:" % unit + vector, digest_size=8).hexdigest()
