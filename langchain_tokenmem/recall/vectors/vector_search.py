"""Vector search: few stored vectors are compared one by one, many are searched in Chroma."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.base.interfaces import SearchIndexReader
from langchain_tokenmem.recall.vectors.chroma import ChromaIndex
from langchain_tokenmem.recall.vectors.collection_manager import CollectionManager
from langchain_tokenmem.recall.vectors.embeddings import Vectors, ask_model, unit_rows
from langchain_tokenmem.recall.vectors.vector_math import blended, nearest, to_matrix

EXACT_MOST = 1_000
"""Vectors in scope up to which the stored ones are compared one by one, without Chroma.

A thousand of 384 numbers take 15 ms of one core, mostly for reading them, and grow with their
number; Chroma takes 9 to 13 ms among 4,000 vectors, and longer where little of a large collection
scope. So short histories are searched exactly and need no Chroma that works, and long
ones cost the same each turn. `benchmarks/recall_exact.py` prints both.
"""

DEPTH = 200
"""Units that are asked of Chroma, whatever is wanted: the spread of few says little of the best."""

_PAGE, _PAGES = 64, 16
"""Units that are looked through for one that may be found, before it is taken for granted."""


class VectorSearch:
    """The part of `VectorIndex` that answers.

    Args:
        chroma: Where the vectors are searched, and the model that makes them.
        collections: Of the store, for this model.
        exact_most: Vectors in scope up to which the stored ones are compared one by one.
    """

    def __init__(
        self, chroma: ChromaIndex, collections: CollectionManager, *, exact_most: int
    ) -> None:
        self._chroma = chroma
        self._collections = collections
        self._exact_most = exact_most

    def has_any(
        self, reader: SearchIndexReader, among: Collection[str] | None, exclude: Collection[str]
    ) -> bool:
        """Return whether anything might be found by meaning, so that it is worth to ask the model.

        Raises:
            RecallError: When there are only vectors of another model.
        """
        if self._collections.has_fingerprint:
            self._collections.comparable(reader)
        known = self._collections.versions(reader)
        keys = {one.key for one in (known.building, known.active) if one is not None}
        return any(_is_any_left(reader, key, among, exclude) for key in sorted(keys))

    def question(self, query: str) -> Vectors:
        """Ask the model for the vector of a question; never while a transaction is open.

        Args:
            query: What to look for, without names of speakers.

        Raises:
            RecallError: When the model fails.
        """
        mine = self._collections.fingerprint()
        with ask_model(self._chroma.embeddings):
            found = np.asarray(self._chroma.embeddings.embed_query(query), np.float32)
        if found.shape != (mine.dimension,) or not np.isfinite(found).all():
            raise RecallError(
                f"{mine} answered a question with a vector of shape {found.shape}, or with numbers "
                f"that are none. Recall is lexical."
            )
        question: Vectors = unit_rows(found[None, :])[0]
        return question

    def search(
        self, question: Vectors, reader: SearchIndexReader, k: int | None = None
    ) -> list[tuple[int, float]]:
        """Return the units nearest in meaning and their cosine, best first, in scope.

        Few vectors are compared one by one as they stand in the store, exactly; for more Chroma is
        asked. The answer is a proposal: `Recall` looks at the transcript for what it may show.

        Args:
            question: What `question` gave.
            reader: A picture of the scope.
            k: Most units to return; default: all where they are compared one by one, else `DEPTH`.

        Raises:
            RecallError: When the vectors are of another model, or Chroma fails.
        """
        version = self._collections.comparable(reader)
        if version is None or (k is not None and k < 1):
            return []
        count = reader.count_vectors(version.key, self._exact_most + 1)
        if count > self._exact_most:
            return self._collections.nearest(question, reader, k or DEPTH)
        units, vectors = to_matrix(reader.vectors(version.key))
        if not len(units):
            return []
        return nearest(units, blended(units, vectors), question, k or len(units))

    def lacking(self, units: Sequence[int], reader: SearchIndexReader) -> set[int]:
        """Return the units among some whose vector is still missing.

        Raises:
            RecallError: When the vectors are of another model.
        """
        version = self._collections.comparable(reader)
        known = {} if version is None else reader.vectors(version.key, units)
        return set(units) - set(known)


def _is_any_left(
    reader: SearchIndexReader, key: str, among: Collection[str] | None, exclude: Collection[str]
) -> bool:
    """Return whether a vector's message may be found; the oldest first, for the tail is new."""
    after = -1
    for _ in range(_PAGES):
        page = reader.vector_units(key, after=after, limit=_PAGE)
        if not page:
            return False
        if reader.filter_units(page, among, exclude):
            return True
        after = page[-1]
    return True
