"""A place where vectors are looked up: a cache that is made again from the store's own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from langchain_core.embeddings import Embeddings

from langchain_tokenmem.core.search_units import ScopePartitions
from langchain_tokenmem.errors import RecallError, TokenMemoryError
from langchain_tokenmem.recall.embeddings import Vectors
from langchain_tokenmem.recall.vector_math import Numbers

T = TypeVar("T")

_BROKEN = frozenset({"NotFoundError", "InternalError", "PanicException"})
"""Errors of a Chroma whose collection does not work."""


class BrokenCollectionError(RecallError):
    """A collection that is missing, or answers with an internal error: it is made again."""


@dataclass(frozen=True)
class Question:
    """A question as the vector search takes it.

    Attributes:
        text: Its words, without names of speakers.
        vector: What the model made of them, of length 1.
    """

    text: str
    vector: Vectors


class Place(Protocol):
    """Chroma, or a LangChain vector store: collections of entries by unit (`core.search_units`).

    It proposes candidates; their scores are computed from the vectors that the store keeps. Every
    method raises `RecallError` when the place cannot be reached, and all that name a collection
    `BrokenCollectionError` when it is missing or does not work.

    Attributes:
        embeddings: The model that makes the vectors.
        model: Its name in messages; None for what the object says of itself.
        prefix: Begins the names of its collections.
    """

    embeddings: Embeddings
    model: str | None
    prefix: str

    @property
    def where(self) -> str:
        """The place, in words."""
        ...

    def make(self, name: str, about: Mapping[str, str | int]) -> None:
        """Make an empty collection, with metadata for people who look into it."""
        ...

    def put(
        self, name: str, units: Numbers, vectors: Vectors, owner: int, texts: Mapping[int, str]
    ) -> None:
        """Store entries, in the place of earlier ones of the same units.

        Args:
            name: The collection.
            units: Numbers of the units.
            vectors: Their blended vectors, in the same order.
            owner: Number of the user or session that owns them.
            texts: Their words, for a place that makes vectors of its own.
        """
        ...

    def delete(self, name: str, units: Sequence[int]) -> None:
        """Delete entries; one that is missing is no error."""
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
        """Delete a collection with its entries; one that is missing is no error."""
        ...

    def close(self) -> None:
        """Let go of connections and files."""
        ...


def ask_place(where: str, call: Callable[[], T], *, broken: Collection[str] = _BROKEN) -> T:
    """Return the answer of Chroma or a vector store, and raise its errors in our own words.

    Chroma raises errors of its own, of its HTTP client, ValueErrors and, where its Rust part gives
    up, something that is no `Exception`; a vector store may raise anything. This is the one place
    where all of them are caught.

    Args:
        where: The subject of an error's message.
        call: Asks it.
        broken: Names of the errors after which a collection is made again.
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
                f"{where}: a collection is broken ({fault}). It is made anew from the store; until "
                f"then recall is lexical."
            ) from error
        raise RecallError(
            f"{where}: it cannot be used now ({fault}). Recall is lexical until it can; messages "
            f"are indexed later."
        ) from error
