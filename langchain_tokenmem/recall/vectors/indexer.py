"""Outbox worker of the vectors: texts are embedded, vectors go into the store and into Chroma."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from langchain_core.embeddings import Embeddings

from langchain_tokenmem.core.search_units import IndexSource, OutboxEntry, pack_unit
from langchain_tokenmem.recall.base.interfaces import IndexPartition, SearchIndex
from langchain_tokenmem.recall.base.text_parts import indexable_text, parts_of
from langchain_tokenmem.recall.vectors.collection import ChromaCollection
from langchain_tokenmem.recall.vectors.collection_manager import CollectionVersion
from langchain_tokenmem.recall.vectors.embeddings import embed_texts
from langchain_tokenmem.recall.vectors.vector_math import (
    NEIGHBOURS,
    blended,
    to_bytes,
    to_matrix,
)

BATCH = 64
"""Messages that are indexed at once: Chroma takes 14 ms for one vector and 50 to 170 for fifty."""


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


class VectorIndexer:
    """Takes in one partition after the other.

    Args:
        store: The outbox, the texts, and the vectors that are known.
        embeddings: The model.
        batch: Messages that are indexed at once.
    """

    def __init__(self, store: SearchIndex, embeddings: Embeddings, *, batch: int) -> None:
        self._store = store
        self._embeddings = embeddings
        self._batch = batch

    def index_partition(
        self,
        entry: OutboxEntry,
        target: CollectionVersion,
        collection: ChromaCollection,
        on_batch: Callable[[int], bool],
    ) -> int:
        """Index what a partition lacks; return how many texts were embedded.

        Each batch is acknowledged when store and Chroma have it. A batch begins early, so that
        messages whose successor has arrived get their new vector.

        Args:
            entry: Of the outbox.
            target: The version that is filled.
            collection: Its collection, where the blended vectors go.
            on_batch: Given the number of messages after each batch, before it is acknowledged;
                returns whether to go on.
        """
        partition = self._store.partition(entry.partition_key)
        embedded, start = 0, entry.from_seq
        while True:
            # Twice: the messages that are written again need their own neighbours.
            first = max(1, start - 2 * NEIGHBOURS)
            found, last = self._store.sources_from(
                entry.partition_key, first, self._batch + 2 * NEIGHBOURS
            )
            fresh = [source.seq for source in found if source.seq >= start]
            done_to = fresh[-1] if fresh else max(last, start)
            if fresh and partition is not None:
                vectors, made = self._vectors(partition, found, target)
                self._put(vectors, start - NEIGHBOURS, collection, partition)
                embedded += made
            if not on_batch(len(fresh)):
                return embedded
            self._store.acknowledge_vectors(entry.partition_key, done_to)
            if done_to >= last:
                return embedded
            start = done_to + 1

    def _vectors(
        self, partition: IndexPartition, found: Sequence[IndexSource], target: CollectionVersion
    ) -> tuple[dict[int, bytes], int]:
        """Return the vectors of messages; only what the store does not have is embedded."""
        texts = {
            pack_unit(partition.number, source.seq, part): text
            for source in found
            for part, text in texts_to_embed(source)
        }
        with self._store.reading_vectors() as reader:
            known = reader.vectors(target.key, list(texts))
        missing = [unit for unit in texts if unit not in known]
        for start in range(0, len(missing), self._batch):
            units = missing[start : start + self._batch]
            made = embed_texts(
                self._embeddings, [texts[unit] for unit in units], target.fingerprint.dimension
            )
            new = {unit: to_bytes(vector) for unit, vector in zip(units, made, strict=True)}
            self._store.put_vectors(target.key, new)
            known |= new
        return known, len(missing)

    def _put(
        self,
        vectors: Mapping[int, bytes],
        from_seq: int,
        collection: ChromaCollection,
        partition: IndexPartition,
    ) -> None:
        units, matrix = to_matrix(vectors)
        is_due = units >= pack_unit(partition.number, max(0, from_seq))
        if is_due.any():
            collection.put(units[is_due], blended(units, matrix)[is_due], partition.owner)
