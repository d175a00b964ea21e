"""`StoredVectors`: the part of `IndexStore` that the vector index reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.search_index import vectors
from langchain_tokenmem.storage.search_index.index_sources import existing_units, sources_from
from langchain_tokenmem.storage.search_index.outbox import (
    VECTORS,
    acknowledge,
    enqueue_everything,
    set_property,
)
from langchain_tokenmem.storage.search_index.partitions import Partition, lock_partition

_ABOUT = "The vectors of recall"


class StoredVectors:
    """Vectors of messages and documents, and the properties of the indexes.

    Args:
        database: The database of the transcripts.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def partition(self, partition_key: str) -> Partition | None:
        """Return a partition; make it for a session that has none."""
        with self._database.writing(_ABOUT) as connection:
            return lock_partition(connection, partition_key)

    def put_vectors(self, fingerprint: str, given: Mapping[int, bytes]) -> None:
        """Store vectors by unit: float32, little-endian.

        What was erased while its text was being embedded does not come back.
        """
        with self._database.writing(_ABOUT) as connection:
            there = existing_units(connection, given)
            kept = {unit: vector for unit, vector in given.items() if unit in there}
            vectors.put_vectors(connection, fingerprint, kept)

    def acknowledge_vectors(self, partition_key: str, done_to: int) -> None:
        """Note that a partition's vectors are indexed up to a number."""
        with self._database.writing(_ABOUT) as connection:
            _, last = sources_from(connection, partition_key, done_to + 1, 1)
            acknowledge(connection, VECTORS, partition_key, done_to, last)

    def delete_vectors(self, *, keep: str) -> None:
        """Delete the vectors of every model but one."""
        with self._database.writing(_ABOUT) as connection:
            vectors.delete_vectors_but(connection, keep)

    @contextmanager
    def reading_vectors(self) -> Iterator[vectors.VectorsReader]:
        """Give a consistent picture of all vectors, and of the properties."""
        with self._database.reading(_ABOUT) as connection:
            yield vectors.VectorsReader(connection)

    def set_property(self, name: str, value: Any, *, enqueue_vectors: bool = False) -> None:
        """Set a property; with `enqueue_vectors`, all of the vectors have to be indexed again."""
        with self._database.writing(_ABOUT) as connection:
            set_property(connection, name, value)
            if enqueue_vectors:
                enqueue_everything(connection, VECTORS)
