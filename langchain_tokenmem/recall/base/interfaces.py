"""Protocols between recall and the store of the transcripts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

from langchain_tokenmem.core.search_units import (
    Analyser,
    Change,
    IndexSource,
    OutboxEntry,
    Scope,
    ScopePartitions,
)


class VectorIndexReader(Protocol):
    """One consistent picture of the vectors of a scope, or of the whole store."""

    def vectors(self, fingerprint: str, units: Sequence[int] | None = None) -> dict[int, bytes]:
        """Return vectors by unit, all or those of some units: float32, little-endian."""
        ...

    def vector_units(
        self, fingerprint: str, *, partition: int | None = None, limit: int | None = None
    ) -> list[int]:
        """Return the units that have a vector, in order: all, or those of one partition."""
        ...

    def count_vectors(self, fingerprint: str, most: int | None = None) -> int:
        """Return how many vectors there are; counts no further than `most`."""
        ...

    def get_property(self, name: str) -> Any:
        """Return a property of the index (plain JSON); None when it is not set."""
        ...


class SearchIndexReader(VectorIndexReader, Protocol):
    """One consistent picture of a scope."""

    partitions: ScopePartitions

    def totals(self) -> tuple[int, int]:
        """Return how many units are in scope, and how many terms they have together."""
        ...

    def counts(self, terms: Sequence[str]) -> dict[str, int]:
        """Return in how many units in scope each term occurs; only of terms that do."""
        ...

    def postings(self, terms: Sequence[str], most: int) -> dict[str, list[Any]]:
        """Return (unit, tf, length) of terms; of one with more than `most`, the newest."""
        ...

    def postings_of(self, terms: Sequence[str], units: Sequence[int]) -> dict[str, list[Any]]:
        """Return (unit, tf, length) of terms in some units only."""
        ...

    def filter_units(
        self, units: Sequence[int], among: Collection[str] | None, exclude: Collection[str]
    ) -> list[int]:
        """Return the units whose message is among some ids, and not among others."""
        ...

    def sources(self, units: Iterable[int]) -> dict[tuple[int, int], IndexSource]:
        """Return the texts of units by (partition, seq), if they are there and in scope."""
        ...


class IndexPartition(Protocol):
    """Messages of a session, or documents of a session or a user: a range of unit numbers."""

    @property
    def number(self) -> int:
        """Its number; the first part of the numbers of its units."""
        ...

    @property
    def owner(self) -> int:
        """Number of the user, or of a session that has none."""
        ...


class SearchableIndex(Protocol):
    """Postings, vectors, documents and outbox of a store; `TranscriptStore.index` is one.

    A `partition_key` names a partition, a number stands for it in units (`core.search_units`). The
    indexes are `lexical` and `vectors`.
    """

    def attach(self, analyser: Analyser) -> None:
        """Let every append write its lexical entries in its own transaction."""

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` after each commit that changed something; return how to stop it."""
        ...

    def reading(self, scope: Scope, *, index_first: bool = True) -> AbstractContextManager[Any]:
        """Give a `SearchIndexReader`, or None when nothing is indexed in the scope.

        With `index_first`, what the lexical index lacks of the scope is indexed before.
        """
        ...

    def pending(
        self, index_name: str, *, scope: Scope | None = None, limit: int | None = None
    ) -> list[OutboxEntry]:
        """Return the partitions that an index has not indexed whole."""
        ...

    def backlog(self) -> dict[str, int]:
        """Return for each index how many partitions it has not indexed whole."""
        ...

    def sources_from(
        self, partition_key: str, from_seq: int, limit: int
    ) -> tuple[list[IndexSource], int]:
        """Return the texts of a partition from a number on, and the last number that there is."""
        ...

    def index_lexical(self, scope: Scope | None = None, most: int | None = None) -> int:
        """Index what the lexical index lacks, of one scope or of all; return how many messages.

        At most `most`, those of the scope's own session first.
        """
        ...

    def rebuild_lexical(self) -> int:
        """Throw the lexical index away and make it anew; return how many messages it has."""
        ...

    def history(self, scope: Scope, before: int | None, limit: int) -> list[IndexSource]:
        """Return the messages of a session in front of a number, the newest `limit`, in order."""
        ...

    def put_document(self, source: IndexSource, *, now: datetime) -> None:
        """Add a document to the session or user that it names, in the place of one of its id."""

    def delete_document(
        self, document_id: str, *, session_id: str | None, user_id: str | None
    ) -> bool:
        """Delete a document; return whether there was one."""
        ...

    def partition(self, partition_key: str) -> IndexPartition | None:
        """Return a partition; make it for a session that has none."""
        ...

    def put_vectors(self, fingerprint: str, given: Mapping[int, bytes]) -> None:
        """Store vectors by unit, as far as the units' texts are there (still)."""

    def acknowledge_vectors(self, partition_key: str, done_to: int) -> None:
        """Note that a partition's vectors are indexed up to a number."""

    def reading_vectors(self) -> AbstractContextManager[VectorIndexReader]:
        """Give a consistent picture of all vectors, and of the properties."""
        ...

    def delete_vectors(self, *, keep: str) -> None:
        """Delete the vectors of every model but one."""

    def set_property(self, name: str, value: Any, *, enqueue_vectors: bool = False) -> None:
        """Set a property; with `enqueue_vectors`, all of the vectors have to be indexed again."""


class SearchableStore(Protocol):
    """A store of transcripts, as far as recall is concerned: `TranscriptStore` is one."""

    @property
    def index(self) -> SearchableIndex:
        """Postings, vectors, documents and outbox."""
        ...

    def erase(self, session_id: str | None = None, user_id: str | None = None) -> dict[str, int]:
        """Delete everything of a session or a user; return how many rows of each table."""
        ...
