"""`VectorIndex`: vectors of a store, filled in the background, and searched."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Collection, Sequence

from langchain_tokenmem.background import TimedCalls
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.backend import (
    Question,
    VectorBackend,
    VectorCollection,
)
from langchain_tokenmem.recall.collection import BrokenCollectionError
from langchain_tokenmem.recall.collection_filling import CollectionFiller
from langchain_tokenmem.recall.collection_manager import (
    CollectionManager,
    CollectionVersion,
)
from langchain_tokenmem.recall.embeddings import embed_texts, name_of
from langchain_tokenmem.recall.vector_math import blended, nearest, to_matrix
from langchain_tokenmem.recall.words import Scores, best_units
from langchain_tokenmem.recall.worker import Worker
from langchain_tokenmem.storage.search_index import VECTORS, IndexReader, SearchIndex

logger = logging.getLogger(__name__)

BATCH = 64
"""Messages that are indexed at once: Chroma takes 14 ms for one vector and 50 to 170 for fifty."""

EXACT_MOST = 1_000
"""Vectors in scope up to which the stored ones are compared one by one, without Chroma.

A thousand of 384 numbers take 15 ms of one core, mostly for reading them, and grow with their
number; Chroma takes 9 to 13 ms among 4,000 vectors, and longer where little of a large collection
is in scope. So short histories are searched exactly and need no Chroma that works, and long
ones cost the same each turn. `benchmarks/recall_exact.py` prints both.
"""

DEPTH = 200
"""Units that are asked of Chroma, whatever is wanted: the spread of few says little of the best."""

_LOOKED_THROUGH = 256
"""Vectors in scope up to which it is looked whether any of their messages may be found."""

QUESTION_SECONDS = 10.0
"""Seconds that a model may take for the vector of a question."""

_LOOKED_UP = 64
"""Best units by words that are asked for their vector, where they are not among the nearest."""


class VectorIndex:
    """Vectors of a store: kept in the store itself, searched there, in Chroma or a vector store.

    A failing model or Chroma never fails a turn: what is missing is indexed
    at the next occasion. Chroma is a cache, as any other place is: a collection that is missing,
    damaged, incomplete, or that was left by a process that died while writing, is dropped and
    filled again from the stored vectors, without being asked.

    Args:
        store: `TranscriptStore.index`.
        backend: Where the vectors are searched, and the model that makes them.
        rebuilds: Whether the vectors of another model are made anew without being asked.
        batch: Messages that are indexed at once.
        exact_most: Vectors in scope up to which the stored ones are compared one by one.
    """

    def __init__(
        self,
        store: SearchIndex,
        backend: VectorBackend,
        *,
        rebuilds: bool = False,
        batch: int = BATCH,
        exact_most: int = EXACT_MOST,
    ) -> None:
        self._store = store
        self._backend = backend
        self._exact_most = exact_most
        backend.attach(store)
        self._collections = CollectionManager(store, backend, rebuilds=rebuilds)
        self._questions = TimedCalls("tokenmem-question")
        self._changed: set[int] = set()
        self._removed: Counter[int] = Counter()
        self._working = threading.RLock()
        self._worker = worker = Worker(self._work, "tokenmem-index")
        self._filler = CollectionFiller(
            store,
            backend,
            self._collections,
            batch=batch,
            is_stopping=lambda: worker.is_stopping,
        )

    # --- searching

    def has_any(
        self, reader: IndexReader, among: Collection[str] | None, exclude: Collection[str]
    ) -> bool:
        """Return whether anything might be found by meaning, so that it is worth to ask the model.

        Where there are many vectors it is taken for granted.
        """
        version = self._collections.version(reader)
        if version is None:
            return False
        units = reader.vector_units(version.key, limit=_LOOKED_THROUGH)
        is_whole = len(units) < _LOOKED_THROUGH
        return not is_whole or bool(reader.filter_units(units, among, exclude))

    def question(self, query: str) -> Question:
        """Ask the model for the vector of a question; never while a transaction is open.

        Args:
            query: What to look for, without names of speakers.

        Raises:
            RecallError: When the model fails, takes over `QUESTION_SECONDS`, or the vectors are of
                another one.
        """

        def embed() -> Question:
            mine = self._collections.fingerprint()
            self._collections.comparable()
            found = embed_texts(self._backend.embeddings, [query], mine.dimension, are_queries=True)
            return Question(query, found[0])

        try:
            return self._questions.run(embed, QUESTION_SECONDS)
        except TimeoutError as error:
            raise RecallError(
                f"The embedding model {name_of(self._backend.embeddings)} did not answer: {error}. "
                f"Recall is lexical until it does."
            ) from error

    def search(
        self, question: Question, reader: IndexReader, k: int | None = None
    ) -> list[tuple[int, float]]:
        """Return the units nearest in meaning and their cosine, best first, in scope.

        Few vectors are compared one by one as they stand in the store, exactly; for more the
        backend is asked. The answer is a proposal: `Recall` looks at the transcript for what it may
        show.

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
        key = version.key
        if reader.count_vectors(key, self._exact_most + 1) > self._exact_most:
            return self._nearest_of_many(version, question, reader, k or DEPTH)
        units, vectors = to_matrix(reader.vectors(key))
        if not len(units):
            return []
        return nearest(units, blended(units, vectors), question.vector, k or len(units))

    def _nearest_of_many(
        self, version: CollectionVersion, question: Question, reader: IndexReader, k: int
    ) -> list[tuple[int, float]]:
        if self._backend.is_copy and not version.is_complete:
            raise RecallError(
                f"The collection in {self._backend.where} is being made; recall is lexical until "
                f"it is complete."
            )
        try:
            return self._backend.open(version.name).search(question, reader, version.key, k)
        except BrokenCollectionError:
            self._replace(version)
            raise

    def _replace(self, version: CollectionVersion) -> None:
        """Drop a collection that does not work, and have it made anew in the background."""
        self._backend.drop(version.name)
        self._filler.is_compared = False
        self._worker.wake()

    def scores(
        self, question: Question, reader: IndexReader, words: Scores
    ) -> tuple[list[tuple[int, float]], set[int]]:
        """Return what `search` finds, and units that match by words and have no vector yet.

        Raises:
            RecallError: When the vectors are of another model, or Chroma fails.
        """
        found = self.search(question, reader)
        version, near = self._collections.version(reader), {unit for unit, _ in found}
        unknown = [unit for unit in best_units(words, _LOOKED_UP) if unit not in near]
        if version is None or not (found and unknown):
            return found, set()
        return found, set(unknown) - set(reader.vectors(version.key, unknown))

    # --- indexing

    def wake(self, change: Change) -> None:
        """Notice that the store has changed: never blocks, never raises."""
        if change.kind != "added":
            self._changed.update(change.partitions)
        self._worker.wake()

    def index(self) -> int:
        """Index what is missing; return how many texts were embedded.

        Raises:
            RecallError: When it cannot; the next call tries again.
        """
        with self._working:
            self._remove_deleted()
            return self._filler.index_missing()

    def rebuild(self, *, progress: bool = False) -> int:
        """Make the index anew from the transcript; return how many vectors it has.

        Vectors that the store has of this model are used, so that nothing is embedded twice; a
        rebuild that was broken off goes on where it was.

        Args:
            progress: Whether to show a progress bar.

        Raises:
            RecallError: When the model or Chroma fails; call it again and it goes on.
        """
        with self._working:
            mine, begun = self._collections.fingerprint(), self._collections.version()
            if begun is None or begun.is_complete or not begun.fingerprint.is_same_model(mine):
                self._collections.start()
            self._filler.index_missing(progress=progress)
            return self._collections.count_stored(self._collections.open()[0])

    def _work(self) -> None:
        with self._working:
            self._remove_deleted()
            if not self._filler.is_compared or self._store.pending(VECTORS, limit=1):
                self._filler.index_missing()

    # --- deleting, closing

    def forget(self, partitions: Sequence[int]) -> int:
        """Delete the entries of erased partitions; return how many there were.

        Raises:
            RecallError: When Chroma cannot be reached; they are deleted when it can.
        """
        self._changed.update(partitions)
        with self._working:
            self._remove_deleted()
            # The worker may have been faster.
            return sum(self._removed.pop(number, 0) for number in set(partitions))

    def _remove_deleted(self) -> None:
        """Delete the entries that the store has no more, of partitions that were changed."""
        changed, version = sorted(self._changed), self._collections.version()
        if changed and version is not None:
            try:
                collection = self._backend.open(version.name)
                with self._backend.writing(version.name):
                    for number in changed:
                        self._remove_from(number, version, collection)
            except BrokenCollectionError:
                self._replace(version)  # by one without them
        self._changed.difference_update(changed)

    def _remove_from(
        self, partition: int, version: CollectionVersion, collection: VectorCollection
    ) -> None:
        found = collection.units(partition)
        with self._store.reading_vectors() as reader:
            kept = set(reader.vector_units(version.key, partition=partition))
        gone = [unit for unit in found if unit not in kept]
        collection.remove(gone)
        self._removed[partition] += len(gone)

    def close(self) -> None:
        """Stop the worker after its batch, and let go of files; what is missing stays so."""
        self._worker.stop()
        self._backend.close()
        self._worker.start()
