"""`VectorStoreIndex`: any LangChain vector store proposes what may be near."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from langchain_tokenmem.background import TimedCalls
from langchain_tokenmem.core.argument_checks import checked, checked_seconds
from langchain_tokenmem.core.search_units import ScopePartitions, unpack_unit
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.recall.embeddings import AnyEmbeddings, Numbers, Vectors, as_embeddings
from langchain_tokenmem.recall.place import BrokenCollectionError, Question, ask_place
from langchain_tokenmem.storage.search_index import SearchIndex

T = TypeVar("T")

ScopeFilter = Callable[[str, Sequence[str]], Mapping[str, Any]]
"""`f(key, values) -> keyword arguments of similarity_search` that select
the entries whose metadata has one of the values under the key."""

OWNER, PARTITION, UNIT = "tokenmem_owner", "tokenmem_partition", "tokenmem_unit"
"""Metadata keys of an entry: its user or session, its messages or documents, its own number."""

_SAMPLE = 16
"""Entries that are looked up to check that a vector store still has its entries."""

_BATCH = 500
"""Ids in one request."""

_LARGEST_UNIT = 2**63 - 1
"""Largest integer of a database."""


class VectorStoreIndex:
    """A LangChain vector store as the place where the vectors of a `Recall` are searched.

    The vector store receives the text of every indexed message, in parts: **text leaves the
    transcript's database**, and the vector store embeds it again. It only proposes candidates:
    scores are computed from the vectors in the transcript's database, and scope and words are
    checked in the transcript. It is queried only in scopes of more than a thousand
    vectors; smaller ones are searched exactly, in the transcript's database. `ChromaIndex` receives
    no text.

    Args:
        vector_store: Any `VectorStore` that can delete by id.
        embeddings: The model of the vectors in the transcript's database, as `Recall` accepts it;
            default: that of the vector store.
        where: A function of a metadata key and its allowed values that returns the keyword
            arguments of `similarity_search` that restrict it to a scope. Default: a function for
            `InMemoryVectorStore`, else `filter={key: value}`, or `{key: {"$in": values}}` for
            several, as Chroma and PGVector expect. If the filter does not work, entries outside the
                scope use up candidates; they are never shown.
        collection: Prefix of the ids of its entries.
        model: Name of the embedding model in messages; default: the model's own.
        timeout_s: Timeout of a search in seconds; None for no limit.

    Raises:
        ConfigurationError: When it is not a vector store, cannot delete or has no embeddings, or
            when another argument is invalid.

    Example:
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> from langchain_tokenmem.recall import HashingEmbeddings, VectorStoreIndex
        >>> index = VectorStoreIndex(InMemoryVectorStore(HashingEmbeddings()))
        >>> index.where
        'the vector store InMemoryVectorStore'
    """

    def __init__(
        self,
        vector_store: VectorStore,
        *,
        embeddings: AnyEmbeddings | None = None,
        where: ScopeFilter | None = None,
        collection: str = "tokenmem",
        model: str | None = None,
        timeout_s: float | None = 10.0,
    ) -> None:
        if not isinstance(vector_store, VectorStore):
            raise ConfigurationError(
                f"{type(vector_store).__name__} is not a vector store; pass a LangChain "
                f"VectorStore object, for example of langchain_chroma or langchain_postgres."
            )
        name = type(vector_store).__name__
        if type(vector_store).delete is VectorStore.delete:
            raise ConfigurationError(
                f"{name} cannot delete by id, so that erased words would stay in it; use another "
                f"vector store, ChromaIndex, or Recall(store, embeddings=...)."
            )
        own = vector_store.embeddings if embeddings is None else embeddings
        if own is None:
            raise ConfigurationError(f"{name} does not expose its model; pass embeddings=, too.")
        if where is not None and not callable(where):
            raise ConfigurationError(
                f"where is {where!r}; it is a function of a key and its allowed values that "
                f"returns keyword arguments of similarity_search."
            )
        checked(collection, str, "collection", 'collection="tokenmem"')
        if model is not None:
            checked(model, str, "model", 'model="my-embeddings"')
        if timeout_s is not None:
            checked_seconds("timeout_s", timeout_s)
        self.embeddings = as_embeddings(own)
        self.model = model
        self.prefix = f"{collection}-vector-store-"
        self.where = f"the vector store {name}"
        self._vector_store = vector_store
        self._filter = where or _filter_of(vector_store)
        self._calls = TimedCalls("tokenmem-vectors")
        self._timeout_s = timeout_s
        self._store: SearchIndex | None = None

    def __repr__(self) -> str:
        return f"<VectorStoreIndex: {self.where}>"

    def attach(self, store: SearchIndex) -> None:
        """Set the store for the list of entries: a vector store cannot list its own.

        Raises:
            ConfigurationError: When it is already used with another store.
        """
        if self._store not in {None, store}:
            raise ConfigurationError("A VectorStoreIndex belongs to one Recall; create another.")
        self._store = store

    def _entries(self, name: str) -> _EntryList:
        assert self._store is not None  # noqa: S101  # attached before anything else
        return _EntryList(self._store, name)

    def make(self, name: str, about: Mapping[str, str | int]) -> None:  # noqa: ARG002
        """Start a list of entries, and delete leftover entries from earlier lists."""
        for old in self._entries(name).names(self.prefix):
            with suppress(RecallError):
                self.clear(old)
        self._entries(name).begin()

    def put(
        self,
        name: str,
        units: Numbers,
        vectors: Vectors,  # noqa: ARG002  it makes its own
        owner: int,
        texts: Mapping[int, str],
    ) -> None:
        """Store the texts of entries that are new or have changed."""
        entries = self._listed(name)
        given = {unit: texts[unit] for unit in units.tolist() if unit in texts}
        new, changed = entries.lacking(given)
        self._delete(name, changed)
        if not new:
            return
        # List first: a listed entry that is missing is noticed, an unlisted one would remain.
        entries.add(new, are_there=False)
        metadata = [
            {
                OWNER: f"{name}/{owner}",
                PARTITION: f"{name}/{unpack_unit(unit)[0]}",
                UNIT: str(unit),
            }
            for unit in new
        ]
        ids = [f"{name}-{unit}" for unit in new]
        stored = self._ask(
            lambda: self._vector_store.add_texts(list(new.values()), metadata, ids=ids)
        )
        self._check_ids(ids, stored)
        entries.add(new, are_there=True)

    def _check_ids(self, given: Sequence[str], stored: object) -> None:
        """Reject a vector store that ignores our ids: erased words would stay in it."""
        if isinstance(stored, list) and set(stored) - set(given):
            self._ask(lambda: self._vector_store.delete(ids=stored))
            raise RecallError(
                "The vector store assigns its own ids, so that erased words would stay in it. "
                "Nothing was stored; use another one, ChromaIndex, or Recall(store, "
                "embeddings=...)."
            )

    def delete(self, name: str, units: Sequence[int]) -> None:
        """Delete entries; missing ones are ignored."""
        self._delete(name, units)
        self._entries(name).remove(units)

    def _delete(self, name: str, units: Sequence[int]) -> None:
        for start in range(0, len(units), _BATCH):
            # Never an empty list: with that, some vector stores delete everything.
            ids = [f"{name}-{unit}" for unit in units[start : start + _BATCH]]
            # Some return None.
            if self._ask(partial(self._vector_store.delete, ids=ids)) is False:
                raise RecallError(
                    "The vector store reports that it did not delete: erased or edited words may "
                    "still be in it. The next change tries again."
                )

    def units(self, name: str, partition: int | None = None) -> list[int]:
        """Return the units of the entries that are listed, in order."""
        return self._listed(name).units(partition)

    def count(self, name: str) -> int:
        """Return how many entries are listed; a few are looked up.

        Raises:
            BrokenCollectionError: When there is no list, or entries are lost.
        """
        units = self.units(name)
        some = units[:: max(1, len(units) // _SAMPLE)][:_SAMPLE]
        can_look_up = type(self._vector_store).get_by_ids is not VectorStore.get_by_ids
        if some and can_look_up:
            ids = [f"{name}-{unit}" for unit in some]
            if len(self._ask(lambda: self._vector_store.get_by_ids(ids))) < len(ids):
                raise BrokenCollectionError(
                    f"{self.where} has lost entries. It is filled again from the store."
                )
        return len(units)

    def _listed(self, name: str) -> _EntryList:
        entries = self._entries(name)
        if not entries.is_there():
            raise BrokenCollectionError(f"{self.where} has no {name}. It is built from the store.")
        return entries

    def propose(
        self, name: str, question: Question, within: ScopePartitions, limit: int
    ) -> Sequence[int]:
        """Return the units in scope that the vector store finds nearest."""
        about, numbers = (OWNER, [within.owner]) if within.whole else (PARTITION, within.partitions)
        arguments = self._filter(about, [f"{name}/{number}" for number in numbers])
        search = partial(self._vector_store.similarity_search, question.text, k=limit, **arguments)
        found = (_unit_of(one, name) for one in self._ask(search, is_search=True))
        return [unit for unit in found if unit is not None]

    def clear(self, name: str) -> None:
        """Delete all entries of a collection, and their list."""
        entries = self._entries(name)
        self.delete(name, entries.units())
        entries.end()

    def scrub(self, holds: Callable[[str], bool]) -> int:  # noqa: ARG002
        """Return 0: the files of a vector store are unknown."""
        return 0

    def close(self) -> None:
        """Do nothing: the application closes its vector store."""

    def _ask(self, call: Callable[[], T], *, is_search: bool = False) -> T:
        """Call the vector store; its errors become `RecallError`s."""
        if is_search and self._timeout_s is not None:
            call = partial(self._calls.run, call, self._timeout_s)
        return ask_place(self.where, call, broken=())


def _filter_of(vector_store: VectorStore) -> ScopeFilter:
    if isinstance(vector_store, InMemoryVectorStore):
        return lambda key, values: {"filter": lambda entry: entry.metadata.get(key) in values}
    return _plain_filter


def _plain_filter(key: str, values: Sequence[str]) -> dict[str, Any]:
    return {"filter": {key: values[0] if len(values) == 1 else {"$in": list(values)}}}


def _unit_of(found: Document, name: str) -> int | None:
    """Return the unit of an entry; None for an entry of another owner."""
    unit, owner = str(found.metadata.get(UNIT)), str(found.metadata.get(OWNER))
    is_own = owner.startswith(f"{name}/") and unit.isdecimal()
    return int(unit) if is_own and int(unit) <= _LARGEST_UNIT else None


_PREFIX = "vector_store:"

_PAGE = 512
"""Messages per page, so that a batch of a long session does not rewrite the whole list."""

Page = dict[str, str]
"""Digest of an entry's text by its unit; empty for one that may not have been stored."""


class _EntryList:
    """List of the entries given to a vector store: most cannot list or count their own.

    It is stored in properties of the search index, in pages of numbers and digests.

    Args:
        store: Where the list is stored.
        name: Name of the collection.
    """

    def __init__(self, store: SearchIndex, name: str) -> None:
        self._store = store
        self._name = f"{_PREFIX}{name}"

    def is_there(self) -> bool:
        """Return whether the list exists."""
        return self._name in self._store.properties(self._name)

    def begin(self) -> None:
        """Start the list."""
        self._store.update_property(self._name, lambda _: {})

    def end(self) -> None:
        """Delete the list."""
        self._store.delete_properties(self._name)

    def names(self, prefix: str) -> list[str]:
        """Return the collections with a list whose names have a prefix."""
        found = self._store.properties(f"{_PREFIX}{prefix}")
        return sorted({key.removeprefix(_PREFIX).partition(":")[0] for key in found})

    def units(self, partition: int | None = None) -> list[int]:
        """Return the units of all entries, or of those of one partition, in order."""
        own = f"{self._name}:" if partition is None else f"{self._name}:{partition}:"
        pages = self._store.properties(own).values()
        return sorted(int(unit) for page in pages for unit in page)

    def lacking(self, texts: Mapping[int, str]) -> tuple[dict[int, str], list[int]]:
        """Return the entries that are missing or changed, and the units of the changed ones."""
        listed: Page = {}
        for key, _ in self._by_page(texts):
            listed |= self._store.properties(key).get(key) or {}
        new = {unit: text for unit, text in texts.items() if listed.get(str(unit)) != _digest(text)}
        return new, [unit for unit in new if str(unit) in listed]

    def add(self, texts: Mapping[int, str], *, are_there: bool) -> None:
        """List entries, before and again after they are stored."""
        for key, units in self._by_page(texts):
            page = {str(unit): _digest(texts[unit]) if are_there else "" for unit in units}
            self._store.update_property(key, _merging(page))

    def remove(self, units: Sequence[int]) -> None:
        """Remove entries from the list."""
        for key, some in self._by_page(units):
            self._store.update_property(key, _without(some))

    def _by_page(self, units: Iterable[int]) -> list[tuple[str, list[int]]]:
        return [(key, list(some)) for key, some in groupby(sorted(units), self._page_of)]

    def _page_of(self, unit: int) -> str:
        partition, seq, _ = unpack_unit(unit)
        return f"{self._name}:{partition}:{seq // _PAGE}"


def _merging(new: Page) -> Callable[[Page | None], Page | None]:
    return lambda page: {**(page or {}), **new}


def _without(units: Sequence[int]) -> Callable[[Page | None], Page | None]:
    gone = {str(unit) for unit in units}
    return lambda page: (
        {unit: one for unit, one in (page or {}).items() if unit not in gone} or None
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
