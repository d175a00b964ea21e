"""Filling of the collection from the outbox, while other processes may fill or replace it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from langchain_tokenmem.recall.vectors.backend import VectorBackend, VectorCollection
from langchain_tokenmem.recall.vectors.collection import BrokenCollectionError
from langchain_tokenmem.recall.vectors.collection_manager import (
    CollectionManager,
    CollectionVersion,
)
from langchain_tokenmem.recall.vectors.indexer import VECTORS, VectorIndexer
from langchain_tokenmem.storage.search_index.store import IndexStore

logger = logging.getLogger(__name__)


class CollectionFiller:
    """Brings the collection of a store up to date.

    Args:
        store: The outbox, and the vectors that are known.
        backend: Where the collection is.
        collections: Names the one to fill, and makes new ones.
        batch: Messages that are indexed at once.
        is_stopping: Asked after each batch; where it says so the outbox keeps the rest.
    """

    def __init__(
        self,
        store: IndexStore,
        backend: VectorBackend,
        collections: CollectionManager,
        *,
        batch: int,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._store = store
        self._backend = backend
        self._collections = collections
        self._indexer = VectorIndexer(store, backend.embeddings, batch=batch)
        self._is_stopping = is_stopping
        self.is_compared = False

    def drain_outbox(self, *, progress: bool = False) -> int:
        """Index what the outbox holds; return how many texts were embedded.

        A collection that breaks is dropped and filled again; where another process has begun a new
        one, that is filled.

        Args:
            progress: Whether to show a progress bar.

        Raises:
            RecallError: When it cannot; the outbox keeps what is missing.
        """
        embedded = 0
        for is_last in (False, False, True):
            version, collection = self._collections.open()
            try:
                embedded += self._fill(version, collection, progress=progress)
            except BrokenCollectionError:
                if is_last:
                    raise
                if self._collections.is_current(version):
                    self._backend.drop(version.name)
                continue
            if self._is_stopping() or self._collections.is_current(version):
                break
        return embedded

    def _fill(
        self, version: CollectionVersion, collection: VectorCollection, *, progress: bool
    ) -> int:
        embedded = 0
        if self._store.pending(VECTORS, limit=1):
            with self._backend.writing(version.name):
                embedded = self._indexer.index_all(
                    version,
                    collection,
                    lambda: not self._is_stopping() and self._collections.is_current(version),
                    is_current=self._collections.check(version),
                    progress=progress,
                )
        if self._indexer.is_done():
            if self._lacks_vectors(version, collection):
                self._collections.start()
            else:
                self._collections.complete(version)
        return embedded

    def _lacks_vectors(self, version: CollectionVersion, collection: VectorCollection) -> bool:
        """Compare a collection with the store, once in the life of an index."""
        if self.is_compared or not self._backend.is_copy:
            self.is_compared = True
            return False
        counts = self._collections.counts(version, collection)
        # What another process has stored meanwhile stands in the outbox.
        if counts is None or not self._indexer.is_done():
            return False
        self.is_compared = True
        stored, found = counts
        if found != stored:
            logger.warning(
                "%s has %s vectors, the store has %s; it is made anew.",
                self._backend.where,
                found,
                stored,
            )
        return found != stored
