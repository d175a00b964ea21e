"""Filling of the collection, while other processes may fill or replace it.

Texts are embedded, vectors go into the store and into the collection, partition by partition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from tqdm import tqdm

from langchain_tokenmem.core.search_units import IndexSource, Unindexed, pack_unit
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.recall.backend import VectorBackend, VectorCollection
from langchain_tokenmem.recall.collection import BrokenCollectionError
from langchain_tokenmem.recall.collection_manager import (
    CollectionManager,
    CollectionVersion,
)
from langchain_tokenmem.recall.embeddings import embed_texts
from langchain_tokenmem.recall.text_parts import indexable_text, parts_of
from langchain_tokenmem.recall.vector_math import NEIGHBOURS, blended, to_bytes, to_matrix
from langchain_tokenmem.storage.search_index import VECTORS, SearchIndex, owner_number

logger = logging.getLogger(__name__)


class CollectionFiller:
    """Brings the collection of a store up to date.

    Args:
        store: The texts, the vectors that are known, and what is not indexed.
        backend: Where the collection is, and the model.
        collections: Names the one to fill, and makes new ones.
        batch: Messages that are indexed at once.
        is_stopping: Asked after each batch; where it says so the rest is indexed later.
    """

    def __init__(
        self,
        store: SearchIndex,
        backend: VectorBackend,
        collections: CollectionManager,
        *,
        batch: int,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._store = store
        self._backend = backend
        self._collections = collections
        self._batch = batch
        self._is_stopping = is_stopping
        self._failing: set[int] = set()
        self.is_compared = False

    def index_missing(self, *, progress: bool = False) -> int:
        """Index what is missing; return how many texts were embedded.

        A collection that breaks is dropped and filled again; where another process has begun a new
        one, that is filled.

        Args:
            progress: Whether to show a progress bar.

        Raises:
            RecallError: When it cannot; the next call tries again.
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
                embedded = self._index_all(version, collection, progress=progress)
        if self._is_done():
            if self._lacks_vectors(version, collection):
                self._collections.start()
            else:
                self._collections.complete(version)
        return embedded

    def _is_done(self) -> bool:
        """Return whether nothing is missing but what cannot be read."""
        return {one.partition for one in self._store.pending(VECTORS)} <= self._failing

    def _lacks_vectors(self, version: CollectionVersion, collection: VectorCollection) -> bool:
        """Compare a collection with the store, once in the life of an index."""
        if self.is_compared or not self._backend.is_copy:
            self.is_compared = True
            return False
        stored, found = self._collections.count_stored(version), collection.count()
        # While another process stores vectors the two cannot be compared.
        if stored != self._collections.count_stored(version) or not self._is_done():
            return False
        self.is_compared = True
        if found != stored:
            logger.warning(
                "%s has %s vectors, the store has %s; it is made anew.",
                self._backend.where,
                found,
                stored,
            )
        return found != stored

    def _index_all(
        self, version: CollectionVersion, collection: VectorCollection, *, progress: bool
    ) -> int:
        """Index one partition after the other; return how many texts were embedded."""
        # A session that fails must not keep the others waiting for ever.
        entries = sorted(
            self._store.pending(VECTORS), key=lambda entry: entry.partition in self._failing
        )
        indexed = embedded = 0
        with tqdm(entries, desc="Indexing", unit="session", disable=not progress) as bar:
            for entry in bar:
                self._failing.add(entry.partition)
                try:
                    for count, made in self._index_partition(entry, version, collection):
                        indexed, embedded = indexed + count, embedded + made
                        bar.set_postfix(messages=indexed)
                        if self._is_stopping() or not self._collections.is_current(version):
                            self._failing.discard(entry.partition)
                            return embedded
                except CorruptStoreError as error:
                    logger.warning("It is not found by meaning: %s", error)
                else:
                    self._failing.discard(entry.partition)
        return embedded

    def _index_partition(
        self, entry: Unindexed, version: CollectionVersion, collection: VectorCollection
    ) -> Iterator[tuple[int, int]]:
        """Index what a partition lacks, batch by batch; give how many messages and new vectors.

        A batch is acknowledged when store and Chroma have it and the next one is asked for. It
        begins early, so that messages whose successor has arrived get their new vector.
        """
        number, is_current = entry.partition, self._collections.check(version)
        start, is_more = entry.from_seq, True
        while is_more:
            session = self._store.session(number)
            if session is None:
                return
            # Twice: the messages that are written again need their own neighbours.
            found, last = self._store.sources_from(
                number, max(1, start - 2 * NEIGHBOURS), self._batch + 2 * NEIGHBOURS
            )
            fresh = [source.seq for source in found if source.seq >= start]
            done_to = fresh[-1] if fresh else max(last, start)
            embedded = 0
            if fresh:
                texts = {
                    pack_unit(number, source.seq, part): text
                    for source in found
                    for part, text in _texts_to_embed(source)
                }
                vectors, embedded = self._vectors(texts, version, (number, session.edits))
                units, matrix = to_matrix(vectors)
                is_due = units >= pack_unit(number, max(0, start - NEIGHBOURS))
                owner = owner_number(session.user_id, number)
                collection.put(units[is_due], blended(units, matrix)[is_due], owner, texts)
            yield len(fresh), embedded
            begun = start
            start = self._store.acknowledge_vectors(
                number, done_to, start=start, edits=session.edits, only_if=is_current
            )
            is_more = done_to < last or start <= begun

    def _vectors(
        self, texts: Mapping[int, str], version: CollectionVersion, as_read: tuple[int, int]
    ) -> tuple[dict[int, bytes], int]:
        """Return the vectors of messages; only what the store does not have is embedded.

        `as_read` is the session, and how often it was edited: vectors of words that were edited
        meanwhile are not stored.
        """
        with self._store.reading_vectors() as reader:
            known = reader.vectors(version.key, list(texts))
        missing = [unit for unit in texts if unit not in known]
        for start in range(0, len(missing), self._batch):
            units = missing[start : start + self._batch]
            made = embed_texts(
                self._backend.embeddings,
                [texts[unit] for unit in units],
                version.fingerprint.dimension,
            )
            new = {unit: to_bytes(vector) for unit, vector in zip(units, made, strict=True)}
            self._store.put_vectors(version.key, new, unless_edited=as_read)
            known |= new
        return known, len(missing)


def _texts_to_embed(source: IndexSource) -> list[tuple[int, str]]:
    """Return number and text of each part of a message; none for what is not to be found.

    No date, no speaker: a date in the embedded text costs 3 points on LoCoMo.
    """
    text = indexable_text(source)
    # Half a surrogate pair makes every tokenizer and every HTTP client raise.
    return [
        (number, part.encode("utf-8", "replace").decode("utf-8"))
        for number, part in enumerate(parts_of(text) if text else ())
    ]
