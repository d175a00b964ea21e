"""`StoredVectors`: exact search over the vectors that the store keeps, without another index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from langchain_core.embeddings import Embeddings

from langchain_tokenmem.recall.backend import Question
from langchain_tokenmem.recall.collection import BrokenCollectionError
from langchain_tokenmem.recall.embeddings import Vectors
from langchain_tokenmem.recall.vector_math import Numbers, nearest_in_pages
from langchain_tokenmem.storage.search_index import IndexReader, SearchIndex

_PAGE = 2_000
"""Vectors that are read at once, so that memory does not grow with the scope: 12 MB of 1,536."""


class StoredVectors:
    """The store's own table as the place of vectors; each question reads those of its scope.

    Nothing is copied, so nothing can be missing. A question takes time in proportion to its scope:
    0.2 to 0.5 s of one core for 10,000 vectors of 384 numbers, as seen on a busy machine.

    Args:
        embeddings: The model.
        model: Its name in messages; default: what the object says of itself.
    """

    collection = "tokenmem"
    kind = "stored-"
    is_copy = False
    where = "the store"

    def __init__(self, embeddings: Embeddings, model: str | None = None) -> None:
        self.embeddings = embeddings
        self.model = model
        self._opened = _StoredCollection()

    def attach(self, store: SearchIndex) -> None:
        """Do nothing: the vectors come with the reader of each question."""

    def open(self, name: str) -> _StoredCollection:
        """Return the vectors of the store as a collection.

        Raises:
            BrokenCollectionError: When the name is that of a collection elsewhere.
        """
        if not name.startswith(f"{self.collection}-{self.kind}"):
            raise BrokenCollectionError(
                f"{name} was searched elsewhere before; now the store itself is searched."
            )
        return self._opened

    def make(self, name: str, metadata: Mapping[str, str | int]) -> _StoredCollection:  # noqa: ARG002
        """Return the vectors of the store as a collection."""
        return self.open(name)

    def drop(self, name: str) -> None:
        """Do nothing: the store deletes its vectors itself."""

    @contextmanager
    def writing(self, collection: str) -> Iterator[None]:  # noqa: ARG002
        """Do nothing: nothing is written but what the store writes itself."""
        yield

    def close(self) -> None:
        """Do nothing: there are no connections."""


class _StoredCollection:
    """The vectors of a store as a `VectorCollection`: it has whatever the store has."""

    def put(self, units: Numbers, vectors: Vectors, owner: int, texts: Mapping[int, str]) -> None:
        """Do nothing: the store has them."""

    def remove(self, units: Sequence[int]) -> None:
        """Do nothing: the store has deleted them."""

    def count(self) -> int:
        return 0

    def units(self, partition: int | None = None) -> list[int]:  # noqa: ARG002
        return []

    def search(
        self, question: Question, reader: IndexReader, key: str, limit: int
    ) -> list[tuple[int, float]]:
        return nearest_in_pages(reader.vector_pages(key, _PAGE), question.vector, limit)
