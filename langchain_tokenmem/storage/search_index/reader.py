"""One consistent picture of the index, for one scope."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection

from langchain_tokenmem.core.search_units import Reach, Scope, Source
from langchain_tokenmem.storage.search_index import postings, vector_rows
from langchain_tokenmem.storage.search_index.facts import fact
from langchain_tokenmem.storage.search_index.postings import Table
from langchain_tokenmem.storage.search_index.sources import Place, chosen, sources_at


class IndexReader:
    """One consistent picture of the index, for one scope."""

    def __init__(self, connection: Connection, scope: Scope, reach: Reach) -> None:
        self._connection = connection
        self._scope = scope
        self.reach = reach

    def totals(self) -> tuple[int, int]:
        """Return how many units are in reach, and how many terms they have together."""
        return postings.totals(self._connection, self.reach)

    def counts(self, terms: Sequence[str]) -> dict[str, int]:
        """Return in how many units in reach each term occurs; only of terms that do."""
        return postings.document_counts(self._connection, self.reach, terms)

    def postings(self, terms: Sequence[str], most: int) -> dict[str, Table]:
        """Return (unit, tf, length) of terms; of one with more than `most`, the newest."""
        return postings.postings(self._connection, self.reach, terms, most)

    def postings_of(self, terms: Sequence[str], units: Sequence[int]) -> dict[str, Table]:
        """Return (unit, tf, length) of terms in some units only."""
        return postings.postings_of(self._connection, self.reach, terms, units)

    def vectors(self, fingerprint: str) -> dict[int, bytes]:
        """Return every vector in reach by unit."""
        return vector_rows.vectors_in(self._connection, fingerprint, self.reach)

    def vector_units(self, fingerprint: str, *, after: int = -1, limit: int = 1_000) -> list[int]:
        """Return the units in reach that have a vector, in order, one page at a time."""
        return vector_rows.vector_units(
            self._connection, fingerprint, reach=self.reach, after=after, limit=limit
        )

    def with_vectors(self, fingerprint: str, units: Sequence[int]) -> set[int]:
        """Return the units among some that have a vector."""
        return vector_rows.with_vectors(self._connection, fingerprint, units)

    def fact(self, name: str) -> Any:
        """Return a fact about an index (plain JSON); None when it is not known."""
        return fact(self._connection, name)

    def count_vectors(self, fingerprint: str, most: int) -> int:
        """Return how many vectors are in reach; counts no further than `most`."""
        return vector_rows.count_vectors(self._connection, fingerprint, self.reach, most)

    def chosen(
        self, units: Sequence[int], among: Collection[str] | None, exclude: Collection[str]
    ) -> list[int]:
        """Return the units whose message is among some ids, and not among others."""
        return chosen(self._connection, units, among, exclude)

    def sources(self, units: Iterable[int]) -> dict[Place, Source]:
        """Return what stands at some units by (shelf, seq), if it is there and in scope."""
        return sources_at(self._connection, self._scope, units)
