"""Taking in what the outbox owes: texts become vectors, vectors go into store and Chroma."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_tokenmem.core.search_units import unit_number, unit_place
from langchain_tokenmem.errors import RecallError, TokenMemoryError
from langchain_tokenmem.recall.chunks import indexable_text, parts_of
from langchain_tokenmem.recall.interfaces import IndexStore, Pending, Source
from langchain_tokenmem.recall.vectors.collection import ChromaCollection
from langchain_tokenmem.recall.vectors.collection_versions import Generation
from langchain_tokenmem.recall.vectors.embeddings import Vectors, embed_texts, name_of
from langchain_tokenmem.recall.vectors.vector_math import Numbers, blended

BATCH = 64
"""Messages that are taken in at once: Chroma takes 14 ms for one vector and 50 to 170 for fifty."""


class Texts(Protocol):
    """Says which texts of a message are embedded."""

    @property
    def version(self) -> str:
        """Another version means other vectors."""
        ...

    def parts(self, source: Source) -> Sequence[tuple[int, str]]:
        """Return number and text of each part; none for what is not to be found."""
        ...


class MessageTexts:
    """What messages say, in the parts that the lexical index knows; no date, no speaker.

    A date in the embedded text costs 3 points on LoCoMo (FACTS.md).
    """

    version = "1"

    def parts(self, source: Source) -> Sequence[tuple[int, str]]:
        """Return number and text of each part; none for what is not to be found."""
        text = indexable_text(source)
        return [(part.number, _clean(part.text)) for part in parts_of(text)] if text else []


def _clean(text: str) -> str:
    # Half a surrogate pair makes every tokenizer and every HTTP client raise.
    return text.encode("utf-8", "replace").decode("utf-8")


class Filler:
    """Takes in one shelf after the other.

    Args:
        store: What is owed, and where vectors are kept.
        embeddings: The model.
        texts: Which texts of a message it is given.
        share: Weight of the neighbours in a vector.
        reach: How far neighbours stand at most, in messages.
        batch: Messages that are taken in at once.
    """

    def __init__(
        self,
        store: IndexStore,
        embeddings: Embeddings,
        texts: Texts,
        *,
        share: float,
        reach: int,
        batch: int,
    ) -> None:
        self._store = store
        self._embeddings = embeddings
        self._texts = texts
        self._share = share
        self._reach = reach
        self._batch = batch

    def take_in(
        self,
        owed: Pending,
        target: Generation,
        collection: ChromaCollection,
        goes_on: Callable[[Generation], bool],
        advance: Callable[[int], object],
    ) -> int:
        """Take in what a shelf owes; return how many texts were embedded.

        Each batch is settled when store and Chroma have it. A batch begins `reach` messages early,
        so that messages whose successor has arrived get their new vector.

        Args:
            owed: The shelf.
            target: Whose vectors these are.
            collection: Where the blended ones go.
            goes_on: Whether this is still wanted; asked after each batch, before it is settled.
            advance: Told how many messages of a batch are done.
        """
        number = owed.shelf or self._store.shelf_number(owed.shelf_key)
        owner = None if number is None else self._store.owner_of(number)
        embedded, start = 0, owed.from_seq
        while True:
            # Two reaches: the messages that are written again need their own neighbours.
            first = max(1, start - 2 * self._reach)
            found, last = self._store.sources_from(
                owed.shelf_key, first, self._batch + 2 * self._reach
            )
            fresh = [source for source in found if source.seq >= start]
            done_to = fresh[-1].seq if fresh else max(last, start)
            if fresh and number is not None and owner is not None:
                vectors, made = self._vectors(number, found, target)
                self._put(vectors, start - self._reach, collection, owner)
                embedded += made
            if not goes_on(target):
                return embedded
            self._store.put_vectors(target.key, {}, done=(owed.shelf_key, done_to))
            advance(len(fresh))
            if done_to >= last:
                break
            start = done_to + 1
        if number is not None and owed.shelf_key[0] not in "=#":
            self._sweep(number, target, collection)
        return embedded

    def _vectors(
        self, shelf: int, found: Sequence[Source], target: Generation
    ) -> tuple[dict[int, bytes], int]:
        """Return the vectors of messages; only what the store does not have is embedded."""
        texts = {
            unit_number(shelf, source.seq, part): text
            for source in found
            for part, text in self._texts.parts(source)
        }
        known = self._store.vectors_of(target.key, list(texts))
        missing = [unit for unit in texts if unit not in known]
        for start in range(0, len(missing), self._batch):
            units = missing[start : start + self._batch]
            with asking(self._embeddings):
                made = embed_texts(
                    self._embeddings,
                    [texts[unit] for unit in units],
                    target.fingerprint.dimension,
                )
            new = {unit: to_bytes(vector) for unit, vector in zip(units, made, strict=True)}
            self._store.put_vectors(target.key, new)
            known |= new
        return known, len(missing)

    def _put(
        self, vectors: Mapping[int, bytes], from_seq: int, collection: ChromaCollection, owner: int
    ) -> None:
        units, matrix = to_matrix(vectors)
        if not len(units):
            return
        mixed = blended(units, matrix, share=self._share, reach=self._reach)
        is_due = np.array([unit_place(int(unit))[1] >= from_seq for unit in units])
        if is_due.any():
            collection.put(units[is_due], mixed[is_due], owner)

    def _sweep(self, shelf: int, target: Generation, collection: ChromaCollection) -> None:
        """Delete what documents have left behind that were replaced or deleted."""
        there = collection.units(shelf)
        known = self._store.vectors_of(target.key, there)
        collection.remove([unit for unit in there if unit not in known])


@contextmanager
def asking(embeddings: Embeddings) -> Iterator[None]:
    """Raise what an embedding model raises in our own words; it may be of any kind."""
    try:
        yield
    except TokenMemoryError:
        raise
    except Exception as error:
        raise RecallError(
            f"The embedding model {name_of(embeddings)} failed ({type(error).__name__}: {error}). "
            f"Recall is lexical until it answers; messages wait in the outbox."
        ) from error


def to_bytes(vector: Vectors) -> bytes:
    """Return a vector as the store keeps it: float32, little-endian."""
    return vector.astype("<f4").tobytes()


def to_matrix(vectors: Mapping[int, bytes]) -> tuple[Numbers, Vectors]:
    """Return stored vectors as arrays, in the order of their units."""
    units = sorted(vectors)
    flat = np.frombuffer(b"".join(vectors[unit] for unit in units), dtype="<f4")
    matrix = flat.reshape(len(units), -1) if units else flat.reshape(0, 0)
    return np.array(units, np.int64), matrix.astype(np.float32, copy=False)
