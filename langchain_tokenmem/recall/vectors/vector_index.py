"""`VectorIndex`: vectors of a store, filled behind the turn from the outbox, and searched."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tqdm import tqdm

from langchain_tokenmem.core.search_units import DOCUMENT_STEP, Change, OutboxEntry
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.recall.base.interfaces import SearchableIndex, SearchIndexReader
from langchain_tokenmem.recall.base.worker import Worker
from langchain_tokenmem.recall.vectors.chroma import ChromaIndex
from langchain_tokenmem.recall.vectors.collection import BrokenCollectionError, ChromaCollection
from langchain_tokenmem.recall.vectors.collection_manager import (
    CollectionManager,
    CollectionVersion,
)
from langchain_tokenmem.recall.vectors.embeddings import Vectors
from langchain_tokenmem.recall.vectors.indexer import BATCH, VectorIndexer
from langchain_tokenmem.recall.vectors.vector_search import EXACT_MOST, VectorSearch

logger = logging.getLogger(__name__)

_VECTORS = "vectors"


class VectorIndex(VectorSearch):
    """Vectors of a store: kept in the store itself, searched there or in Chroma.

    A failing model or Chroma never fails a turn: what is missing stays in the outbox and is taken
    in at the next occasion. Chroma is a cache: a collection that is missing, damaged, incomplete,
    or that was left by a process that died while writing, is dropped and filled again from the
    stored vectors, without being asked.

    Args:
        store: `TranscriptStore.index`.
        chroma: Where the vectors are searched, and the model that makes them.
        batch: Messages that are indexed at once.
        exact_most: Vectors in scope up to which the stored ones are compared one by one.
    """

    def __init__(
        self,
        store: SearchableIndex,
        chroma: ChromaIndex,
        *,
        batch: int = BATCH,
        exact_most: int = EXACT_MOST,
    ) -> None:
        super().__init__(chroma, CollectionManager(store, chroma), exact_most=exact_most)
        self._store = store
        self._indexer = VectorIndexer(store, chroma.embeddings, batch=batch)
        self._is_compared = False
        self._erased: set[int] = set()
        self._removed: Counter[int] = Counter()
        self._failing: set[str] = set()
        self._unreadable: set[str] = set()
        self._working = threading.RLock()
        self._worker = Worker(self._work, "tokenmem-index")

    def search(
        self, question: Vectors, reader: SearchIndexReader, k: int | None = None
    ) -> list[tuple[int, float]]:
        """Return the units nearest in meaning; a collection that fails is made anew behind it."""
        try:
            return super().search(question, reader, k)
        except BrokenCollectionError:
            self._is_compared = False
            self._worker.wake()
            raise

    # --- indexing

    def wake(self, change: Change) -> None:
        """Notice that the store has changed: never blocks, never raises."""
        if change.kind == "erased":
            self._erased.update(change.partitions)
        if change.kind != "added":
            self._is_compared = False
        self._worker.wake()

    def index(self) -> int:
        """Index what the outbox holds; return how many texts were embedded.

        Raises:
            RecallError: When it cannot; the outbox keeps what is missing.
        """
        with self._working:
            self._remove_erased()
            return self._drain_outbox()

    def _work(self) -> None:
        with self._working:
            self._remove_erased()
            if not self._is_compared or self._store.pending(_VECTORS, limit=1):
                self._drain_outbox()

    def _drain_outbox(self, *, progress: bool = False) -> int:
        target, collection = self._collections.target()
        embedded = self._fill(target, collection, progress=progress)
        if not self._is_done():
            return embedded
        if not self._is_compared:
            lacking = self._reconcile(target, collection)
            self._is_compared = True
            # What another process has embedded meanwhile stands in the outbox.
            if lacking and self._is_done():
                logger.warning(
                    "%s lacks %s vectors that the store has; it is made anew.",
                    self._chroma.where,
                    lacking,
                )
                self._collections.start(target.fingerprint)
                return embedded + self._drain_outbox(progress=progress)
        self._collections.finish(target)
        return embedded

    def _fill(
        self, target: CollectionVersion, collection: ChromaCollection, *, progress: bool
    ) -> int:
        entries = self._store.pending(_VECTORS)
        if not entries:
            return 0
        # A session that fails must not keep the others waiting for ever.
        entries.sort(key=lambda entry: entry.partition_key in self._failing)
        total = sum(map(self._message_count, entries)) if progress else None
        embedded = 0
        with (
            self._chroma.writing(target.collection),
            tqdm(desc="Indexing", unit="message", total=total, disable=not progress) as bar,
        ):
            for entry in entries:
                if not self._goes_on(target):
                    break
                embedded += self._fill_partition(entry, target, collection, bar)
        return embedded

    def _fill_partition(
        self,
        entry: OutboxEntry,
        target: CollectionVersion,
        collection: ChromaCollection,
        bar: Any,
    ) -> int:
        def on_batch(count: int) -> bool:
            bar.update(count)
            return self._goes_on(target)

        self._failing.add(entry.partition_key)
        embedded = 0
        try:
            embedded = self._indexer.index_partition(entry, target, collection, on_batch)
        except CorruptStoreError as error:
            self._unreadable.add(entry.partition_key)
            logger.warning("It is not found by meaning: %s", error)
        self._failing.discard(entry.partition_key)
        return embedded

    def _message_count(self, entry: OutboxEntry) -> int:
        try:
            _, last = self._store.sources_from(entry.partition_key, entry.from_seq, 1)
        except CorruptStoreError:
            return 0  # it is said when it is indexed
        count = max(0, last - entry.from_seq + 1)
        return count if entry.partition_key[0] in "=#" else -(-count // DOCUMENT_STEP)

    def _goes_on(self, target: CollectionVersion) -> bool:
        return self._collections.is_target(target) and not self._worker.is_stopping

    def _is_done(self) -> bool:
        return {one.partition_key for one in self._store.pending(_VECTORS)} <= self._unreadable

    def _reconcile(self, target: CollectionVersion, collection: ChromaCollection) -> int:
        """Remove what the store does not have; return how many vectors the collection lacks."""
        count = collection.count()
        with self._store.reading_vectors() as reader:
            if count == reader.count_vectors(target.key):
                return 0
            expected = set(reader.vector_units(target.key))
        found = set(collection.units())
        with self._chroma.writing(target.collection):
            collection.remove(sorted(found - expected))
        return len(expected - found)

    # --- rebuilding, forgetting, closing

    def rebuild(self, *, progress: bool = False) -> int:
        """Make the index anew from the transcript; return how many vectors it has.

        The old collection answers until the new one is complete. Vectors that the store has of
        this model are used, so that nothing is embedded twice; a rebuild that was broken off goes
        on where it was.

        Args:
            progress: Whether to show a progress bar.

        Raises:
            RecallError: When the model or Chroma fails; call it again and it goes on.
        """
        with self._working:
            building = self._collections.versions().building
            mine = self._collections.fingerprint()
            if building is None or not building.fingerprint.is_same_model(mine):
                self._collections.start()
            self._drain_outbox(progress=progress)
            active = self._collections.versions().active
            return 0 if active is None else self._chroma.open(active.collection).count()

    def forget(self, partitions: Sequence[int]) -> int:
        """Delete the entries of erased partitions; return how many there were.

        Raises:
            RecallError: When Chroma cannot be reached; they are deleted when it can.
        """
        self._erased.update(partitions)
        with self._working:
            self._remove_erased()
            # The worker may have been faster.
            return sum(self._removed.pop(number, 0) for number in set(partitions))

    def _remove_erased(self) -> None:
        erased = sorted(self._erased)
        if not erased:
            return
        known = self._collections.versions()
        for version in (known.active, known.building):
            # A broken one is made anew without them.
            with suppress(BrokenCollectionError):
                if version is not None:
                    self._remove_partitions(version, erased)
        self._erased.difference_update(erased)

    def _remove_partitions(self, version: CollectionVersion, numbers: Sequence[int]) -> None:
        collection = self._chroma.open(version.collection)
        with self._chroma.writing(version.collection):
            for number in numbers:
                units = collection.units(number)
                collection.remove(units)
                self._removed[number] += len(units)

    def close(self) -> None:
        """Stop the worker after its batch, and let go of files; what is missing stays so."""
        self._worker.stop()
        self._chroma.close()
        self._worker.start()
