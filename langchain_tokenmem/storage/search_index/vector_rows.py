"""Embeddings as rows, so that no text is ever embedded twice by one model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from langchain_tokenmem.core.search_units import Reach, unit_place
from langchain_tokenmem.storage.search_index.tables import shelves, vectors

_AT_ONCE = 500


def put_vectors(connection: Connection, fingerprint: str, given: Mapping[int, bytes]) -> None:
    """Store the vectors of some units, in the place of earlier ones."""
    units = list(given)
    for start in range(0, len(units), _AT_ONCE):
        chunk = units[start : start + _AT_ONCE]
        by_shelf = sorted({unit_place(unit)[0] for unit in chunk})
        connection.execute(
            delete(vectors).where(
                vectors.c.shelf.in_(by_shelf),
                vectors.c.fingerprint == fingerprint,
                vectors.c.unit.in_(chunk),
            )
        )
        connection.execute(
            insert(vectors),
            [
                {
                    "shelf": unit_place(unit)[0],
                    "fingerprint": fingerprint,
                    "unit": unit,
                    "checksum": _digest(unit, given[unit]),
                    "vector": given[unit],
                }
                for unit in chunk
            ],
        )


def vectors_in(connection: Connection, fingerprint: str, reach: Reach) -> dict[int, bytes]:
    """Return the vectors in reach by unit; a damaged row is as good as none."""
    return _read(connection, vectors.c.fingerprint == fingerprint, vectors.c.shelf.in_(_of(reach)))


def vectors_of(connection: Connection, fingerprint: str, units: Sequence[int]) -> dict[int, bytes]:
    """Return the vectors of some units, as far as there are any."""
    found: dict[int, bytes] = {}
    for start in range(0, len(units), _AT_ONCE):
        chunk = units[start : start + _AT_ONCE]
        by_shelf = sorted({unit_place(unit)[0] for unit in chunk})
        found |= _read(
            connection,
            vectors.c.fingerprint == fingerprint,
            vectors.c.shelf.in_(by_shelf),
            vectors.c.unit.in_(chunk),
        )
    return found


def _read(connection: Connection, *conditions: Any) -> dict[int, bytes]:
    query = select(vectors.c.unit, vectors.c.checksum, vectors.c.vector).where(*conditions)
    rows = connection.execute(query.order_by(vectors.c.unit)).all()
    return {
        unit: bytes(vector)
        for unit, checksum, vector in rows
        if checksum == _digest(unit, bytes(vector))
    }


def count_vectors(
    connection: Connection,
    fingerprint: str,
    reach: Reach | None = None,
    most: int | None = None,
) -> int:
    """Return how many vectors there are under a fingerprint, in reach or in all.

    Args:
        connection: To the database.
        fingerprint: Of the model.
        reach: Where to count; None counts all.
        most: Count no further than this: rows are large, and all of them would be read.
    """
    query = select(vectors.c.unit).where(vectors.c.fingerprint == fingerprint)
    if reach is not None:
        query = query.where(vectors.c.shelf.in_(_of(reach)))
    if most is not None:
        query = query.limit(most)
    return connection.execute(select(func.count()).select_from(query.subquery())).scalar_one()


def vector_units(
    connection: Connection,
    fingerprint: str,
    *,
    reach: Reach | None = None,
    after: int = -1,
    limit: int = 1_000,
) -> list[int]:
    """Return the units that have a vector, in reach or all, in order, one page at a time."""
    shelf = max(0, unit_place(after)[0]) if after >= 0 else 0
    query = (
        select(vectors.c.unit)
        .where(
            vectors.c.fingerprint == fingerprint,
            vectors.c.shelf >= shelf,
            vectors.c.unit > after,
        )
        .order_by(vectors.c.shelf, vectors.c.unit)
        .limit(limit)
    )
    if reach is not None:
        query = query.where(vectors.c.shelf.in_(_of(reach)))
    return list(connection.execute(query).scalars())


def with_vectors(connection: Connection, fingerprint: str, units: Sequence[int]) -> set[int]:
    """Return the units among some that have a vector."""
    found: set[int] = set()
    for chunk in _chunks(units):
        query = select(vectors.c.unit).where(
            vectors.c.shelf.in_(sorted({unit_place(unit)[0] for unit in chunk})),
            vectors.c.fingerprint == fingerprint,
            vectors.c.unit.in_(chunk),
        )
        found.update(connection.execute(query).scalars())
    return found


def drop_vectors(
    connection: Connection,
    *,
    shelf: int | None = None,
    fingerprint: str | None = None,
    units: Sequence[int] | None = None,
) -> int:
    """Delete the vectors of a shelf, of a model, or of some units; return how many."""
    conditions: list[Any] = []
    if shelf is not None:
        conditions.append(vectors.c.shelf == shelf)
    if fingerprint is not None:
        conditions.append(vectors.c.fingerprint == fingerprint)
    if units is None:
        return connection.execute(delete(vectors).where(*conditions)).rowcount
    return sum(
        connection.execute(delete(vectors).where(*conditions, vectors.c.unit.in_(chunk))).rowcount
        for chunk in _chunks(units)
    )


def _of(reach: Reach) -> Any:
    if reach.whole:
        return select(shelves.c.shelf).where(shelves.c.owner == reach.owner)
    return reach.shelves


def _digest(unit: int, vector: bytes) -> str:
    return hashlib.blake2b(b"%d:" % unit + vector, digest_size=8).hexdigest()


def _chunks(units: Sequence[int]) -> Iterator[Sequence[int]]:
    return (units[start : start + _AT_ONCE] for start in range(0, len(units), _AT_ONCE))
