"""Fills the vector table, and a place from it, while other processes may do the same.

The store keeps the name of the place's collection and the model of the vectors, so that a process
that dies, or several at once, know what is missing. A new collection replaces the old one at once,
and is filled from the store.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from uuid import uuid4

from langchain_core.embeddings import Embeddings
from tqdm import tqdm

from langchain_tokenmem.core.search_units import IndexSource, Unindexed, pack_unit
from langchain_tokenmem.errors import CorruptStoreError, RecallError
from langchain_tokenmem.recall.embeddings import (
    TEXT_VERSION,
    Fingerprint,
    embed_texts,
    fingerprint_of,
    to_bytes,
    to_matrix,
)
from langchain_tokenmem.recall.place import BrokenCollectionError, Place
from langchain_tokenmem.recall.text_parts import indexable_text, parts_of
from langchain_tokenmem.storage.index_reader import owner_number
from langchain_tokenmem.storage.search_index import VECTORS, SearchIndex
from langchain_tokenmem.storage.vectors import VectorsReader

logger = logging.getLogger(__name__)

_WITHOUT_PLACE = "store-"
"""Prefix of the name if the store's own vectors are searched, without a place."""

_TRIES = 3
"""How often a broken collection is recreated in one run."""


@dataclass(frozen=True)
class VectorCollection:
    """The vectors of one model, and where they are looked up.

    Attributes:
        name: Its name in the place.
        fingerprint: Fingerprint of the model.
        is_complete: Whether it has ever had every vector of the store.
    """

    name: str
    fingerprint: Fingerprint
    is_complete: bool = False

    @property
    def key(self) -> str:
        """The key of its vectors in the store."""
        return self.fingerprint.key


class Filler:
    """Embeds what is missing, and brings the place's collection up to date.

    Args:
        store: The texts, the stored vectors, and the mark up to which each session is indexed.
        embeddings: The model.
        place: Where candidates are looked up; None to search the store's own vectors.
        rebuilds: Whether to embed everything again when the model has changed.
        batch: Messages per batch.
        is_stopping: Called after each batch; if it returns true, the rest is indexed later.
    """

    def __init__(
        self,
        store: SearchIndex,
        embeddings: Embeddings,
        place: Place | None,
        *,
        rebuilds: bool,
        batch: int,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._store = store
        self._embeddings = embeddings
        self._place = place
        self._prefix = _WITHOUT_PLACE if place is None else place.prefix
        self._rebuilds = rebuilds
        self._batch = batch
        self._is_stopping = is_stopping
        self._fingerprint: Fingerprint | None = None
        self._failing: set[int] = set()
        self._is_compared = place is None

    # --- the collection

    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint of the given model; the model is called once.

        Raises:
            RecallError: When the model fails.
        """
        if self._fingerprint is None:
            name = None if self._place is None else self._place.model
            self._fingerprint = fingerprint_of(self._embeddings, TEXT_VERSION, name)
        return self._fingerprint

    def collection(self, reader: VectorsReader | None = None) -> VectorCollection | None:
        """Return the store's present collection, of any model, or None.

        Args:
            reader: A reader that is open already: an in-memory store has a single connection.
        """
        if reader is None:
            with self._store.reading_vectors() as reader_of_all:
                return self.collection(reader_of_all)
        plain = reader.collection()
        if plain is None:
            return None
        fingerprint = Fingerprint.from_plain(plain["fingerprint"])
        return VectorCollection(**{**plain, "fingerprint": fingerprint})

    def comparable(self, reader: VectorsReader | None = None) -> VectorCollection | None:
        """Return the store's present collection, if there is one.

        Raises:
            RecallError: When another model made its vectors.
        """
        known = self.collection(reader)
        if known is not None and self._is_foreign(known):
            raise self._refusal(known)
        return known

    def _is_foreign(self, collection: VectorCollection) -> bool:
        """Return whether another model made the vectors."""
        return not collection.fingerprint.is_same_model(self.fingerprint())

    def _refusal(self, collection: VectorCollection) -> RecallError:
        remedy = (
            " until the transcript is embedded with the new one."
            if self._rebuilds
            else ". Pass the first model again, or call recall.rebuild() to embed the transcript "
            "with the new one."
        )
        return RecallError(
            f"The vectors in {self._where} were made by {collection.fingerprint}, the model that "
            f"was given is {self.fingerprint()}: they cannot be compared. Recall is lexical{remedy}"
        )

    @property
    def _where(self) -> str:
        return "the store" if self._place is None else self._place.where

    def can_propose(self, collection: VectorCollection) -> bool:
        """Return whether a collection is this place's, and has every vector."""
        return collection.is_complete and collection.name.startswith(self._prefix)

    def start(self) -> VectorCollection:
        """Replace the present collection by an empty one, and enqueue everything."""
        old, fingerprint = self.collection(), self.fingerprint()
        if old is not None and not self._is_foreign(old):
            fingerprint = old.fingerprint  # key of its vectors in the store
        new = VectorCollection(f"{self._prefix}{uuid4().hex[:12]}", fingerprint)
        if self._place is not None:
            # For people who look into the place; checks use the store.
            about: dict[str, str | int] = {
                "fingerprint": str(fingerprint),
                "dimension": fingerprint.dimension,
            }
            self._place.make(new.name, about)
        self._store.start_collection(asdict(new))
        if old is not None:
            try:
                self._clear(old)
            except RecallError as error:
                logger.info("An old collection was not deleted: %s", error)
        return new

    def doubt(self, collection: VectorCollection) -> None:
        """Delete a collection that does not work; the next `index_missing` recreates it."""
        self._clear(collection)
        self._is_compared = False

    def _clear(self, collection: VectorCollection) -> None:
        if self._place is not None and collection.name.startswith(self._prefix):
            self._place.clear(collection.name)

    def _to_fill(self) -> VectorCollection:
        """Return the present collection, or a new one if this place has none.

        Raises:
            RecallError: When another model made its vectors, or the place cannot be reached.
        """
        known = self.collection()
        if known is not None and self._is_foreign(known):
            if not self._rebuilds:
                raise self._refusal(known)
            logger.warning(
                "%s made the vectors in %s; %s now makes new ones.",
                known.fingerprint,
                self._where,
                self.fingerprint(),
            )
            return self.start()
        if known is None or not known.name.startswith(self._prefix):
            return self.start()
        return known

    def _is_current(self, collection: VectorCollection) -> bool:
        """Return whether a collection is still the present one."""
        current = self.collection()
        return current is not None and current.name == collection.name

    def _complete(self, collection: VectorCollection) -> None:
        """Mark a collection as complete, and delete the vectors of other models."""
        if not collection.is_complete and self._is_current(collection):
            self._store.update_collection(asdict(replace(collection, is_complete=True)))
            self._store.delete_vectors(keep=collection.key)

    def _count_stored(self, collection: VectorCollection) -> int:
        with self._store.reading_vectors() as reader:
            return reader.count_vectors(collection.key)

    # --- filling

    def has_work(self) -> bool:
        """Return whether `index_missing` has anything to do."""
        return not self._is_compared or bool(self._store.pending(VECTORS, limit=1))

    def index_missing(self, *, progress: bool = False) -> int:
        """Index what is missing; return how many texts were embedded.

        A broken collection is recreated; one that another process has started is filled.

        Args:
            progress: Whether to show a progress bar.

        Raises:
            RecallError: When it cannot; the next call tries again.
        """
        embedded = 0
        for left in reversed(range(_TRIES)):
            collection = self._to_fill()
            try:
                embedded += self._index_all(collection, progress=progress)
                if self._is_done():
                    self._compare(collection)
                    self._complete(collection)
            except BrokenCollectionError as error:
                if not left:
                    raise
                if self._is_current(collection):
                    logger.warning("%s", error)
                    self.start()
                continue
            if self._is_stopping() or self._is_current(collection):
                break
        return embedded

    def rebuild(self, *, progress: bool) -> int:
        """Create a new collection or resume an interrupted one; return how many vectors it has."""
        begun = self.collection()
        if begun is None or begun.is_complete or self._is_foreign(begun):
            self.start()
        self.index_missing(progress=progress)
        return self._count_stored(self._to_fill())

    def _is_done(self) -> bool:
        """Return whether everything that can be read is indexed."""
        return {one.partition for one in self._store.pending(VECTORS)} <= self._failing

    def _compare(self, collection: VectorCollection) -> None:
        """Compare the numbers of entries in place and store, once per process.

        Raises:
            BrokenCollectionError: When it has more or fewer entries than the store has vectors.
        """
        if self._is_compared or self._place is None:
            return
        stored, found = self._count_stored(collection), self._place.count(collection.name)
        # While another process stores vectors the two cannot be compared.
        if stored != self._count_stored(collection) or not self._is_done():
            return
        self._is_compared = True
        if found != stored:
            raise BrokenCollectionError(
                f"{self._where} has {found} vectors, the store has {stored}; it is rebuilt."
            )

    def _index_all(self, collection: VectorCollection, *, progress: bool) -> int:
        """Index one partition after the other; return how many texts were embedded."""
        # Failing sessions come last, so that they do not block the others.
        entries = sorted(
            self._store.pending(VECTORS), key=lambda entry: entry.partition in self._failing
        )
        indexed = embedded = 0
        with tqdm(entries, desc="Indexing", unit="session", disable=not progress) as bar:
            for entry in bar:
                self._failing.add(entry.partition)
                try:
                    for count, made in self._index_partition(entry, collection):
                        indexed, embedded = indexed + count, embedded + made
                        bar.set_postfix(messages=indexed)
                        if self._is_stopping() or not self._is_current(collection):
                            self._failing.discard(entry.partition)
                            return embedded
                except CorruptStoreError as error:
                    logger.warning("Search by meaning does not find it: %s", error)
                else:
                    self._failing.discard(entry.partition)
        return embedded

    def _index_partition(
        self, entry: Unindexed, collection: VectorCollection
    ) -> Iterator[tuple[int, int]]:
        """Index the rest of a partition in batches; yield the numbers of messages and new vectors.

        A batch is marked as indexed when both store and place have it.
        """
        number, start, is_more = entry.partition, entry.from_seq, True
        while is_more:
            session, found = self._store.sources_from(number, max(1, start), self._batch)
            if session is None:  # another process may have erased it before the place had the batch
                self.delete_gone([number])
                return
            done_to = found[-1].seq if found else max(session.last_seq, start)
            embedded = 0
            if found:
                texts = {
                    pack_unit(number, source.seq, part): text
                    for source in found
                    for part, text in _texts_to_embed(source)
                }
                vectors, embedded = self._vectors(texts, collection, (number, session.edits))
                if self._place is not None:
                    units, matrix = to_matrix(vectors)
                    owner = owner_number(session.user_id, number)
                    self._place.put(collection.name, units, matrix, owner, texts)
            begun = start
            # Another process may start a new collection and enqueue everything for it at any time.
            start = self._store.acknowledge_vectors(
                number, done_to, start=start, edits=session.edits, collection=collection.name
            )
            is_more = done_to < session.last_seq or start <= begun
            yield len(found), embedded

    def _vectors(
        self, texts: Mapping[int, str], collection: VectorCollection, as_read: tuple[int, int]
    ) -> tuple[dict[int, bytes], int]:
        """Return the vectors of texts; only those that the store lacks are embedded.

        `as_read` is the session and its number of edits when the texts were read: vectors of texts
        edited meanwhile are not stored.
        """
        with self._store.reading_vectors() as reader:
            known = reader.vectors(collection.key, list(texts))
        missing = [unit for unit in texts if unit not in known]
        for start in range(0, len(missing), self._batch):
            units = missing[start : start + self._batch]
            made = embed_texts(
                self._embeddings,
                [texts[unit] for unit in units],
                collection.fingerprint.dimension,
            )
            new = {unit: to_bytes(vector) for unit, vector in zip(units, made, strict=True)}
            self._store.put_vectors(collection.key, new, unless_edited=as_read)
            known |= new
        return known, len(missing)

    # --- deleting

    def delete_gone(self, partitions: Iterable[int]) -> Counter[int]:
        """Delete entries that the store no longer has; return how many of each partition.

        Raises:
            RecallError: When the place cannot be reached.
        """
        gone: Counter[int] = Counter()
        place, collection = self._place, self.collection()
        if place is None or collection is None or not collection.name.startswith(self._prefix):
            return gone
        try:
            for number in partitions:
                found = place.units(collection.name, number)
                with self._store.reading_vectors() as reader:
                    kept = set(reader.vector_units(collection.key, partition=number))
                units = [unit for unit in found if unit not in kept]
                if units:
                    place.delete(collection.name, units)
                gone[number] += len(units)
        except BrokenCollectionError:
            self.doubt(collection)  # the next one is built without them
        return gone


def _texts_to_embed(source: IndexSource) -> list[tuple[int, str]]:
    """Return number and text of each part of a message; empty if it is not indexed.

    Without date and speaker: a date in the embedded text costs 3 points on LoCoMo.
    """
    text = indexable_text(source)
    # Tokenizers and HTTP clients raise on lone surrogates.
    return [
        (number, part.encode("utf-8", "replace").decode("utf-8"))
        for number, part in enumerate(parts_of(text) if text else ())
    ]
