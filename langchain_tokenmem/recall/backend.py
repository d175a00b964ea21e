"""Interface of a place where vectors are searched; the store keeps the vectors themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from langchain_core.embeddings import Embeddings

from langchain_tokenmem.recall.embeddings import Vectors
from langchain_tokenmem.recall.vector_math import Numbers
from langchain_tokenmem.storage.search_index import IndexReader, SearchIndex


@dataclass(frozen=True)
class Question:
    """A question as the vector search takes it.

    Attributes:
        text: Its words, without names of speakers.
        vector: What the model made of them, of length 1.
    """

    text: str
    vector: Vectors


class VectorCollection(Protocol):
    """Entries of one store and one model, by unit number (`core.search_units`)."""

    def put(self, units: Numbers, vectors: Vectors, owner: int, texts: Mapping[int, str]) -> None:
        """Store entries, in the place of earlier ones of the same units.

        Args:
            units: Numbers of the units.
            vectors: Their blended vectors, in the same order.
            owner: Number of the user or session that owns them.
            texts: Their words, for a place that makes vectors of its own.
        """
        ...

    def remove(self, units: Sequence[int]) -> None:
        """Delete entries; one that is not there is no error."""
        ...

    def count(self) -> int:
        """Return how many entries there are."""
        ...

    def units(self, partition: int | None = None) -> list[int]:
        """Return the numbers of all entries, or of those of one partition, in order."""
        ...

    def search(
        self, question: Question, reader: IndexReader, key: str, limit: int
    ) -> list[tuple[int, float]]:
        """Return the units in scope nearest to a question with their cosines, the best first.

        Args:
            question: What is asked.
            reader: A picture of the scope.
            key: The name under which the store keeps the model's vectors.
            limit: Most units.
        """
        ...


class VectorBackend(Protocol):
    """A place of collections: Chroma, a LangChain vector store, or the store's own table.

    Attributes:
        embeddings: The model that makes the vectors.
        model: Its name in messages; None for what the object says of itself.
        collection: First part of the names of the collections.
        kind: Follows it in these names, so that no place takes another one's for its own.
        is_copy: Whether it has copies of the stored vectors, which may be incomplete.
    """

    embeddings: Embeddings
    model: str | None
    collection: str
    kind: str
    is_copy: bool

    @property
    def where(self) -> str:
        """Place of the vectors, in words."""
        ...

    def attach(self, store: SearchIndex) -> None:
        """Take the store whose vectors it has; called once, before anything else."""
        ...

    def open(self, name: str) -> VectorCollection:
        """Return a collection that works.

        Raises:
            BrokenCollectionError: When there is none of this name, or it does not work.
        """
        ...

    def make(self, name: str, metadata: Mapping[str, str | int]) -> VectorCollection:
        """Return a new collection; one of this name that is there already is dropped."""
        ...

    def drop(self, name: str) -> None:
        """Delete a collection, if it is there."""
        ...

    def writing(self, collection: str) -> AbstractContextManager[None]:
        """Note that a collection is being written to, and that it is whole again."""
        ...

    def close(self) -> None:
        """Let go of connections and files."""
        ...
