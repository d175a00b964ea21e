"""Collections of a store in Chroma: which one answers, which one is being made, and by what model.

The store keeps their names, so that a process that dies, or several at once, know what is still
missing. A new collection is filled from the outbox, and takes the place of the old one in one
write when nothing is missing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.base.interfaces import (
    SearchableIndex,
    SearchIndexReader,
    VectorIndexReader,
)
from langchain_tokenmem.recall.vectors.chroma import ChromaIndex
from langchain_tokenmem.recall.vectors.collection import BrokenCollectionError, ChromaCollection
from langchain_tokenmem.recall.vectors.embeddings import (
    TEXT_VERSION,
    Fingerprint,
    ask_model,
    fingerprint_of,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CollectionVersion:
    """One collection, from its making to its end.

    Attributes:
        collection: Its name in Chroma.
        fingerprint: Of the model that makes its vectors.
    """

    collection: str
    fingerprint: Fingerprint

    @property
    def key(self) -> str:
        """The name under which the store keeps its vectors."""
        return self.fingerprint.key


@dataclass(frozen=True)
class CollectionVersions:
    """The collections that a store knows.

    Attributes:
        active: The one that answers.
        building: The one that is being made and will take its place.
    """

    active: CollectionVersion | None = None
    building: CollectionVersion | None = None


class CollectionManager:
    """Makes, opens and replaces the collections of one store for one model.

    Args:
        store: Where the names are kept.
        chroma: Where the collections are, and the model.
    """

    def __init__(self, store: SearchableIndex, chroma: ChromaIndex) -> None:
        self._store = store
        self._chroma = chroma
        self._property = f"collections:{chroma.collection}"
        self._fingerprint: Fingerprint | None = None
        self._broken: set[str] = set()

    @property
    def has_fingerprint(self) -> bool:
        """True once the model was asked for its fingerprint."""
        return self._fingerprint is not None

    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint of the model that was given; asks it once.

        Raises:
            RecallError: When the model fails.
        """
        if self._fingerprint is None:
            with ask_model(self._chroma.embeddings):
                self._fingerprint = fingerprint_of(
                    self._chroma.embeddings, TEXT_VERSION, self._chroma.model
                )
        return self._fingerprint

    def versions(self, reader: VectorIndexReader | None = None) -> CollectionVersions:
        """Return the collections that the store knows.

        Args:
            reader: Asked instead of the store; in memory a second connection would wait for it.

        Raises:
            RecallError: When it cannot be read.
        """
        if reader is None:
            with self._store.reading_vectors() as reader_of_all:
                return self.versions(reader_of_all)
        found = reader.get_property(self._property) or {}
        return CollectionVersions(_version(found.get("active")), _version(found.get("building")))

    def comparable(self, reader: SearchIndexReader) -> CollectionVersion | None:
        """Return the version whose vectors a question may be compared with, if there is one.

        Raises:
            RecallError: When there are only vectors of another model.
        """
        mine = self.fingerprint()
        known = self.versions(reader)
        for version in (known.building, known.active):
            if version is not None and version.fingerprint.is_same_model(mine):
                return version
        if known.active is not None:
            raise self._mismatch(known.active.fingerprint, mine)
        return None

    def nearest(
        self, question: Any, reader: SearchIndexReader, limit: int
    ) -> list[tuple[int, float]]:
        """Return the answer of the active collection.

        Raises:
            BrokenCollectionError: When it does not work; `target` makes it anew.
            RecallError: When it is still being made, or cannot be reached.
        """
        active = self.versions(reader).active
        if (
            active is None
            or active.collection in self._broken
            or not active.fingerprint.is_same_model(self.fingerprint())
        ):
            raise RecallError(
                f"The collection in {self._chroma.where} is being made; recall is lexical until it "
                f"is complete."
            )
        try:
            return self._chroma.open(active.collection).nearest(question, reader.partitions, limit)
        except BrokenCollectionError:
            self._broken.add(active.collection)
            raise

    def target(self) -> tuple[CollectionVersion, ChromaCollection]:
        """Return the collection that is to be filled, open; make one if there is none that works.

        Raises:
            RecallError: When the collection belongs to another model, or Chroma cannot be reached.
        """
        mine = self.fingerprint()
        known = self.versions()
        target = known.building
        if target is not None and not target.fingerprint.is_same_model(mine):
            self._write(replace(known, building=None))
            self._drop(target)
            target = None
        target = target or known.active
        if target is None:
            target = self.start(mine)
        elif not target.fingerprint.is_same_model(mine):
            raise self._mismatch(target.fingerprint, mine)
        if target.collection not in self._broken:
            try:
                return target, self._chroma.open(target.collection)
            except BrokenCollectionError as error:
                logger.warning("%s", error)
        target = self.start(target.fingerprint)
        return target, self._chroma.open(target.collection)

    def start(self, fingerprint: Fingerprint | None = None) -> CollectionVersion:
        """Make a new collection and enqueue everything; one that was half made is dropped.

        Args:
            fingerprint: Under which its vectors are kept; default: that of the active collection
                where it is the same model, so that no text is embedded again.
        """
        known = self.versions()
        if fingerprint is None:
            fingerprint = self.fingerprint()
            if known.active is not None and known.active.fingerprint.is_same_model(fingerprint):
                fingerprint = known.active.fingerprint
        name = f"{self._chroma.collection}-{uuid4().hex[:12]}"
        # For people who look into Chroma: what is checked stands in the store.
        self._chroma.make(
            name, {"fingerprint": str(fingerprint), "dimension": fingerprint.dimension}
        )
        new = CollectionVersion(name, fingerprint)
        self._write(replace(known, building=new), enqueue_vectors=True)
        if known.building is not None:
            self._drop(known.building)
        return new

    def finish(self, target: CollectionVersion) -> None:
        """Let a new collection answer from now on; the old one goes, and vectors of its model."""
        known = self.versions()
        if known.building != target:
            return
        self._write(CollectionVersions(active=target))
        if known.active is not None:
            self._drop(known.active)
            if known.active.key != target.key:
                self._store.delete_vectors(known.active.key)

    def is_target(self, target: CollectionVersion) -> bool:
        """Return whether a collection is the one to fill: not when a new one was begun."""
        known = self.versions()
        return target == (known.building or known.active)

    def _drop(self, version: CollectionVersion) -> None:
        try:
            self._chroma.drop(version.collection)
        except RecallError as error:
            logger.info("An old collection stays: %s", error)

    def _write(self, versions: CollectionVersions, *, enqueue_vectors: bool = False) -> None:
        plain = {
            name: {
                "collection": version.collection,
                "fingerprint": version.fingerprint.to_json(),
            }
            for name, version in (("active", versions.active), ("building", versions.building))
            if version is not None
        }
        self._store.set_property(self._property, plain, enqueue_vectors=enqueue_vectors)

    def _mismatch(self, stored: Fingerprint, given: Fingerprint) -> RecallError:
        return RecallError(
            f"The vectors in {self._chroma.where} were made by {stored}, the model that was given "
            f"is {given}: they cannot be compared. Recall is lexical. Pass the first model again, "
            f"or call recall.rebuild() to embed the transcript with the new one."
        )


def _version(plain: Any) -> CollectionVersion | None:
    if plain is None:
        return None
    try:
        return CollectionVersion(plain["collection"], Fingerprint.from_json(plain["fingerprint"]))
    except (KeyError, TypeError, ValueError) as error:
        logger.warning("The name of a collection cannot be read (%r); it is made anew.", error)
        return None
