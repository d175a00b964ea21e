"""The side of the vectors of a store's index, and its facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.search_index import vector_rows
from langchain_tokenmem.storage.search_index.facts import fact, owe_everything, set_fact
from langchain_tokenmem.storage.search_index.shelves import VECTORS, find_owner, settle
from langchain_tokenmem.storage.search_index.sources import (
    present_units,
    shelf_to_write,
    sources_from,
)


class IndexVectors:
    """Vectors and facts of an index; the part of `IndexStore` that knows nothing of words.

    Args:
        database: The database of the transcripts.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def shelf_number(self, shelf_key: str) -> int | None:
        """Return the number of a shelf; make it for a session that has none."""
        with self._database.writing("The index of recall") as connection:
            shelf = shelf_to_write(connection, shelf_key)
            return None if shelf is None else shelf.number

    def owner_of(self, shelf: int) -> int | None:
        """Return the number of the owner of a shelf."""
        with self._database.reading("The index of recall") as connection:
            return find_owner(connection, shelf)

    def put_vectors(
        self,
        fingerprint: str,
        vectors: Mapping[int, bytes],
        *,
        done: tuple[str, int] | None = None,
    ) -> None:
        """Store vectors by unit; with `done`, also that its shelf is taken in up to a number.

        Vectors of what is no longer there are left out.

        Args:
            fingerprint: Of the model.
            vectors: float32, little-endian, by unit.
            done: Key of the shelf, and the last of its numbers that is taken in; the outbox row
                goes when no later one is there.
        """
        with self._database.writing("The vectors of recall") as connection:
            # What was erased while its text was being embedded must not come back.
            there = present_units(connection, vectors) if vectors else ()
            kept = {unit: vectors[unit] for unit in vectors if unit in there}
            vector_rows.put_vectors(connection, fingerprint, kept)
            if done is not None:
                _, last = sources_from(connection, done[0], done[1] + 1, 1)
                settle(connection, VECTORS, done[0], done[1], last)

    def vectors_of(self, fingerprint: str, units: Sequence[int]) -> dict[int, bytes]:
        """Return the vectors of some units, as far as there are any."""
        with self._database.reading("The vectors of recall") as connection:
            return vector_rows.vectors_of(connection, fingerprint, units)

    def vector_units(self, fingerprint: str, *, after: int = -1, limit: int = 1_000) -> list[int]:
        """Return the units that have a vector, in order, one page at a time."""
        with self._database.reading("The vectors of recall") as connection:
            return vector_rows.vector_units(connection, fingerprint, after=after, limit=limit)

    def count_vectors(self, fingerprint: str) -> int:
        """Return how many vectors there are under a fingerprint."""
        with self._database.reading("The vectors of recall") as connection:
            return vector_rows.count_vectors(connection, fingerprint)

    def drop_vectors(self, fingerprint: str) -> int:
        """Delete the vectors of a model; return how many there were."""
        with self._database.writing("The vectors of recall") as connection:
            return vector_rows.drop_vectors(connection, fingerprint=fingerprint)

    def owe_vectors(self) -> None:
        """Put every shelf into the outbox of the vectors, from its first number on."""
        with self._database.writing("The outbox of recall") as connection:
            owe_everything(connection, VECTORS)

    # --- facts

    def fact(self, name: str) -> Any:
        """Return a fact about an index (plain JSON); None when it is not known."""
        with self._database.reading("The facts of recall") as connection:
            return fact(connection, name)

    def set_fact(self, name: str, value: Any) -> None:
        """Keep a fact; None forgets it."""
        with self._database.writing("The facts of recall") as connection:
            set_fact(connection, name, value)
