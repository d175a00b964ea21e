"""Read access to the search index: one consistent picture, of one scope or of all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection

from langchain_tokenmem.core.search_units import IndexSource, Scope, ScopePartitions
from langchain_tokenmem.storage.search_index import vectors
from langchain_tokenmem.storage.search_index.index_sources import (
    Address,
    filter_units,
    sources_at,
)
from langchain_tokenmem.storage.search_index.outbox import get_property
from langchain_tokenmem.storage.search_index.postings import (
    Postings,
    document_counts,
    newest_postings,
    postings_of_units,
    totals,
)


class IndexReader:
    """One consistent picture of the index; `recall.base.interfaces` says what is asked of it.

    Args:
        connection: In a transaction.
        scope: What the second check, on every text, is made against.
        partitions: The partitions that the scope covers.
    """

    def __init__(self, connection: Connection, scope: Scope, partitions: ScopePartitions) -> None:
        self._connection = connection
        self._scope = scope
        self.partitions = partitions

    def totals(self) -> tuple[int, int]:
        """Return how many units are in scope, and how many terms they have together."""
        return totals(self._connection, self.partitions)

    def counts(self, terms: Sequence[str]) -> dict[str, int]:
        """Return in how many units in scope each term occurs; only of terms that do."""
        return document_counts(self._connection, self.partitions, terms)

    def postings(self, terms: Sequence[str], most: int) -> dict[str, Postings]:
        """Return (unit, tf, length) of terms; of one with more than `most`, the newest."""
        return newest_postings(self._connection, self.partitions, terms, most)

    def postings_of(self, terms: Sequence[str], units: Sequence[int]) -> dict[str, Postings]:
        """Return (unit, tf, length) of terms in some units only."""
        return postings_of_units(self._connection, self.partitions, terms, units)

    def vectors(self, fingerprint: str, units: Sequence[int] | None = None) -> dict[int, bytes]:
        """Return the vectors in scope by unit, or those of some units."""
        return vectors.read_vectors(self._connection, fingerprint, self.partitions, units)

    def vector_units(self, fingerprint: str, *, after: int = -1, limit: int = 1_000) -> list[int]:
        """Return the units in scope that have a vector, in order, one page at a time."""
        return vectors.vector_units(
            self._connection, fingerprint, self.partitions, after=after, limit=limit
        )

    def count_vectors(self, fingerprint: str, most: int) -> int:
        """Return how many vectors are in scope; counts no further than `most`."""
        return vectors.count_vectors(self._connection, fingerprint, self.partitions, most)

    def get_property(self, name: str) -> Any:
        """Return a property of the index (plain JSON); None when it is not set."""
        return get_property(self._connection, name)

    def filter_units(
        self, units: Sequence[int], among: Collection[str] | None, exclude: Collection[str]
    ) -> list[int]:
        """Return the units whose message is among some ids, and not among others."""
        return filter_units(self._connection, units, among, exclude)

    def sources(self, units: Iterable[int]) -> dict[Address, IndexSource]:
        """Return the texts of units by (partition, seq), if they are there and in scope."""
        return sources_at(self._connection, self._scope, units)
