"""Vectors of the search index as their indexer reads and writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.search_index import outbox, vectors
from langchain_tokenmem.storage.search_index.index_sources import (
    Edits,
    edits_of_partition,
    existing_units,
    sources_from,
)
from langchain_tokenmem.storage.search_index.outbox import VECTORS
from langchain_tokenmem.storage.search_index.partitions import Partition, lock_partition

_ABOUT = "The index of recall"


@dataclass(frozen=True)
class PropertyCheck:
    """A condition of a write, checked in its transaction.

    Attributes:
        name: Property of the index that is read.
        is_met: Tells by its value (plain JSON, None when it is not set) whether to write.
    """

    name: str
    is_met: Callable[[Any], bool]

    def holds(self, connection: Connection) -> bool:
        """Return whether it is met; the property stays as it is until the transaction ends."""
        return self.is_met(outbox.get_property(connection, self.name, lock=True))


class IndexVectors:
    """The part of an `IndexStore` that keeps vectors.

    Args:
        database: Where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def partition(self, partition_key: str) -> Partition | None:
        """Return a partition; make it for a session that has none."""
        with self._database.writing(_ABOUT) as connection:
            return lock_partition(connection, partition_key)

    def edits(self, partition_key: str) -> Edits:
        """Return what tells whether a partition was edited since."""
        with self._database.reading(_ABOUT) as connection:
            return edits_of_partition(connection, partition_key)

    def put_vectors(
        self,
        fingerprint: str,
        given: Mapping[int, bytes],
        *,
        unless_edited: tuple[str, Edits] | None = None,
    ) -> None:
        """Store vectors by unit: float32, little-endian.

        What was erased while its text was being embedded does not come back, nor do words that were
        edited meanwhile: a partition is named with what `edits` said of it.
        """
        with self._database.writing(_ABOUT) as connection:
            if (
                unless_edited
                and edits_of_partition(connection, unless_edited[0]) != unless_edited[1]
            ):
                return
            there = existing_units(connection, given)
            kept = {unit: vector for unit, vector in given.items() if unit in there}
            vectors.put_vectors(connection, fingerprint, kept)

    def acknowledge_vectors(
        self,
        partition_key: str,
        done_to: int,
        *,
        start: int = 0,
        edits: Edits | None = None,
        only_if: PropertyCheck | None = None,
    ) -> int:
        """Note that a partition's vectors are indexed up to a number.

        Args:
            partition_key: The partition.
            done_to: The last number that is indexed.
            start: The first one; an entry of the outbox that asks for earlier ones stays.
            edits: What `edits` said when the texts were read; where that has changed nothing is
                noted.
            only_if: Where it is not met nothing is noted.

        Returns:
            The number from which on to go on.
        """
        with self._database.writing(_ABOUT) as connection:
            if only_if and not only_if.holds(connection):
                return start
            _, last = sources_from(connection, partition_key, done_to + 1, 1)
            entries = outbox.pending(connection, VECTORS, among=[partition_key])
            begin = min([start, *(entry.from_seq for entry in entries)])
            is_edited = edits is not None and edits_of_partition(connection, partition_key) != edits
            if begin < start or is_edited:
                return begin
            outbox.acknowledge(connection, VECTORS, partition_key, done_to, last)
            return done_to + 1

    def delete_vectors(self, *, keep: str) -> None:
        """Delete the vectors of every model but one."""
        with self._database.writing(_ABOUT) as connection:
            vectors.delete_vectors_but(connection, keep)

    @contextmanager
    def reading_vectors(self) -> Iterator[vectors.VectorsReader]:
        """Give a consistent picture of all vectors, and of the properties."""
        with self._database.reading(_ABOUT) as connection:
            yield vectors.VectorsReader(connection)

    def set_property(
        self,
        name: str,
        value: Any,
        *,
        enqueue_vectors: bool = False,
        only_if: PropertyCheck | None = None,
    ) -> None:
        """Set a property; with `enqueue_vectors`, everything is enqueued for the vectors."""
        with self._database.writing(_ABOUT) as connection:
            if only_if and not only_if.holds(connection):
                return
            outbox.set_property(connection, name, value)
            if enqueue_vectors:
                outbox.enqueue_everything(connection, VECTORS)

    def get_property(self, name: str) -> Any:
        """Return a property of the index (plain JSON); None when it is not set."""
        with self._database.reading(_ABOUT) as connection:
            return outbox.get_property(connection, name)

    def properties(self, prefix: str) -> dict[str, Any]:
        """Return the properties whose names begin with a prefix, by their names."""
        with self._database.reading(_ABOUT) as connection:
            return outbox.properties(connection, prefix)

    def delete_properties(self, prefix: str) -> None:
        """Delete the properties whose names begin with a prefix."""
        with self._database.writing(_ABOUT) as connection:
            outbox.delete_properties(connection, prefix)

    def update_property(self, name: str, change: Callable[[Any], Any]) -> None:
        """Replace a property by what a function makes of it; None deletes it."""
        with self._database.writing(_ABOUT) as connection:
            outbox.update_property(connection, name, change)
