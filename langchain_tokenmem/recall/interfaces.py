"""What recall is made of: hits, scopes, and what its parts ask of one another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from langchain_tokenmem.core.search_units import Change, Entry, Pending, Reach, Scope, Source

__all__ = [
    "Analyser",
    "Change",
    "Entry",
    "Hit",
    "IndexReader",
    "IndexStore",
    "Pending",
    "Reach",
    "Scope",
    "Source",
    "Store",
]


@dataclass(frozen=True)
class Hit:
    """A message or document that was found.

    Attributes:
        message_id: Id of the message; of a document its id, too.
        session_id: Where it was said; None for a document of a user.
        text: What it says, verbatim; of a long message the part that matches.
        score: From 0 to about 1, comparable within one search only.
        role: `human`, `ai`, `tool`, or `document`.
        name: The speaker, if one is named.
        created_at: When it was said, in UTC.
        seq: Its number in the session.
        part: Which part of a long message it is, from 0.
        parts: In how many parts the message is indexed.
        document_id: Id of the document; None for a message.
        metadata: Of the document.
        lexical: Share of the query's weight (IDF) that its own words match, 0 to 1.
        cosine: Of the query's vector and its own; None without embeddings.
    """

    message_id: str
    session_id: str | None
    text: str
    score: float
    role: str
    name: str | None
    created_at: datetime
    seq: int
    part: int = 0
    parts: int = 1
    document_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    lexical: float = 0.0
    cosine: float | None = None


class Analyser(Protocol):
    """Turns texts into the terms of the lexical index."""

    @property
    def version(self) -> str:
        """Another version means another index."""
        ...

    def entries(self, source: Source) -> Sequence[Entry]:
        """Return an entry for each part of a text; none for what is not to be found."""
        ...


class IndexReader(Protocol):
    """One consistent picture of a scope."""

    reach: Reach

    def totals(self) -> tuple[int, int]:
        """Return how many units are in reach, and how many terms they have together."""
        ...

    def counts(self, terms: Sequence[str]) -> dict[str, int]:
        """Return in how many units in reach each term occurs; only of terms that do."""
        ...

    def postings(self, terms: Sequence[str], most: int) -> dict[str, list[Any]]:
        """Return (unit, tf, length) of terms; of one with more than `most`, the newest."""
        ...

    def postings_of(self, terms: Sequence[str], units: Sequence[int]) -> dict[str, list[Any]]:
        """Return (unit, tf, length) of terms in some units only."""
        ...

    def vectors(self, fingerprint: str) -> dict[int, bytes]:
        """Return every vector in reach by unit: float32, little-endian."""
        ...

    def vector_units(self, fingerprint: str, *, after: int = -1, limit: int = 1_000) -> list[int]:
        """Return the units in reach that have a vector, in order, one page at a time."""
        ...

    def with_vectors(self, fingerprint: str, units: Sequence[int]) -> set[int]:
        """Return the units among some that have a vector."""
        ...

    def fact(self, name: str) -> Any:
        """Return a fact about an index (plain JSON); None when it is not known."""
        ...

    def count_vectors(self, fingerprint: str, most: int) -> int:
        """Return how many vectors are in reach; counts no further than `most`."""
        ...

    def chosen(
        self, units: Sequence[int], among: Collection[str] | None, exclude: Collection[str]
    ) -> list[int]:
        """Return the units whose message is among some ids, and not among others."""
        ...

    def sources(self, units: Iterable[int]) -> dict[tuple[int, int], Source]:
        """Return what stands at some units by (shelf, seq), if it is there and in scope."""
        ...


class IndexStore(Protocol):
    """What recall reads and writes beside the transcripts; `TranscriptStore.index` is one.

    A shelf is the messages of a session, or the documents of a session or a user. `shelf_key`
    names it, a number stands for it in units (`core.units`). Sinks are `lexical` and `vectors`.
    """

    def attach(self, analyser: Analyser) -> None:
        """Let every append write its lexical entries in its own transaction."""

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` after each commit that changed something; return how to stop it."""
        ...

    def reading(self, scope: Scope, *, take_in: bool = True) -> AbstractContextManager[Any]:
        """Give an `IndexReader`, or None when nothing is indexed in the scope.

        With `take_in`, what the lexical index lacks of the scope is taken in before.
        """
        ...

    def pending(
        self, sink: str, *, scope: Scope | None = None, limit: int | None = None
    ) -> list[Pending]:
        """Return the shelves that a sink has not taken in whole; number 0 where none is made."""
        ...

    def backlog(self) -> dict[str, int]:
        """Return for each sink how many shelves it has not taken in whole."""
        ...

    def sources_from(self, shelf_key: str, from_seq: int, limit: int) -> tuple[list[Source], int]:
        """Return what stands on a shelf from a number on, and the last number that there is."""
        ...

    def index_lexical(self, scope: Scope | None = None, most: int | None = None) -> int:
        """Index what the lexical index lacks, of one scope or of all; return how many messages.

        At most `most`, those of the scope's own session first.
        """
        ...

    def rebuild_lexical(self) -> int:
        """Throw the lexical index away and make it anew; return how many messages it has."""
        ...

    def history(self, scope: Scope, before: int | None, limit: int) -> list[Source]:
        """Return the messages of a session in front of a number, the newest `limit`, in order."""
        ...

    def shelves_of(self, *, session_id: str | None, user_id: str | None) -> list[int]:
        """Return the numbers of the shelves that an `erase` of the same would empty."""
        ...

    def put_document(
        self,
        source: Source,
        *,
        now: datetime,
    ) -> None:
        """Add a document to the session or user that it names, in the place of one of its id."""

    def delete_document(
        self, document_id: str, *, session_id: str | None, user_id: str | None
    ) -> bool:
        """Delete a document; return whether there was one."""
        ...

    def shelf_number(self, shelf_key: str) -> int | None:
        """Return the number of a shelf; make it for a session that has none."""
        ...

    def owner_of(self, shelf: int) -> int | None:
        """Return the number of the owner of a shelf."""
        ...

    def put_vectors(
        self,
        fingerprint: str,
        vectors: Mapping[int, bytes],
        *,
        done: tuple[str, int] | None = None,
    ) -> None:
        """Store vectors by unit; with `done` (shelf_key, seq), settle the outbox up to there."""

    def vectors_of(self, fingerprint: str, units: Sequence[int]) -> dict[int, bytes]:
        """Return the vectors of some units, as far as there are any."""
        ...

    def vector_units(self, fingerprint: str, *, after: int = -1, limit: int = 1_000) -> list[int]:
        """Return the units that have a vector, in order, one page at a time."""
        ...

    def count_vectors(self, fingerprint: str) -> int:
        """Return how many vectors there are under a fingerprint."""
        ...

    def drop_vectors(self, fingerprint: str) -> int:
        """Delete the vectors of a model; return how many there were."""
        ...

    def owe_vectors(self) -> None:
        """Put every shelf into the outbox of the vectors, from its first number on."""

    def fact(self, name: str) -> Any:
        """Return a fact about an index (plain JSON); None when it is not known."""
        ...

    def set_fact(self, name: str, value: Any) -> None:
        """Keep a fact; None forgets it."""


class Store(Protocol):
    """A store of transcripts, as far as recall is concerned: `TranscriptStore` is one."""

    @property
    def index(self) -> IndexStore:
        """What recall reads and writes."""
        ...

    def erase(self, session_id: str | None = None, user_id: str | None = None) -> dict[str, int]:
        """Delete everything of a session or a user; return how many rows of each table."""
        ...
