"""`VectorIndex`: search by meaning in the vectors of a store, filled in the background.

Vectors are compared as the model made them. Blending them with those of neighbouring messages gave
0.6 points more of the evidence within 1,024 tokens on LoCoMo, and 2.2 and 1.4 fewer on REALTALK and
BEAM (all-MiniLM-L6-v2, `benchmarks/recall_talks.py`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_tokenmem.background import TimedCalls, seconds_left
from langchain_tokenmem.core.argument_checks import checked_choice
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.recall.chroma import ChromaIndex
from langchain_tokenmem.recall.embeddings import (
    AnyEmbeddings,
    Vectors,
    as_embeddings,
    embed_texts,
    name_of,
    to_matrix,
)
from langchain_tokenmem.recall.filling import Filler, VectorCollection
from langchain_tokenmem.recall.place import BrokenCollectionError, Place, Question
from langchain_tokenmem.recall.vector_store import VectorStoreIndex
from langchain_tokenmem.recall.words import Scores, best_units
from langchain_tokenmem.recall.worker import Worker
from langchain_tokenmem.storage.index_reader import IndexReader
from langchain_tokenmem.storage.search_index import SearchIndex

BATCH = 64
"""Messages per batch: Chroma takes 14 ms for one vector and 50 to 170 for fifty."""

EXACT_MOST = 1_000
"""Vectors in scope up to which the stored ones are compared one by one, without Chroma.

A thousand of 384 numbers take 15 ms of one core, mostly for reading them, and grow with their
number; Chroma takes 9 to 13 ms among 4,000 vectors, and longer if little of a large collection
is in scope. So short histories are searched exactly, even without a working Chroma, and long
ones cost the same each turn. `benchmarks/recall_exact.py` prints both.
"""

DEPTH = 200
"""Candidates to request, whatever `k` is: normalising needs more than a few scores."""

_LOOKED_THROUGH = 256
"""Vectors in scope up to which `has_any` checks whether any of their messages may be found."""

QUESTION_SECONDS = 10.0
"""Timeout for embedding a question; half of a turn's time is left for the search by words."""

_LOOKED_UP = 64
"""Best units by words whose vectors are looked up if they are not among the nearest."""

_LOOKED_UP_SHARE = 10
"""Vectors are looked up one by one if they are at most one in so many: reading all is faster."""

_PAGE = 2_000
"""Vectors per read, so that memory stays bounded: 12 MB at 1,536 dimensions."""

ModelChange = Literal["refuse", "rebuild"]

Allowed = Callable[[Sequence[int]], Sequence[int]]
"""Returns those of some units that a search may find."""


def vector_index(
    store: SearchIndex,
    place: ChromaIndex | VectorStoreIndex | None,
    embeddings: AnyEmbeddings | None,
    on_model_change: ModelChange,
) -> VectorIndex | None:
    """Return the index for the arguments of `Recall`, or None if it searches by words only.

    Raises:
        ConfigurationError: When `place` is of another type, or given together with `embeddings`.
    """
    checked_choice(on_model_change, ModelChange, "on_model_change")
    if place is not None and not isinstance(place, ChromaIndex | VectorStoreIndex):
        raise ConfigurationError(
            f"{type(place).__name__} is not a recall index; pass a ChromaIndex, a VectorStoreIndex "
            f"around a LangChain vector store, or embeddings= for exact search in the store itself."
        )
    if place is not None and embeddings is not None:
        raise ConfigurationError(
            "Recall was given an index and embeddings=; an index has its own model: pass it there."
        )
    if isinstance(place, VectorStoreIndex):
        place.attach(store)
    if place is not None:
        model = place.embeddings
    elif embeddings is not None:
        model = as_embeddings(embeddings)
    else:
        return None
    return VectorIndex(store, model, place, rebuilds=on_model_change == "rebuild")


class VectorIndex:
    """Vectors of a store, kept in its vector table and looked up there or in a `Place`.

    A failing model or place never fails a turn: what is missing is indexed later. A place is a
    cache: a collection that is missing, damaged, incomplete, or was left by a process that died
    while writing, is deleted and filled again from the vector table.

    Args:
        store: `TranscriptStore.index`.
        embeddings: The model.
        place: Where candidates are looked up in large scopes. Without one, the time of a search
            grows with its scope: 0.2 to 0.5 s of one core for 10,000 vectors of 384 numbers.
        rebuilds: Whether to embed everything again when the model has changed.
        batch: Messages per batch.
        exact_most: Vectors in scope up to which the search is exact, without the place.
    """

    def __init__(
        self,
        store: SearchIndex,
        embeddings: Embeddings,
        place: Place | None = None,
        *,
        rebuilds: bool = False,
        batch: int = BATCH,
        exact_most: int = EXACT_MOST,
    ) -> None:
        self._embeddings = embeddings
        self._place = place
        self._exact_most = exact_most
        self._questions = TimedCalls("tokenmem-question")
        self._changed: set[int] = set()
        self._removed: Counter[int] = Counter()
        self._working = threading.RLock()
        self._worker = worker = Worker(self._work, "tokenmem-index")
        self._filler = Filler(
            store,
            embeddings,
            place,
            rebuilds=rebuilds,
            batch=batch,
            is_stopping=lambda: worker.is_stopping,
        )

    def __repr__(self) -> str:
        model = type(self._embeddings).__name__
        return f"<vectors of {model}>" if self._place is None else repr(self._place)

    # --- searching

    def has_any(
        self, reader: IndexReader, among: Collection[str] | None, exclude: Collection[str]
    ) -> bool:
        """Return whether anything could be found by meaning, so that the model is worth calling.

        Always true in scopes with many vectors.
        """
        collection = self._filler.collection(reader)
        if collection is None:
            return False
        units = reader.vector_units(collection.key, limit=_LOOKED_THROUGH)
        is_whole = len(units) < _LOOKED_THROUGH
        return not is_whole or bool(reader.filter_units(units, among, exclude))

    def question(self, query: str) -> Question:
        """Embed a question; never call this while a transaction is open.

        Args:
            query: What to look for, without names of speakers.

        Raises:
            RecallError: When the model fails or times out, or when another model made the vectors.
        """

        def embed() -> Question:
            mine = self._filler.fingerprint()
            self._filler.comparable()
            found = embed_texts(self._embeddings, [query], mine.dimension, are_queries=True)
            return Question(query, found[0])

        try:
            return self._questions.run(embed, min(QUESTION_SECONDS, seconds_left() / 2))
        except TimeoutError as error:
            raise RecallError(
                f"The embedding model {name_of(self._embeddings)} did not answer: {error}. "
                f"Recall is lexical until it does."
            ) from error

    def search(
        self,
        question: Question,
        reader: IndexReader,
        k: int | None = None,
        allowed: Allowed | None = None,
    ) -> list[tuple[int, float]]:
        """Return the units in scope that are nearest in meaning with their cosines, best first.

        In small scopes all vectors are compared, and in any scope all that are allowed; else the
        place proposes candidates, and their vectors are compared.

        Args:
            question: What `question` returned.
            reader: A consistent view of the scope.
            k: Maximum number of units; default: all in small scopes, else `DEPTH`.
            allowed: Returns those of some units that may be found; default: all of them.

        Raises:
            RecallError: When another model made the vectors, or the place fails.
        """
        collection = self._filler.comparable(reader)
        if collection is None or (k is not None and k < 1):
            return []
        key = collection.key
        if allowed is not None:
            pages = _allowed_pages(reader, key, allowed)
            return nearest(pages, question.vector, k or DEPTH)
        is_small = reader.count_vectors(key, self._exact_most + 1) <= self._exact_most
        if self._place is None or is_small:
            limit = k or (self._exact_most if is_small else DEPTH)
            return nearest(reader.vector_pages(key, _PAGE), question.vector, limit)
        return self._nearest_proposed(self._place, collection, question, reader, k or DEPTH)

    def _nearest_proposed(
        self,
        place: Place,
        collection: VectorCollection,
        question: Question,
        reader: IndexReader,
        k: int,
    ) -> list[tuple[int, float]]:
        if not self._filler.can_propose(collection):
            raise RecallError(
                f"The collection in {place.where} is being built; recall is lexical until it "
                f"is complete."
            )
        try:
            proposed = set(place.propose(collection.name, question, reader.partitions, k))
        except BrokenCollectionError:
            self._filler.doubt(collection)
            self._worker.wake()
            raise
        vectors = reader.vectors(collection.key, sorted(proposed))
        return nearest([vectors], question.vector, len(vectors))

    def scores(
        self,
        question: Question,
        reader: IndexReader,
        words: Scores,
        allowed: Allowed | None = None,
    ) -> tuple[list[tuple[int, float]], set[int]]:
        """Return what `search` finds, and the units that match by words but have no vector yet.

        Raises:
            RecallError: When another model made the vectors, or the place fails.
        """
        found = self.search(question, reader, allowed=allowed)
        collection, near = self._filler.collection(reader), {unit for unit, _ in found}
        unknown = [unit for unit in best_units(words, _LOOKED_UP) if unit not in near]
        if collection is None or not (found and unknown):
            return found, set()
        return found, set(unknown) - set(reader.vectors(collection.key, unknown))

    # --- indexing

    def wake(self, change: Change) -> None:
        """Index a change of the store in the background; never blocks or raises."""
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
        """Rebuild the index from the transcript; return how many vectors it has.

        Stored vectors of this model are reused, so that nothing is embedded twice; an interrupted
        rebuild is resumed.

        Args:
            progress: Whether to show a progress bar.

        Raises:
            RecallError: When the model or the place fails; the next call resumes.
        """
        with self._working:
            return self._filler.rebuild(progress=progress)

    def _work(self) -> None:
        with self._working:
            self._remove_deleted()
            if self._filler.has_work():
                self._filler.index_missing()

    # --- deleting, closing

    def forget(self, partitions: Sequence[int]) -> int:
        """Delete the entries of erased partitions from the place; return how many there were.

        Raises:
            RecallError: When the place cannot be reached; they are deleted as soon as it can be.
        """
        self._changed.update(partitions)
        with self._working:
            self._remove_deleted()
            self._worker.wake()  # if the whole collection had to be deleted
            # The worker may have been first.
            return sum(self._removed.pop(number, 0) for number in set(partitions))

    def scrub(self, holds: Callable[[str], bool]) -> int:
        """Delete the place's collections whose files contain words; return how many there were."""
        with self._working:
            found = 0 if self._place is None else self._place.scrub(holds)
            if found:
                self._worker.wake()
        return found

    def _remove_deleted(self) -> None:
        """Delete the entries of changed partitions that the store no longer has."""
        changed = sorted(self._changed)
        if changed:
            self._removed += self._filler.delete_gone(changed)
        self._changed.difference_update(changed)

    def close(self) -> None:
        """Stop the worker after its batch, and close the place; the rest is indexed later."""
        self._worker.stop()
        if self._place is not None:
            self._place.close()
        self._worker.start()


def _allowed_pages(
    reader: IndexReader, key: str, allowed: Allowed
) -> Iterator[Mapping[int, bytes]]:
    """Yield the vectors that a search may find: few are looked up, many read with the others."""
    units = reader.vector_units(key)
    parts = [units[at : at + _PAGE] for at in range(0, len(units), _PAGE)]
    kept = [unit for part in parts for unit in allowed(part)]
    if len(kept) <= len(units) // _LOOKED_UP_SHARE:
        for at in range(0, len(kept), _PAGE):
            yield reader.vectors(key, kept[at : at + _PAGE])
        return
    wanted = frozenset(kept)
    for page in reader.vector_pages(key, _PAGE):
        yield {unit: vector for unit, vector in page.items() if unit in wanted}


def nearest(
    pages: Iterable[Mapping[int, bytes]], question: Vectors, limit: int
) -> list[tuple[int, float]]:
    """Return the units nearest to a question with their cosines, the best first.

    The search is exact. Units with equal cosines are sorted by number, so that the same question
    always has the same answer.

    Args:
        pages: Stored vectors, each of length 1, by unit.
        question: One vector of length 1.
        limit: Maximum number of units.
    """
    found: list[tuple[int, float]] = []
    for page in filter(None, pages):
        units, vectors = to_matrix(page)
        # BLAS kernels may set the invalid flag for lanes beyond the end of a vector.
        with np.errstate(invalid="ignore"):
            scores = vectors @ question
        best = np.lexsort((units, -scores))[:limit]
        found += zip(units[best].tolist(), scores[best].tolist(), strict=True)
        found = sorted(found, key=lambda each: (-each[1], each[0]))[:limit]
    return found
