"""The dense side of recall: an outbox that is drained behind the turn, and search by meaning."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import numpy as np
from tqdm import tqdm  # type: ignore[import-untyped]

from langchain_tokenmem.core.units import Change
from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.base import IndexReader, IndexStore
from langchain_tokenmem.recall.chroma import ChromaIndex
from langchain_tokenmem.recall.collection import (
    ChromaCollection,
    DamagedIndexError,
    MissingIndexError,
)
from langchain_tokenmem.recall.dense import BLEND, REACH, blended, nearest
from langchain_tokenmem.recall.embeddings import Fingerprint, Vectors, fingerprint_of, unit_rows
from langchain_tokenmem.recall.filling import BATCH, Filler, MessageTexts, Texts, asking, to_matrix
from langchain_tokenmem.recall.generations import Generation, Generations
from langchain_tokenmem.recall.worker import Worker

logger = logging.getLogger(__name__)

EXACT_MOST = 2_000
"""Vectors in reach up to which the stored ones are compared one by one, without Chroma."""


class VectorIndex:
    """Vectors of a store: kept in the store itself, searched there or in Chroma.

    A failing model or Chroma never fails a turn: what is owed stays in the outbox and is taken in
    at the next occasion. A collection that is missing, damaged, incomplete, or that was left by a
    process that died while writing, is made anew from the stored vectors, without being asked.

    Args:
        store: `TranscriptStore.index`.
        chroma: Where the vectors are searched, and the model that makes them.
        texts: Which texts of a message are embedded; default: `MessageTexts`.
        share: Weight of the neighbours in a message's vector.
        reach: How far neighbours stand at most, in messages.
        batch: Messages that are taken in at once.
        exact_most: Vectors in reach up to which the stored ones are compared one by one.
    """

    def __init__(
        self,
        store: IndexStore,
        chroma: ChromaIndex,
        *,
        texts: Texts | None = None,
        share: float = BLEND,
        reach: int = REACH,
        batch: int = BATCH,
        exact_most: int = EXACT_MOST,
    ) -> None:
        self._store = store
        self._chroma = chroma
        self._texts = texts or MessageTexts()
        self._share = share
        self._reach = reach
        self._exact_most = exact_most
        self._filler = Filler(
            store, chroma.embeddings, self._texts, share=share, reach=reach, batch=batch
        )
        self._generations = Generations(store, chroma)
        self._mine: Fingerprint | None = None
        self._answering: Generation | None = None
        self._is_checked = False
        self._gone: set[int] = set()
        self._sound: set[str] = set()
        self._broken: set[str] = set()
        self._verifying = threading.Lock()
        self._working = threading.RLock()
        self._worker = Worker(self._work, "tokenmem-index")

    # --- search

    def search(self, query: str, reader: IndexReader, k: int) -> list[tuple[int, float]]:
        """Return the units nearest in meaning and their cosine, best first, within reach.

        Few vectors are compared one by one as they stand in the store, exactly; for more Chroma is
        asked. What is found is a proposal: `Recall` looks at the transcript for what it may show.

        Args:
            query: What to look for, without names of speakers (`dense.without_names`).
            reader: A picture of the scope.
            k: Most units to return.

        Raises:
            RecallError: When the vectors are of another model, or the model or Chroma fails.
        """
        generation = self._current(reader)
        count = reader.count_vectors(generation.key)
        if not count or k < 1:
            return []
        question = self._embedded(query, generation)
        if count > self._exact_most:
            return self._ask(question, reader, k)
        units, vectors = to_matrix(reader.vectors(generation.key))
        if not len(units):
            return []
        mixed = blended(units, vectors, share=self._share, reach=self._reach)
        return nearest(units, mixed, question, k)

    def _current(self, reader: IndexReader) -> Generation:
        """Return the generation whose vectors this model may be compared with."""
        if self._answering is None:
            mine = self._fingerprint()
            known = self._generations.read(reader)
            for one in (known.building, known.active):
                if one is not None and one.fingerprint.is_same_space(mine):
                    self._answering = one
                    return one
            if known.active is not None:
                raise _mismatch(known.active.fingerprint, mine, self._chroma.where)
            return Generation("", mine)
        return self._answering

    def _fingerprint(self) -> Fingerprint:
        if self._mine is None:
            with asking(self._chroma.embeddings):
                self._mine = fingerprint_of(
                    self._chroma.embeddings, self._texts.version, self._chroma.model
                )
        return self._mine

    def _embedded(self, query: str, generation: Generation) -> Vectors:
        with asking(self._chroma.embeddings):
            found = np.asarray(self._chroma.embeddings.embed_query(query), np.float32)
        if found.shape != (generation.fingerprint.dimension,) or not np.isfinite(found).all():
            raise RecallError(
                f"{generation.fingerprint} answered a question with a vector of shape "
                f"{found.shape}, or with numbers that are none. Recall is lexical."
            )
        question: Vectors = unit_rows(found[None, :])[0]
        return question

    def _ask(self, question: Vectors, reader: IndexReader, k: int) -> list[tuple[int, float]]:
        active = self._generations.read(reader).active
        if active is None or not active.fingerprint.is_same_space(self._fingerprint()):
            raise RecallError(
                f"The collection in {self._chroma.where} is being made; recall is lexical until it "
                f"is complete."
            )
        try:
            return self._verified(active.collection).nearest(question, reader.reach, k)
        except (MissingIndexError, DamagedIndexError):
            self._broken.add(active.collection)
            self._is_checked = False
            self._worker.wake()
            raise

    # --- indexing

    def wake(self, change: Change) -> None:
        """Notice that the store has changed: never blocks, never raises."""
        if change.kind in {"cleared", "erased"}:
            self._gone.update(change.shelves)
        self._worker.wake()

    def index(self) -> int:
        """Take in what the outbox holds; return how many texts were embedded.

        Raises:
            RecallError: When it cannot; the outbox keeps what is owed.
        """
        with self._working:
            self._forget_gone()
            return self._drain(progress=False)

    def _work(self) -> None:
        with self._working:
            self._forget_gone()
            if not self._is_checked or self._store.pending("vectors", limit=1):
                self._drain(progress=False)

    def _drain(self, *, progress: bool) -> int:
        target, collection = self._target()
        embedded = self._take_in(target, collection, progress=progress)
        if self._is_settled():
            self._finish(target)
            if not self._is_checked and not self._is_complete(target, collection):
                target = self._begin(target.fingerprint)
                collection = self._verified(target.collection)
                embedded += self._take_in(target, collection, progress=progress)
                if self._is_settled():
                    self._finish(target)
            self._is_checked = self._is_settled()
        return embedded

    def _take_in(self, target: Generation, collection: ChromaCollection, *, progress: bool) -> int:
        owed = self._store.pending("vectors")
        if not owed:
            return 0
        embedded = 0
        self._chroma.begin_writing(target.collection)
        for shelf in tqdm(owed, desc="Indexing", unit="session", disable=not progress):
            if self._worker.is_stopping:
                break
            embedded += self._filler.take_in(
                shelf, target, collection, lambda: self._is_still(target)
            )
        # Asked to count, Chroma brings its graph up to date: only then nothing is under way.
        collection.count()
        self._chroma.end_writing(target.collection)
        return embedded

    def _is_still(self, target: Generation) -> bool:
        """Return whether work on a collection goes on: it does not when a new one was begun."""
        known = self._generations.read()
        names = {one.collection for one in (known.building or known.active,) if one is not None}
        return target.collection in names and not self._worker.is_stopping

    def _is_settled(self) -> bool:
        return not self._store.pending("vectors", limit=1)

    def _target(self) -> tuple[Generation, ChromaCollection]:
        """Return the collection that is to be filled, open; make one if there is none that works.

        Raises:
            RecallError: When the collection belongs to another model, or Chroma cannot be reached.
        """
        mine = self._fingerprint()
        known = self._generations.read()
        if known.building is not None:
            if known.building.fingerprint.is_same_space(mine):
                target = self._generations.owe(known.building)
            else:
                self._generations.abandon()
                return self._target()
        elif known.active is None:
            target = self._begin(mine)
        elif known.active.fingerprint.is_same_space(mine):
            target = known.active
        else:
            raise _mismatch(known.active.fingerprint, mine, self._chroma.where)
        self._answering = target
        return self._opened(target)

    def _opened(self, target: Generation) -> tuple[Generation, ChromaCollection]:
        """Return a collection that works; a new one where this one does not."""
        try:
            return target, self._verified(target.collection)
        except (MissingIndexError, DamagedIndexError) as error:
            logger.warning("%s", error)
        target = self._begin(target.fingerprint)
        return target, self._verified(target.collection)

    def _verified(self, name: str) -> ChromaCollection:
        """Open a collection; for the first time in this process look whether it may be opened.

        Raises:
            DamagedIndexError: When it must be made anew.
            MissingIndexError: When there is none of this name.
        """
        with self._verifying:
            if name in self._broken:
                raise DamagedIndexError(f"Collection {name} is made anew from the store.")
            if name in self._sound:
                return self._chroma.open(name)
            self._chroma.check(name)
            collection = self._chroma.open(name)
            collection.count()
            self._sound.add(name)
            return collection

    def _begin(self, fingerprint: Fingerprint) -> Generation:
        self._answering = self._generations.begin(fingerprint)
        return self._answering

    def _finish(self, target: Generation) -> None:
        if self._generations.read().building == target:
            self._generations.finish()

    def _is_complete(self, target: Generation, collection: ChromaCollection) -> bool:
        """Compare the collection with the stored vectors; delete what does not belong to it."""
        if collection.count() == self._store.count_vectors(target.key):
            return True
        found, after = set(collection.units()), -1
        expected: set[int] = set()
        while page := self._store.vector_units(target.key, after=after):
            expected.update(page)
            after = page[-1]
        collection.remove(sorted(found - expected))
        missing = len(expected - found)
        if missing:
            logger.warning(
                "%s lacks %s of %s vectors; the index is made anew from the store.",
                self._chroma.where,
                missing,
                len(expected),
            )
        return not missing

    # --- rebuilding, forgetting, closing

    def rebuild(self, *, progress: bool = False) -> int:
        """Make the index anew from the transcript; return how many vectors it has.

        The old collection answers until the new one is complete. Vectors that the store has of
        this model are used, so that nothing is embedded twice; one that was broken off goes on
        where it was.

        Args:
            progress: Whether to show a progress bar.

        Raises:
            RecallError: When the model or Chroma fails; call it again and it goes on.
        """
        with self._working:
            mine = self._fingerprint()
            known = self._generations.read()
            building = known.building
            if building is None or not building.fingerprint.is_same_space(mine):
                same = known.active is not None and known.active.fingerprint.is_same_space(mine)
                self._begin(known.active.fingerprint if known.active and same else mine)
            self._drain(progress=progress)
            active = self._generations.read().active
            return 0 if active is None else self._verified(active.collection).count()

    def forget(self, shelves: Sequence[int]) -> int:
        """Delete the entries of shelves; return how many there were.

        Raises:
            RecallError: When Chroma cannot be reached; they are deleted when it can.
        """
        self._gone.update(shelves)
        with self._working:
            return self._forget_gone()

    def _forget_gone(self) -> int:
        gone = sorted(self._gone)
        if not gone:
            return 0
        known, count = self._generations.read(), 0
        for generation in (known.active, known.building):
            if generation is None:
                continue
            try:
                collection = self._verified(generation.collection)
                for shelf in gone:
                    units = collection.units(shelf)
                    collection.remove(units)
                    count += len(units)
            except (MissingIndexError, DamagedIndexError):
                self._is_checked = False  # what is made anew does not have them
        self._gone.difference_update(gone)
        return count

    def close(self) -> None:
        """Stop the worker after its batch, and let go of files; what is owed stays owed."""
        self._worker.stop()
        self._chroma.close()
        self._worker.start()


def _mismatch(stored: Fingerprint, given: Fingerprint, where: str) -> RecallError:
    return RecallError(
        f"The vectors in {where} were made by {stored}, the model that was given is {given}: they "
        f"cannot be compared. Recall is lexical. Pass the first model again, or call "
        f"recall.rebuild() to embed the transcript with the new one."
    )
