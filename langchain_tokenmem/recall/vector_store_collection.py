"""Entries of one store in a LangChain vector store: proposals, scored by our own vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_tokenmem.core.search_units import unpack_unit
from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.backend import Question
from langchain_tokenmem.recall.embeddings import Vectors
from langchain_tokenmem.recall.entry_list import EntryList
from langchain_tokenmem.recall.vector_math import (
    NEIGHBOURS,
    Numbers,
    blended,
    nearest,
    to_matrix,
)
from langchain_tokenmem.storage.search_index import IndexReader

ScopeFilter = Callable[[str, Sequence[str]], Mapping[str, Any]]
"""`f(key, values) -> keyword arguments of similarity_search` that keep to entries whose metadata
have one of the values under the key."""

OWNER, PARTITION, UNIT = "tokenmem_owner", "tokenmem_partition", "tokenmem_unit"
"""Keys of an entry's metadata: its user or session, its messages or documents, its own number."""

_SAMPLE = 16
"""Entries that are looked up when a process first opens a vector store, to see if it has them."""

_BATCH = 500
"""Ids in one request."""

_LARGEST_UNIT = 2**63 - 1
"""Largest number that a database takes."""


class VectorStoreCollection:
    """The entries of one store and one model in a vector store. Made by `VectorStoreIndex`.

    Args:
        name: Its name, with which the ids of its entries begin.
        vector_store: Where they are.
        entries: The list of them.
        scope_filter: Makes the arguments of a search that keep to a scope.
        ask: Calls the vector store.
    """

    def __init__(
        self,
        name: str,
        vector_store: VectorStore,
        entries: EntryList,
        scope_filter: ScopeFilter,
        ask: Callable[..., Any],
    ) -> None:
        self._name = name
        self._vector_store = vector_store
        self._entries = entries
        self._filter = scope_filter
        self._ask = ask

    def _id(self, unit: int) -> str:
        return f"{self._name}-{unit}"

    def put(self, units: Numbers, vectors: Vectors, owner: int, texts: Mapping[int, str]) -> None:  # noqa: ARG002
        """Store the words of entries that are not there yet, or have other words now."""
        given = {unit: texts[unit] for unit in units.tolist() if unit in texts}
        new, changed = self._entries.lacking(given)
        self._delete(changed)
        if not new:
            return
        # Listed first: what is listed and not there is found out, the contrary would stay for ever.
        self._entries.add(new, are_there=False)
        metadata = [
            {
                OWNER: f"{self._name}/{owner}",
                PARTITION: f"{self._name}/{unpack_unit(unit)[0]}",
                UNIT: str(unit),
            }
            for unit in new
        ]
        ids = [self._id(unit) for unit in new]
        stored = self._ask(
            lambda: self._vector_store.add_texts(list(new.values()), metadata, ids=ids)
        )
        self._check_ids(ids, stored)
        self._entries.add(new, are_there=True)

    def _check_ids(self, given: Sequence[str], stored: object) -> None:
        """Refuse a vector store that names entries itself: what is erased would stay in it."""
        if isinstance(stored, list) and set(stored) - set(given):
            self._ask(lambda: self._vector_store.delete(ids=stored))
            raise RecallError(
                "The vector store gives entries ids of its own, so that erased words would stay in "
                "it. Nothing was stored; take another one, ChromaIndex, or Recall(store, "
                "embeddings=...)."
            )

    def remove(self, units: Sequence[int]) -> None:
        """Delete entries; one that is not there is no error."""
        self._delete(units)
        self._entries.remove(units)

    def _delete(self, units: Sequence[int]) -> None:
        for start in range(0, len(units), _BATCH):
            # Never an empty list: to some vector stores that is everything.
            ids = [self._id(unit) for unit in units[start : start + _BATCH]]
            # None is what those say that return nothing.
            if self._ask(lambda ids=ids: self._vector_store.delete(ids=ids)) is False:
                raise RecallError(
                    "The vector store says that it did not delete: words that are erased or were "
                    "edited may still be in it. It is tried again with the next change."
                )

    def count(self) -> int:
        """Return how many entries are listed."""
        return len(self._entries.units())

    def units(self, partition: int | None = None) -> list[int]:
        """Return the numbers of the entries that are listed, in order."""
        return self._entries.units(partition)

    def has_lost_entries(self) -> bool:
        """Look a few entries up; False where the vector store cannot be asked for ids."""
        if type(self._vector_store).get_by_ids is VectorStore.get_by_ids:
            return False
        units = self._entries.units()
        some = units[:: max(1, len(units) // _SAMPLE)][:_SAMPLE]
        ids = [self._id(unit) for unit in some]
        found = self._ask(lambda: self._vector_store.get_by_ids(ids)) if ids else []
        return len(found) < len(ids)

    def search(
        self, question: Question, reader: IndexReader, key: str, limit: int
    ) -> list[tuple[int, float]]:
        """Return what the vector store proposes, in scope, by the cosine of our own vectors."""
        within = reader.partitions
        about, numbers = (OWNER, [within.owner]) if within.whole else (PARTITION, within.partitions)
        arguments = self._filter(about, [f"{self._name}/{number}" for number in numbers])

        def propose() -> set[int]:
            found = self._vector_store.similarity_search(question.text, k=limit, **arguments)
            return {unit for one in found if (unit := self._unit_of(one)) is not None}

        proposed = self._ask(propose, is_search=True)
        units, vectors = to_matrix(reader.vectors_around(key, sorted(proposed), NEIGHBOURS))
        if not len(units):
            return []
        scored = nearest(units, blended(units, vectors), question.vector, len(units))
        return [each for each in scored if each[0] in proposed][:limit]

    def _unit_of(self, found: Document) -> int | None:
        """Return the unit of an entry; None for an entry of others."""
        unit, owner = found.metadata.get(UNIT), str(found.metadata.get(OWNER))
        is_own = owner.startswith(f"{self._name}/") and str(unit).isdecimal()
        return int(str(unit)) if is_own and int(str(unit)) <= _LARGEST_UNIT else None
