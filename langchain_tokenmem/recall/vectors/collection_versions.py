"""Which collection answers, and which one is being made: kept in the store, changed at once."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.interfaces import IndexReader, IndexStore
from langchain_tokenmem.recall.vectors.chroma import ChromaIndex
from langchain_tokenmem.recall.vectors.embeddings import Fingerprint

logger = logging.getLogger(__name__)

_FACT = "vectors"


@dataclass(frozen=True)
class Generation:
    """One collection, from its making to its end.

    Attributes:
        collection: Its name in Chroma.
        fingerprint: What makes its vectors.
        is_owed: Whether everything that belongs into it has been put into the outbox.
    """

    collection: str
    fingerprint: Fingerprint
    is_owed: bool = False

    @property
    def key(self) -> str:
        """Under which name the store keeps its vectors."""
        return self.fingerprint.key


@dataclass(frozen=True)
class Pair:
    """What a store knows of its collections.

    Attributes:
        active: The one that answers.
        building: The one that is being made and will take its place.
    """

    active: Generation | None = None
    building: Generation | None = None


class Generations:
    """The collections of one store in one Chroma.

    The new one is filled from the outbox, so that a process that dies, or several at once, know
    what is still missing; it takes the place of the old one in one write when nothing is.

    Args:
        store: Where the names are kept.
        chroma: Where the collections are.
    """

    def __init__(self, store: IndexStore, chroma: ChromaIndex) -> None:
        self._store = store
        self._chroma = chroma
        self._fact = f"{_FACT}:{chroma.collection}"

    def read(self, reader: IndexReader | None = None) -> Pair:
        """Return what the store knows.

        Args:
            reader: Asked instead of the store; in memory a second connection would wait for it.

        Raises:
            RecallError: When it cannot be read.
        """
        found = (reader or self._store).fact(self._fact) or {}
        return Pair(_generation(found.get("active")), _generation(found.get("building")))

    def begin(self, fingerprint: Fingerprint) -> Generation:
        """Make a new collection, and owe it everything; one that was half made is dropped."""
        known = self.read()
        name = f"{self._chroma.collection}-{uuid4().hex[:12]}"
        # For people who look into Chroma: what is checked stands in the store.
        metadata: dict[str, str | int] = {
            "fingerprint": str(fingerprint),
            "dimension": fingerprint.dimension,
        }
        self._chroma.make(name, metadata)
        new = Generation(name, fingerprint)
        self._write(replace(known, building=new))
        if known.building is not None:
            self._drop(known.building)
        return self.owe(new)

    def owe(self, building: Generation) -> Generation:
        """Put everything into the outbox, unless that has been done for this collection."""
        if building.is_owed:
            return building
        self._store.owe_vectors()
        owed = replace(building, is_owed=True)
        self._write(replace(self.read(), building=owed))
        return owed

    def finish(self) -> None:
        """Let the new collection answer from now on; the old one goes, and vectors of its model."""
        known = self.read()
        if known.building is None:
            return
        self._write(Pair(active=known.building))
        if known.active is not None:
            self._drop(known.active)
            if known.active.key != known.building.key:
                self._store.drop_vectors(known.active.key)

    def abandon(self) -> None:
        """Drop the collection that is being made."""
        known = self.read()
        self._write(replace(known, building=None))
        if known.building is not None:
            self._drop(known.building)

    def _drop(self, generation: Generation) -> None:
        try:
            self._chroma.drop(generation.collection)
        except RecallError as error:
            logger.info("An old collection stays: %s", error)

    def _write(self, pair: Pair) -> None:
        named = {"active": pair.active, "building": pair.building}
        plain = {name: _plain(one) for name, one in named.items() if one is not None}
        self._store.set_fact(self._fact, plain)


def _plain(generation: Generation) -> dict[str, Any]:
    return {
        "collection": generation.collection,
        "fingerprint": generation.fingerprint.to_json(),
        "is_owed": generation.is_owed,
    }


def _generation(plain: Any) -> Generation | None:
    if not plain:
        return None
    try:
        fingerprint = Fingerprint.from_json(plain["fingerprint"])
        return Generation(str(plain["collection"]), fingerprint, bool(plain["is_owed"]))
    except (KeyError, TypeError) as error:
        raise RecallError(
            f"What the store knows of its collections cannot be read ({error!r}). Call "
            f"recall.rebuild()."
        ) from error
