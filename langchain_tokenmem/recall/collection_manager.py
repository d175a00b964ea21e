"""The collection of a store: its name, the model of its vectors, whether it is complete.

The store keeps these, so that a process that dies, or several at once, know what is still missing.
A new collection takes the place of the old one at once, and is filled from the store.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.backend import VectorBackend, VectorCollection
from langchain_tokenmem.recall.collection import BrokenCollectionError
from langchain_tokenmem.recall.embeddings import (
    TEXT_VERSION,
    Fingerprint,
    fingerprint_of,
)
from langchain_tokenmem.storage.search_index import SearchIndex
from langchain_tokenmem.storage.vectors import PropertyCheck, VectorsReader

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CollectionVersion:
    """One collection, from its making to its end.

    Attributes:
        name: Its name in Chroma, or wherever the vectors are searched.
        fingerprint: Of the model that makes its vectors.
        is_complete: Whether it has had every vector of the store once.
    """

    name: str
    fingerprint: Fingerprint
    is_complete: bool = False

    @property
    def key(self) -> str:
        """The name under which the store keeps its vectors."""
        return self.fingerprint.key


class CollectionManager:
    """Makes, opens and replaces the collection of one store for one model.

    Args:
        store: Where its name is kept.
        backend: Where it is, and the model.
        rebuilds: Whether `open` begins a new one where the model is another one.
    """

    def __init__(
        self, store: SearchIndex, backend: VectorBackend, *, rebuilds: bool = False
    ) -> None:
        self._store = store
        self._backend = backend
        self._rebuilds = rebuilds
        self._property = f"collections:{backend.collection}"
        self._fingerprint: Fingerprint | None = None

    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint of the model that was given; asks it once.

        Raises:
            RecallError: When the model fails.
        """
        if self._fingerprint is None:
            self._fingerprint = fingerprint_of(
                self._backend.embeddings, TEXT_VERSION, self._backend.model
            )
        return self._fingerprint

    def version(self, reader: VectorsReader | None = None) -> CollectionVersion | None:
        """Return the collection that the store knows, whichever model it is of.

        Args:
            reader: Asked instead of the store; in memory a second connection would wait for it.
        """
        if reader is None:
            with self._store.reading_vectors() as reader_of_all:
                return self.version(reader_of_all)
        plain = reader.get_property(self._property)
        try:
            return None if plain is None else _version(plain["active"])
        except (KeyError, TypeError, ValueError) as error:
            logger.warning("The name of a collection cannot be read (%r); it is made anew.", error)
            return None

    def comparable(self, reader: VectorsReader | None = None) -> CollectionVersion | None:
        """Return the collection that the store knows, if there is one.

        Raises:
            RecallError: When its vectors are of another model.
        """
        version = self.version(reader)
        if version is not None and not version.fingerprint.is_same_model(self.fingerprint()):
            raise RecallError(
                f"The vectors in {self._backend.where} were made by {version.fingerprint}, the "
                f"model that was given is {self.fingerprint()}: they cannot be compared. Recall is "
                f"lexical{self._remedy()}"
            )
        return version

    def _remedy(self) -> str:
        if self._rebuilds:
            return " until the transcript is embedded with the new one."
        return (
            ". Pass the first model again, or call recall.rebuild() to embed the transcript with "
            "the new one."
        )

    def open(self) -> tuple[CollectionVersion, VectorCollection]:
        """Return the collection, open; one that does not work is made anew.

        Raises:
            RecallError: When it belongs to another model, or Chroma cannot be reached.
        """
        known = self.version()
        if self._rebuilds and known and not known.fingerprint.is_same_model(self.fingerprint()):
            logger.warning(
                "%s made the vectors in %s; they are made anew by %s.",
                known.fingerprint,
                self._backend.where,
                self.fingerprint(),
            )
            self.start()
        version = self.comparable()
        if version is not None:
            try:
                return version, self._backend.open(version.name)
            except BrokenCollectionError as error:
                logger.warning("%s", error)
        version = self.start()
        return version, self._backend.open(version.name)

    def start(self) -> CollectionVersion:
        """Make a collection in the place of the one that there is, and enqueue everything."""
        old, fingerprint = self.version(), self.fingerprint()
        if old is not None and old.fingerprint.is_same_model(fingerprint):
            fingerprint = old.fingerprint  # under which the store has its vectors
        name = f"{self._backend.collection}-{self._backend.kind}{uuid4().hex[:12]}"
        # For people who look into Chroma: what is checked stands in the store.
        self._backend.make(
            name, {"fingerprint": str(fingerprint), "dimension": fingerprint.dimension}
        )
        new = CollectionVersion(name, fingerprint)
        self._write(new, enqueue_vectors=True)
        if old is not None:
            try:
                self._backend.drop(old.name)
            except RecallError as error:
                logger.info("An old collection stays: %s", error)
        return new

    def complete(self, version: CollectionVersion) -> None:
        """Note that a collection has every vector; those of another model go."""
        if not version.is_complete and self.is_current(version):
            self._write(replace(version, is_complete=True), only_if=self.check(version))
            self._store.delete_vectors(keep=version.key)

    def is_current(self, version: CollectionVersion) -> bool:
        """Return whether a collection is the one to fill: not when another one was begun."""
        current = self.version()
        return current is not None and current.name == version.name

    def count_stored(self, version: CollectionVersion) -> int:
        """Return how many vectors the store has of a model."""
        with self._store.reading_vectors() as reader:
            return reader.count_vectors(version.key)

    def check(self, version: CollectionVersion) -> PropertyCheck:
        """Return `is_current` as a condition that is checked where something is written.

        Another process may begin a new collection, and enqueue everything for it, at any time.
        """
        return PropertyCheck(self._property, lambda plain: _name(plain) == version.name)

    def _write(
        self,
        version: CollectionVersion,
        *,
        enqueue_vectors: bool = False,
        only_if: PropertyCheck | None = None,
    ) -> None:
        plain = {
            "collection": version.name,
            "fingerprint": version.fingerprint.to_json(),
            "is_complete": version.is_complete,
        }
        self._store.set_property(
            self._property, {"active": plain}, enqueue_vectors=enqueue_vectors, only_if=only_if
        )


def _name(plain: Any) -> str | None:
    active = plain.get("active") if isinstance(plain, dict) else None
    return active.get("collection") if isinstance(active, dict) else None


def _version(plain: Any) -> CollectionVersion:
    fingerprint = Fingerprint.from_json(plain["fingerprint"])
    return CollectionVersion(plain["collection"], fingerprint, plain.get("is_complete", True))
