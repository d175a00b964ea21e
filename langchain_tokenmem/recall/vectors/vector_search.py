"""Search by meaning over the vectors of a store: few of them one by one, many in Chroma."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.interfaces import IndexReader
from langchain_tokenmem.recall.vectors.chroma import ChromaIndex
from langchain_tokenmem.recall.vectors.collection import DamagedIndexError, MissingIndexError
from langchain_tokenmem.recall.vectors.collection_manager import Keeper
from langchain_tokenmem.recall.vectors.embeddings import Vectors, unit_rows
from langchain_tokenmem.recall.vectors.filling import asking, to_matrix
from langchain_tokenmem.recall.vectors.vector_math import blended, nearest

EXACT_MOST = 1_000
"""Vectors in reach up to which the stored ones are compared one by one, without Chroma.

A thousand of 384 numbers take 15 ms of one core, mostly for reading them, and grow with their
number; Chroma takes 9 to 13 ms among 4,000 vectors, but 59 where one in a hundred of 100,000 is in
scope (FACTS.md). So short histories are searched exactly and need no Chroma that works, and long
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
        keeper: Of the collections.
        share: Weight of the neighbours in a message's vector.
        reach: How far neighbours stand at most, in messages.
        exact_most: Vectors in reach up to which the stored ones are compared one by one.
    """

    def __init__(
        self, chroma: ChromaIndex, keeper: Keeper, *, share: float, reach: int, exact_most: int
    ) -> None:
        self._chroma = chroma
        self._keeper = keeper
        self._share = share
        self._reach = reach
        self._exact_most = exact_most

    def has_any(
        self, reader: IndexReader, among: Collection[str] | None, exclude: Collection[str]
    ) -> bool:
        """Return whether anything might be found by meaning, so that it is worth to ask the model.

        Raises:
            RecallError: When there are only vectors of another model.
        """
        if self._keeper.is_known:
            self._keeper.comparable(reader)
        known = self._keeper.generations.read(reader)
        keys = {one.key for one in (known.building, known.active) if one is not None}
        return any(_is_any_left(reader, key, among, exclude) for key in sorted(keys))

    def question(self, query: str) -> Vectors:
        """Ask the model for the vector of a question; never while a transaction is open.

        Args:
            query: What to look for, without names of speakers (`dense.without_names`).

        Raises:
            RecallError: When the model fails.
        """
        mine = self._keeper.mine()
        with asking(self._chroma.embeddings):
            found = np.asarray(self._chroma.embeddings.embed_query(query), np.float32)
        if found.shape != (mine.dimension,) or not np.isfinite(found).all():
            raise RecallError(
                f"{mine} answered a question with a vector of shape {found.shape}, or with numbers "
                f"that are none. Recall is lexical."
            )
        question: Vectors = unit_rows(found[None, :])[0]
        return question

    def search(
        self, question: Vectors, reader: IndexReader, k: int | None = None
    ) -> list[tuple[int, float]]:
        """Return the units nearest in meaning and their cosine, best first, within reach.

        Few vectors are compared one by one as they stand in the store, exactly; for more Chroma is
        asked. What is found is a proposal: `Recall` looks at the transcript for what it may show.

        Args:
            question: What `question` gave.
            reader: A picture of the scope.
            k: Most units to return; default: all where they are compared one by one, else `DEPTH`.

        Raises:
            RecallError: When the vectors are of another model, or Chroma fails.
        """
        generation = self._keeper.comparable(reader)
        if generation is None or (k is not None and k < 1):
            return []
        count = reader.count_vectors(generation.key, self._exact_most + 1)
        if not count:
            return []
        if count > self._exact_most:
            return self._ask(question, reader, k or DEPTH)
        units, vectors = to_matrix(reader.vectors(generation.key))
        if not len(units):
            return []
        mixed = blended(units, vectors, share=self._share, reach=self._reach)
        return nearest(units, mixed, question, k or len(units))

    def lacking(self, units: Sequence[int], reader: IndexReader) -> set[int]:
        """Return the units among some whose vector is still owed.

        Raises:
            RecallError: When the vectors are of another model.
        """
        generation = self._keeper.comparable(reader)
        known = set() if generation is None else reader.with_vectors(generation.key, units)
        return set(units) - known

    def _ask(self, question: Vectors, reader: IndexReader, k: int) -> list[tuple[int, float]]:
        try:
            return self._keeper.answering(reader).nearest(question, reader.reach, k)
        except (MissingIndexError, DamagedIndexError) as error:
            self._keeper.give_up(reader, error)
            self._heal()
            raise

    def _heal(self) -> None:
        """Have the collection made anew."""


def _is_any_left(
    reader: IndexReader, key: str, among: Collection[str] | None, exclude: Collection[str]
) -> bool:
    """Return whether a vector's message may be found; the oldest first, for the tail is new."""
    after = -1
    for _ in range(_PAGES):
        page = reader.vector_units(key, after=after, limit=_PAGE)
        if not page:
            return False
        if reader.chosen(page, among, exclude):
            return True
        after = page[-1]
    return True
