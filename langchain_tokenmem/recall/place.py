"""A place where vectors are looked up: a cache that can be rebuilt from the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from langchain_core.embeddings import Embeddings

from langchain_tokenmem.core.search_units import ScopePartitions
from langchain_tokenmem.errors import RecallError, TokenMemoryError
from langchain_tokenmem.recall.embeddings import Numbers, Vectors

T = TypeVar("T")

_BROKEN = frozenset({"NotFoundError", "InternalError", "PanicException"})
"""Errors of a Chroma whose collection does not work."""


class BrokenCollectionError(RecallError):
    """A collection that is missing, or answers with an internal error: it is rebuilt."""


@dataclass(frozen=True)
class Question:
    """A question for the vector search.

    Attributes:
        text: Its text, without names of speakers.
        vector: Its vector, of length 1.
    """

    text: str
    vector: Vectors


class Place(Protocol):
    """Chroma, or a LangChain vector store: collections of entries by unit (`core.search_units`).

    A place proposes candidates; their scores are computed from the vectors that the store keeps.
    Methods raise `RecallError` when the place cannot be reached, and `BrokenCollectionError` when
    the collection is missing or does not work.

    Attributes:
        embeddings: The model that makes the vectors.
        model: Its name in messages; None for the model's own.
        prefix: Prefix of the names of its collections.
    """

    embeddings: Embeddings
    model: str | None
    prefix: str

    @property
    def where(self) -> str:
        """The place, as text."""
        ...

    def make(self, name: str, about: Mapping[str, str | int]) -> None:
        """Create an empty collection, with metadata for people who look into it."""
        ...

    def put(
        self, name: str, units: Numbers, vectors: Vectors, owner: int, texts: Mapping[int, str]
    ) -> None:
        """Store entries; earlier ones of the same units are replaced.

        Args:
            name: The collection.
            units: Numbers of the units.
            vectors: Their vectors, in the same order.
            owner: Number of the user or session that owns them.
            texts: Their texts, for a place that embeds them itself.
        """
        ...

    def delete(self, name: str, units: Sequence[int]) -> None:
        """Delete entries; missing ones are ignored."""
        ...

    def units(self, name: str, partition: int) -> list[int]:
        """Return the units of the entries of one partition, in order."""
        ...

    def count(self, name: str) -> int:
        """Return how many entries a collection has."""
        ...

    def propose(
        self, name: str, question: Question, within: ScopePartitions, limit: int
    ) -> Sequence[int]:
        """Return the units in scope that may be nearest to a question, at most `limit`."""
        ...

    def clear(self, name: str) -> None:
        """Delete a collection with its entries; a missing one is ignored."""
        ...

    def scrub(self, holds: Callable[[str], bool]) -> int:
        """Delete collections of this process with files for which `holds` is true; return how many.

        They are rebuilt from the store.
        """
        ...

    def close(self) -> None:
        """Close connections and files."""
        ...


def ask_place(where: str, call: Callable[[], T], *, broken: Collection[str] = _BROKEN) -> T:
    """Call Chroma or a vector store; its errors become `RecallError`s.

    Chroma raises its own errors, those of its HTTP client, ValueErrors and, when its Rust part
    panics, something that is not an `Exception`; a vector store may raise anything. They are all
    caught here and nowhere else.

    Args:
        where: The subject of the error message.
        call: The call.
        broken: Names of the errors after which the collection is rebuilt.
    """
    try:
        return call()
    except TokenMemoryError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        fault = f"{type(error).__name__}: {error}"[:300]
        if any(kind.__name__ in broken for kind in type(error).__mro__):
            raise BrokenCollectionError(
                f"{where}: a collection is broken ({fault}). It is rebuilt from the store; until "
                f"then recall is lexical."
            ) from error
        raise RecallError(
            f"{where}: it cannot be used now ({fault}). Recall is lexical until it can; messages "
            f"are indexed later."
        ) from error
