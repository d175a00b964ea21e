"""Read access to the search index: one consistent picture of a scope."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import Connection

from langchain_tokenmem.core.search_units import IndexSource, Scope, ScopePartitions
from langchain_tokenmem.storage.search_index.index_sources import (
    Address,
    filter_units,
    sources_at,
)
from langchain_tokenmem.storage.search_index.postings import PostingsReader
from langchain_tokenmem.storage.search_index.vectors import VectorsReader


class IndexReader(PostingsReader, VectorsReader):
    """One consistent picture of a scope: its postings, vectors and texts.

    Args:
        connection: In a transaction.
        scope: The scope, against which every text is checked once more.
        partitions: The partitions that it covers.
    """

    def __init__(self, connection: Connection, scope: Scope, partitions: ScopePartitions) -> None:
        PostingsReader.__init__(self, connection, partitions)
        VectorsReader.__init__(self, connection, partitions)
        self._scope = scope

    def filter_units(
        self, units: Sequence[int], among: Collection[str] | None, exclude: Collection[str]
    ) -> list[int]:
        """Return the units whose message is among some ids, and not among others."""
        return filter_units(self._connection, units, among, exclude)

    def sources(self, units: Iterable[int]) -> dict[Address, IndexSource]:
        """Return the texts of units by (partition, seq), if they are there and in scope."""
        return sources_at(self._connection, self._scope, units)
