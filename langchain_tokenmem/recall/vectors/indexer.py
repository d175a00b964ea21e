"""Indexing of partitions: texts are embedded, vectors go into the store and into the collection."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from langchain_core.embeddings import Embeddings
from tqdm import tqdm

from langchain_tokenmem.core.search_units import IndexSource, OutboxEntry, pack_unit
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.recall.base.text_parts import indexable_text, parts_of
from langchain_tokenmem.recall.vectors.backend import VectorCollection
from langchain_tokenmem.recall.vectors.collection_manager import CollectionVersion
from langchain_tokenmem.recall.vectors.embeddings import embed_texts
from langchain_tokenmem.recall.vectors.vector_math import NEIGHBOURS, blended, to_bytes, to_matrix
from langchain_tokenmem.storage.search_index.index_sources import Edits
from langchain_tokenmem.storage.search_index.index_vectors import PropertyCheck
from langchain_tokenmem.storage.search_index.store import IndexStore

logger = logging.getLogger(__name__)

VECTORS = "vectors"
"""Name of the index in the outbox."""


def texts_to_embed(source: IndexSource) -> Sequence[tuple[int, str]]:
    """Return number and text of each part of a message; none for what is not to be found.

    No date, no speaker: a date in the embedded text costs 3 points on LoCoMo.
    """
    text = indexable_text(source)
    # Half a surrogate pair makes every tokenizer and every HTTP client raise.
    return [
        (part.number, part.text.encode("utf-8", "replace").decode("utf-8"))
        for part in (parts_of(text) if text else ())
    ]


def texts_by_unit(partition: int, found: Sequence[IndexSource]) -> dict[int, str]:
    """Return the texts that are embedded of some messages, by unit."""
    return {
        pack_unit(partition, source.seq, part): text
        for source in found
        for part, text in texts_to_embed(source)
    }


class VectorIndexer:
    """Indexes what the outbox holds, one partition after the other.

    Args:
        store: The outbox, the texts, and the vectors that are known.
        embeddings: The model.
        batch: Messages that are indexed at once.
    """

    def __init__(self, store: IndexStore, embeddings: Embeddings, *, batch: int) -> None:
        self._store = store
        self._embeddings = embeddings
        self._batch = batch
        self._failing: set[str] = set()

    def is_done(self) -> bool:
        """Return whether the outbox holds nothing but what cannot be read."""
        return {one.partition_key for one in self._store.pending(VECTORS)} <= self._failing

    def index_all(
        self,
        version: CollectionVersion,
        collection: VectorCollection,
        goes_on: Callable[[], bool],
        *,
        is_current: PropertyCheck,
        progress: bool,
    ) -> int:
        """Index what the outbox holds; return how many texts were embedded.

        Args:
            version: The version that is filled.
            collection: Its collection.
            goes_on: Asked after each batch, before it is acknowledged.
            is_current: Whether the collection is still the one to fill; checked with each
                acknowledgement.
            progress: Whether to show a progress bar.
        """
        # A session that fails must not keep the others waiting for ever.
        entries = sorted(
            self._store.pending(VECTORS), key=lambda entry: entry.partition_key in self._failing
        )
        indexed = embedded = 0
        with tqdm(entries, desc="Indexing", unit="session", disable=not progress) as bar:
            for entry in bar:
                self._failing.add(entry.partition_key)
                try:
                    for count, made in self._index_partition(
                        entry, version, collection, is_current
                    ):
                        indexed, embedded = indexed + count, embedded + made
                        bar.set_postfix(messages=indexed)
                        if not goes_on():
                            self._failing.discard(entry.partition_key)
                            return embedded
                except CorruptStoreError as error:
                    logger.warning("It is not found by meaning: %s", error)
                else:
                    self._failing.discard(entry.partition_key)
        return embedded

    def _index_partition(
        self,
        entry: OutboxEntry,
        version: CollectionVersion,
        collection: VectorCollection,
        is_current: PropertyCheck,
    ) -> Iterator[tuple[int, int]]:
        """Index what a partition lacks, batch by batch; give how many messages and new vectors.

        A batch is acknowledged when store and Chroma have it and the next one is asked for. It
        begins early, so that messages whose successor has arrived get their new vector.
        """
        partition = self._store.partition(entry.partition_key)
        start, is_more = entry.from_seq, True
        while is_more:
            edits = self._store.edits(entry.partition_key)
            # Twice: the messages that are written again need their own neighbours.
            found, last = self._store.sources_from(
                entry.partition_key, max(1, start - 2 * NEIGHBOURS), self._batch + 2 * NEIGHBOURS
            )
            fresh = [source.seq for source in found if source.seq >= start]
            done_to = fresh[-1] if fresh else max(last, start)
            embedded = 0
            if fresh and partition is not None:
                as_read = (entry.partition_key, edits)
                texts = texts_by_unit(partition.number, found)
                vectors, embedded = self._vectors(texts, version, as_read)
                units, matrix = to_matrix(vectors)
                is_due = units >= pack_unit(partition.number, max(0, start - NEIGHBOURS))
                collection.put(
                    units[is_due], blended(units, matrix)[is_due], partition.owner, texts
                )
            yield len(fresh), embedded
            begun, start = (
                start,
                self._store.acknowledge_vectors(
                    entry.partition_key, done_to, start=start, edits=edits, only_if=is_current
                ),
            )
            is_more = done_to < last or start <= begun

    def _vectors(
        self,
        texts: Mapping[int, str],
        version: CollectionVersion,
        as_read: tuple[str, Edits],
    ) -> tuple[dict[int, bytes], int]:
        """Return the vectors of messages; only what the store does not have is embedded.

        `as_read` is the partition with its edits: vectors of words that were edited meanwhile are
        not stored.
        """
        with self._store.reading_vectors() as reader:
            known = reader.vectors(version.key, list(texts))
        missing = [unit for unit in texts if unit not in known]
        for start in range(0, len(missing), self._batch):
            units = missing[start : start + self._batch]
            made = embed_texts(
                self._embeddings, [texts[unit] for unit in units], version.fingerprint.dimension
            )
            new = {unit: to_bytes(vector) for unit, vector in zip(units, made, strict=True)}
            self._store.put_vectors(version.key, new, unless_edited=as_read)
            known |= new
        return known, len(missing)
