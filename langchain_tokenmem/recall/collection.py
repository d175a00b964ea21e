"""A collection in Chroma, and the meaning of Chroma's errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from langchain_tokenmem.core.search_units import ScopePartitions, unpack_unit
from langchain_tokenmem.errors import RecallError, TokenMemoryError
from langchain_tokenmem.recall.backend import Question
from langchain_tokenmem.recall.embeddings import Vectors
from langchain_tokenmem.recall.vector_math import Numbers
from langchain_tokenmem.storage.search_index import IndexReader

T = TypeVar("T")
Ask = Callable[[Callable[[], Any]], Any]
"""Calls Chroma and raises its errors in our own words."""

_BROKEN = frozenset({"NotFoundError", "InternalError", "PanicException"})
"""Errors of a Chroma whose collection does not work."""

_BATCH_SIZE = 1_000
"""Vectors in one request; Chroma's own bound (5,461 embedded) is asked for and never passed."""


class BrokenCollectionError(RecallError):
    """A collection that is not there, or answers with an error of its own: it is made anew."""


class ChromaCollection:
    """One collection: vectors by unit number. Made by `ChromaIndex`.

    Vectors have length 1, so Chroma's squared distance and the cosine say the same.

    Args:
        collection: Chroma's own object.
        client: Of Chroma, for its bounds.
        ask: Calls Chroma.
    """

    def __init__(self, collection: Any, client: Any, ask: Ask) -> None:
        self._collection = collection
        self._ask = ask
        self._batch_size = min(_BATCH_SIZE, int(ask(client.get_max_batch_size)))

    def put(
        self,
        units: Numbers,
        vectors: Vectors,
        owner: int,
        texts: Mapping[int, str] | None = None,  # noqa: ARG002  no word reaches Chroma
    ) -> None:
        """Store vectors, in the place of earlier ones of the same units."""
        for start in range(0, len(units), self._batch_size):
            some = units[start : start + self._batch_size].tolist()
            # Plain text: `$ne` and numbers of two types are where filters begin to leak.
            places = [
                {"owner": str(owner), "partition": str(unpack_unit(unit)[0])} for unit in some
            ]
            self._call(
                "upsert",
                ids=list(map(str, some)),
                embeddings=vectors[start : start + self._batch_size],
                metadatas=places,
            )

    def remove(self, units: Sequence[int]) -> None:
        """Delete vectors; one that is not there is no error."""
        for start in range(0, len(units), self._batch_size):
            self._call("delete", ids=[str(u) for u in units[start : start + self._batch_size]])

    def count(self) -> int:
        """Return how many vectors there are; Chroma also brings its graph up to date for it."""
        return int(self._call("count"))

    def units(self, partition: int | None = None) -> list[int]:
        """Return the numbers of all vectors, or of those of one partition, in order."""
        found: list[str] = []
        where = None if partition is None else {"partition": str(partition)}
        while True:
            page = self._call(
                "get", where=where, include=[], limit=self._batch_size, offset=len(found)
            )["ids"]
            if not page:
                return sorted(int(name) for name in found if name.isdecimal())
            found += page

    def search(
        self,
        question: Question,
        reader: IndexReader,
        key: str,  # noqa: ARG002  a collection is of one model
        limit: int,
    ) -> list[tuple[int, float]]:
        """Return what `nearest` does, for the scope of a reader."""
        return self.nearest(question.vector, reader.partitions, limit)

    def nearest(
        self, question: Vectors, within: ScopePartitions, limit: int
    ) -> list[tuple[int, float]]:
        """Return the units in scope nearest to a question with their cosines, the best first."""
        where: Any = {"owner": str(within.owner)}
        if not within.whole:
            own = {"partition": {"$in": [str(number) for number in within.partitions]}}
            where = {"$and": [where, own]}
        found = self._call(
            "query",
            query_embeddings=np.asarray([question], np.float32),
            n_results=limit,
            where=where,
            include=["distances"],
        )
        pairs = zip(found["ids"][0], (found["distances"] or [[]])[0], strict=True)
        # A collection is not the truth: what is no number of ours is not looked at.
        hits = [(int(name), 1.0 - float(far) / 2) for name, far in pairs if name.isdecimal()]
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))

    def _call(self, method: str, **options: Any) -> Any:
        return self._ask(lambda: getattr(self._collection, method)(**options))


def ask_backend(
    about: str,
    call: Callable[[], T],
    *,
    broken: Collection[str] = _BROKEN,
) -> T:
    """Return the answer of Chroma or a vector store, and raise its errors in our own words.

    Chroma raises errors of its own, of its HTTP client, ValueErrors and, where its Rust part gives
    up, something that is no `Exception`; a vector store may raise anything. This is the one place
    where all of them are caught.

    Args:
        about: The subject of an error's message.
        call: Asks it.
        broken: Names of the errors after which a collection is made anew.
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
                f"{about}: a collection is broken ({fault}). It is made anew from the store; until "
                f"then recall is lexical."
            ) from error
        raise RecallError(
            f"{about}: it cannot be used now ({fault}). Recall is lexical until it can; messages "
            f"are indexed later."
        ) from error
