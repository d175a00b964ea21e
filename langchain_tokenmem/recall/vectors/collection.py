"""One collection of Chroma, and what Chroma's errors mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from langchain_tokenmem.core.search_units import Reach, unit_place
from langchain_tokenmem.errors import RecallError, TokenMemoryError
from langchain_tokenmem.recall.vectors.embeddings import Vectors
from langchain_tokenmem.recall.vectors.vector_math import Numbers


class DamagedIndexError(RecallError):
    """A collection that answers with an error of its own: it is made anew from the store."""


class MissingIndexError(RecallError):
    """A collection that is not there (any more)."""


class ChromaCollection:
    """One collection: vectors by unit number. Made by `ChromaIndex`.

    Vectors have length 1, so Chroma's squared distance and the cosine say the same.
    """

    def __init__(self, collection: Any, where: str, most_at_once: int) -> None:
        self._collection = collection
        self._most = most_at_once
        self._about = f"Collection {collection.name} of {where}"

    def put(self, units: Numbers, vectors: Vectors, owner: int) -> None:
        """Store vectors, in the place of earlier ones of the same units."""
        for start in range(0, len(units), self._most):
            part = units[start : start + self._most]
            with told(self._about):
                self._collection.upsert(
                    ids=[str(unit) for unit in part],
                    embeddings=vectors[start : start + self._most],
                    metadatas=[_place(int(unit), owner) for unit in part],
                )

    def remove(self, units: Sequence[int]) -> None:
        """Delete vectors; one that is not there is no error."""
        for start in range(0, len(units), self._most):
            ids = [str(unit) for unit in units[start : start + self._most]]
            with told(self._about):
                self._collection.delete(ids=ids)

    def count(self) -> int:
        """Return how many vectors there are; Chroma also brings its graph up to date for it."""
        with told(self._about):
            return int(self._collection.count())

    def units(self, shelf: int | None = None) -> list[int]:
        """Return the numbers of all vectors, or of those of one shelf, in order."""
        found: list[str] = []
        where: Any = None if shelf is None else {"shelf": str(shelf)}
        while True:
            with told(self._about):
                page = self._collection.get(
                    where=where, include=[], limit=self._most, offset=len(found)
                )["ids"]
            if not page:
                return sorted(int(name) for name in found if name.isdecimal())
            found += page

    def nearest(self, question: Vectors, reach: Reach, limit: int) -> list[tuple[int, float]]:
        """Return the units in reach nearest to a question with their cosines, the best first."""
        with told(self._about):
            found = self._collection.query(
                query_embeddings=np.asarray([question], np.float32),
                n_results=limit,
                where=_where(reach),
                include=["distances"],
            )
        distances = found["distances"] or [[]]
        pairs = zip(found["ids"][0], distances[0], strict=True)
        # A collection is not the truth: what is no number of ours is not looked at.
        hits = [(int(name), 1.0 - float(far) / 2) for name, far in pairs if name.isdecimal()]
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))


def _place(unit: int, owner: int) -> dict[str, str | int | float | bool | None]:
    # Plain text: `$ne` and numbers of two types are where filters begin to leak.
    return {"owner": str(owner), "shelf": str(unit_place(unit)[0])}


def _where(reach: Reach) -> Any:
    owner = {"owner": str(reach.owner)}
    if reach.whole:
        return owner
    return {"$and": [owner, {"shelf": {"$in": [str(shelf) for shelf in reach.shelves]}}]}


@contextmanager
def told(about: str) -> Iterator[None]:
    """Raise what Chroma says in our own words.

    It raises errors of its own, of its HTTP client, ValueErrors and, where its Rust part gives up,
    something that is no `Exception`: this is the one place where all of them are caught.
    """
    try:
        yield
    except TokenMemoryError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise _as_ours(error, about) from error


def _as_ours(error: BaseException, about: str) -> RecallError:
    said = f"{type(error).__name__}: {error}"[:300]
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "NotFoundError" in kinds:
        return MissingIndexError(
            f"{about}: it is not there ({said}). It is made anew from the store."
        )
    if "InternalError" in kinds or "PanicException" in kinds:
        return DamagedIndexError(
            f"{about}: it answers with an error ({said}). It is made anew from the store; until "
            f"then recall is lexical."
        )
    return RecallError(
        f"{about}: it cannot be used now ({said}). Recall is lexical until it can; messages wait "
        f"in the outbox."
    )
