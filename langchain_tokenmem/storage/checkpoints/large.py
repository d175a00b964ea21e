"""The rows of large values: those that stand apart from their checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.rows import SEALED, checked
from langchain_tokenmem.storage.checkpoints.shapes import runs_of, to_ranges
from langchain_tokenmem.storage.checkpoints.tables import blobs
from langchain_tokenmem.storage.database.statements import Statement

_INSERT = Statement(insert(blobs))


@dataclass(frozen=True)
class Blob:
    """A value apart from its checkpoint: packed shape, and references as ranges."""

    refs: str
    body: bytes


def insert_blob(
    connection: Connection, codec: Codec, space_id: int, number: int, blob: Blob
) -> None:
    """Insert a large value."""
    columns = dict(zip(SEALED[blobs.name], (space_id, number, blob.refs, blob.body), strict=True))
    _INSERT.run(connection, {**columns, "seal": codec.seal(columns.values())})


def read_blobs(
    connection: Connection, codec: Codec, space_id: int, numbers: Sequence[int]
) -> dict[int, Blob]:
    """Return large values by number.

    Raises:
        CorruptStoreError: When one is damaged or missing.
    """
    found = {}
    for first, last in runs_of(to_ranges(sorted(set(numbers)))):
        query = select(blobs).where(
            blobs.c.space_id == space_id, blobs.c.number.between(first, last)
        )
        for row in connection.execute(query).mappings():
            checked(codec, SEALED[blobs.name], row)
            found[row["number"]] = Blob(row["refs"], row["body"])
    if found.keys() != set(numbers):
        raise CorruptStoreError("the value of a channel is missing")
    return found
