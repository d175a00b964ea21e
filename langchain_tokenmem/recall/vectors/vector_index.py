"""The dense side of recall: an outbox that is drained behind the turn, and search by meaning."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.errors import CorruptStoreError, RecallError
from langchain_tokenmem.recall.interfaces import IndexStore, Pending
from langchain_tokenmem.recall.vectors.chroma import ChromaIndex
from langchain_tokenmem.recall.vectors.collection import (
    ChromaCollection,
    DamagedIndexError,
    MissingIndexError,
)
from langchain_tokenmem.recall.vectors.collection_manager import Keeper
from langchain_tokenmem.recall.vectors.collection_versions import Generation
from langchain_tokenmem.recall.vectors.filling import BATCH, Filler, MessageTexts, Texts
from langchain_tokenmem.recall.vectors.progress import progress_bar
from langchain_tokenmem.recall.vectors.vector_math import BLEND, REACH
from langchain_tokenmem.recall.vectors.vector_search import EXACT_MOST, VectorSearch
from langchain_tokenmem.recall.worker import Worker

logger = logging.getLogger(__name__)

_SINK = "vectors"


class VectorIndex(VectorSearch):
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
        texts = texts or MessageTexts()
        keeper = Keeper(store, chroma, texts.version)
        super().__init__(chroma, keeper, share=share, reach=reach, exact_most=exact_most)
        self._store = store
        self._filler = Filler(
            store, chroma.embeddings, texts, share=share, reach=reach, batch=batch
        )
        self._is_compared = False
        self._gone: set[int] = set()
        self._forgotten: Counter[int] = Counter()
        self._failing: set[str] = set()
        self._unreadable: set[str] = set()
        self._working = threading.RLock()
        self._worker = Worker(self._work, "tokenmem-index")

    def _heal(self) -> None:
        self._is_compared = False
        self._worker.wake()

    # --- indexing

    def wake(self, change: Change) -> None:
        """Notice that the store has changed: never blocks, never raises."""
        if change.kind == "erased":
            self._gone.update(change.shelves)
        if change.kind != "added":
            self._is_compared = False
        self._worker.wake()

    def index(self) -> int:
        """Take in what the outbox holds; return how many texts were embedded.

        Raises:
            RecallError: When it cannot; the outbox keeps what is owed.
        """
        with self._working:
            self._forget_gone()
            return self._drain()

    def _work(self) -> None:
        with self._working:
            self._forget_gone()
            if not self._is_compared or self._store.pending(_SINK, limit=1):
                self._drain()

    def _drain(self, *, progress: bool = False) -> int:
        target, collection = self._keeper.target()
        embedded = self._take_in(target, collection, progress=progress)
        if not self._is_settled():
            return embedded
        self._finish(target)
        if not self._is_compared:
            lacking = self._keeper.lacks(target, collection)
            # What another process has embedded meanwhile stands in the outbox.
            if lacking and self._is_settled():
                logger.warning(
                    "%s lacks %s vectors that the store has; it is made anew.",
                    self._chroma.where,
                    lacking,
                )
                self._keeper.begin_anew()
                target, collection = self._keeper.target()
                embedded += self._take_in(target, collection, progress=progress)
                if self._is_settled():
                    self._finish(target)
            self._is_compared = self._is_settled()
        return embedded

    def _take_in(self, target: Generation, collection: ChromaCollection, *, progress: bool) -> int:
        # A session that fails must not keep the others waiting for ever.
        owed = sorted(
            self._store.pending(_SINK), key=lambda shelf: shelf.shelf_key in self._failing
        )
        if not owed:
            return 0
        embedded = 0
        self._chroma.begin_writing(target.collection)
        try:
            with progress_bar(self._store, owed, is_shown=progress) as bar:
                for shelf in owed:
                    embedded += self._take_in_shelf(shelf, target, collection, bar.update)
        finally:
            with suppress(RecallError):
                # Asked to count, Chroma brings its graph up to date: nothing is under way then.
                collection.count()
                self._chroma.end_writing(target.collection)
        return embedded

    def _take_in_shelf(
        self,
        shelf: Pending,
        target: Generation,
        collection: ChromaCollection,
        advance: Callable[[int], object],
    ) -> int:
        if self._worker.is_stopping:
            return 0
        self._failing.add(shelf.shelf_key)
        embedded = 0
        try:
            embedded = self._filler.take_in(shelf, target, collection, self._goes_on, advance)
        except CorruptStoreError as error:
            self._unreadable.add(shelf.shelf_key)
            logger.warning("It is not found by meaning: %s", error)
        self._failing.discard(shelf.shelf_key)
        return embedded

    def _goes_on(self, target: Generation) -> bool:
        return self._keeper.is_still(target) and not self._worker.is_stopping

    def _is_settled(self) -> bool:
        return {one.shelf_key for one in self._store.pending(_SINK)} <= self._unreadable

    def _finish(self, target: Generation) -> None:
        if self._keeper.generations.read().building == target:
            self._keeper.generations.finish()

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
            self._keeper.begin_anew()
            self._drain(progress=progress)
            active = self._keeper.generations.read().active
            return 0 if active is None else self._keeper.verified(active.collection).count()

    def forget(self, shelves: Sequence[int]) -> int:
        """Delete the entries of shelves; return how many there were.

        Raises:
            RecallError: When Chroma cannot be reached; they are deleted when it can.
        """
        self._gone.update(shelves)
        with self._working:
            self._forget_gone()
            # The worker may have been faster.
            return sum(self._forgotten.pop(shelf, 0) for shelf in set(shelves))

    def _forget_gone(self) -> None:
        gone = sorted(self._gone)
        if not gone:
            return
        known = self._keeper.generations.read()
        for generation in (known.active, known.building):
            if generation is None:
                continue
            try:
                collection = self._keeper.verified(generation.collection)
                for shelf in gone:
                    units = collection.units(shelf)
                    collection.remove(units)
                    self._forgotten[shelf] += len(units)
            except (MissingIndexError, DamagedIndexError):
                self._is_compared = False  # what is made anew does not have them
        self._gone.difference_update(gone)

    def close(self) -> None:
        """Stop the worker after its batch, and let go of files; what is owed stays owed."""
        self._worker.stop()
        self._chroma.close()
        self._worker.start()
