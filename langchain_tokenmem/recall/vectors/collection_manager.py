"""Keeping a collection that works: opened with care, compared with the store, made anew."""

from __future__ import annotations

import logging
import threading

from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.interfaces import IndexReader, IndexStore
from langchain_tokenmem.recall.vectors.chroma import ChromaIndex
from langchain_tokenmem.recall.vectors.collection import (
    ChromaCollection,
    DamagedIndexError,
    MissingIndexError,
)
from langchain_tokenmem.recall.vectors.collection_versions import Generation, Generations
from langchain_tokenmem.recall.vectors.embeddings import Fingerprint, fingerprint_of
from langchain_tokenmem.recall.vectors.filling import asking

logger = logging.getLogger(__name__)


class Keeper:
    """Sees to it that there is a collection for this model, and that it works.

    Args:
        store: What the store has.
        chroma: Where collections are, and the model.
        rules: Version of the rules that make texts of messages.
    """

    def __init__(self, store: IndexStore, chroma: ChromaIndex, rules: str) -> None:
        self._store = store
        self._chroma = chroma
        self._rules = rules
        self._mine: Fingerprint | None = None
        self._sound: dict[str, tuple[object, ChromaCollection]] = {}
        self._broken: dict[str, str] = {}
        self._verifying = threading.Lock()
        self.generations = Generations(store, chroma)

    @property
    def is_known(self) -> bool:
        """Whether the model has been asked for its fingerprint."""
        return self._mine is not None

    def mine(self) -> Fingerprint:
        """Return the fingerprint of the model that was given; asks it once.

        Raises:
            RecallError: When the model fails.
        """
        if self._mine is None:
            with asking(self._chroma.embeddings):
                self._mine = fingerprint_of(
                    self._chroma.embeddings, self._rules, self._chroma.model
                )
        return self._mine

    def comparable(self, reader: IndexReader) -> Generation | None:
        """Return the generation whose vectors a question may be compared with, if there is one.

        Raises:
            RecallError: When there are only vectors of another model.
        """
        mine = self.mine()
        known = self.generations.read(reader)
        for one in (known.building, known.active):
            if one is not None and one.fingerprint.is_same_space(mine):
                return one
        if known.active is not None:
            raise self._mismatch(known.active.fingerprint, mine)
        return None

    def answering(self, reader: IndexReader) -> ChromaCollection:
        """Return the collection that answers.

        Raises:
            RecallError: When it is still being made, or does not work.
        """
        active = self.generations.read(reader).active
        if active is None or not active.fingerprint.is_same_space(self.mine()):
            raise RecallError(
                f"The collection in {self._chroma.where} is being made; recall is lexical until it "
                f"is complete."
            )
        return self.verified(active.collection)

    def target(self) -> tuple[Generation, ChromaCollection]:
        """Return the collection that is to be filled, open; make one if there is none that works.

        Raises:
            RecallError: When the collection belongs to another model, or Chroma cannot be reached.
        """
        mine = self.mine()
        known = self.generations.read()
        if known.building is not None and not known.building.fingerprint.is_same_space(mine):
            self.generations.abandon()
            known = self.generations.read()
        if known.building is not None:
            return self._working(self.generations.owe(known.building))
        if known.active is None:
            return self._working(self.generations.begin(mine))
        if not known.active.fingerprint.is_same_space(mine):
            raise self._mismatch(known.active.fingerprint, mine)
        return self._working(known.active)

    def begin_anew(self) -> None:
        """Begin a new collection, unless one for this model is being made already."""
        mine = self.mine()
        known = self.generations.read()
        if known.building is not None and known.building.fingerprint.is_same_space(mine):
            return
        # Under the name that the stored vectors have, so that none is embedded again.
        is_same = known.active is not None and known.active.fingerprint.is_same_space(mine)
        self.generations.begin(known.active.fingerprint if known.active and is_same else mine)

    def _working(self, target: Generation) -> tuple[Generation, ChromaCollection]:
        try:
            return target, self.verified(target.collection)
        except (MissingIndexError, DamagedIndexError) as error:
            logger.warning("%s", error)
        target = self.generations.begin(target.fingerprint)
        return target, self.verified(target.collection)

    def verified(self, name: str) -> ChromaCollection:
        """Open a collection; for the first time in this process look whether it may be opened.

        Raises:
            DamagedIndexError: When it must be made anew.
            MissingIndexError: When there is none of this name.
        """
        with self._verifying:
            if name in self._broken:
                raise DamagedIndexError(self._broken[name])
            # Asked each time: it notices a fork, and a client that was closed meanwhile.
            client = self._chroma.connect()
            known = self._sound.get(name)
            if known is not None and known[0] is client:
                return known[1]
            if known is None:
                self._chroma.check(name)
            collection = self._chroma.open(name)
            collection.count()
            self._sound[name] = (client, collection)
            return collection

    def give_up(self, reader: IndexReader, fault: RecallError) -> None:
        """Note that the collection that answers must be made anew."""
        active = self.generations.read(reader).active
        if active is not None:
            self._broken[active.collection] = str(fault)

    def is_still(self, target: Generation) -> bool:
        """Return whether a collection is the one to fill: not when a new one was begun."""
        known = self.generations.read()
        current = known.building or known.active
        return current is not None and current.collection == target.collection

    def lacks(self, target: Generation, collection: ChromaCollection) -> int:
        """Return how many stored vectors a collection lacks; delete what does not belong to it."""
        if collection.count() == self._store.count_vectors(target.key):
            return 0
        found, after = set(collection.units()), -1
        expected: set[int] = set()
        while page := self._store.vector_units(target.key, after=after):
            expected.update(page)
            after = page[-1]
        collection.remove(sorted(found - expected))
        return len(expected - found)

    def _mismatch(self, stored: Fingerprint, given: Fingerprint) -> RecallError:
        return RecallError(
            f"The vectors in {self._chroma.where} were made by {stored}, the model that was given "
            f"is {given}: they cannot be compared. Recall is lexical. Pass the first model again, "
            f"or call recall.rebuild() to embed the transcript with the new one."
        )
