"""`VectorStoreIndex`: any LangChain vector store proposes what may be near."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from langchain_tokenmem.background import TimedCalls
from langchain_tokenmem.core.argument_checks import checked, checked_seconds
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.recall.collection import BrokenCollectionError, ask_backend
from langchain_tokenmem.recall.embeddings import AnyEmbeddings, as_embeddings
from langchain_tokenmem.recall.entry_list import EntryList
from langchain_tokenmem.recall.vector_store_collection import (
    ScopeFilter,
    VectorStoreCollection,
)
from langchain_tokenmem.storage.search_index import SearchIndex

T = TypeVar("T")


class VectorStoreIndex:
    """A LangChain vector store as the place where the vectors of a `Recall` are searched.

    The vector store is given the words of every message that is indexed, in parts: **text leaves
    the transcript's database**, and is embedded by the vector store once more. What it finds is a
    proposal: scores are computed from the vectors that the transcript's store keeps, and scope and
    words are checked in the transcript. It is asked where more than a thousand vectors are in
    scope; smaller scopes are searched exactly, in the store. `ChromaIndex` gives no text away.

    Args:
        vector_store: Any `VectorStore` that can delete by id.
        embeddings: The model of our own vectors, as `Recall` takes it; default: that of the vector
            store.
        where: Makes the keyword arguments of `similarity_search` that keep to a scope, of a key of
            the metadata and its allowed values. Default: a function for `InMemoryVectorStore`, else
            `filter={key: value}`, or `{key: {"$in": values}}` for more than one, as Chroma and
            PGVector understand it. Without a filter that works others' entries take the places of
            what is in scope; they are never shown.
        collection: First part of the ids of its entries.
        model: Name of the embedding model in messages; default: what the object says of itself.
        timeout_s: Seconds that a search may take; None for no limit.

    Raises:
        ConfigurationError: When it is no vector store, cannot delete, or has no embeddings, and for
            another argument of a wrong type.

    Example:
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> from langchain_tokenmem import HashingEmbeddings, VectorStoreIndex
        >>> index = VectorStoreIndex(InMemoryVectorStore(HashingEmbeddings()))
        >>> index.where
        'the vector store InMemoryVectorStore'
    """

    kind = "vector-store-"
    is_copy = True

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
                f"{type(vector_store).__name__} is no vector store; pass a LangChain VectorStore "
                f"object, for example of langchain_chroma or langchain_postgres."
            )
        name = type(vector_store).__name__
        if type(vector_store).delete is VectorStore.delete:
            raise ConfigurationError(
                f"{name} cannot delete by id, so that erased words would stay in it; use another "
                f"vector store, ChromaIndex, or Recall(store, embeddings=...)."
            )
        own = vector_store.embeddings if embeddings is None else embeddings
        if own is None:
            raise ConfigurationError(f"{name} does not tell its model; pass embeddings=, too.")
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
        self.collection = collection
        self.where = f"the vector store {name}"
        self._vector_store = vector_store
        self._filter = where or _filter_of(vector_store)
        self._calls = TimedCalls("tokenmem-vectors")
        self._timeout_s = timeout_s
        self._store: SearchIndex | None = None
        self._opened: dict[str, VectorStoreCollection] = {}

    def attach(self, store: SearchIndex) -> None:
        """Take the store that lists the entries: a vector store cannot list its own.

        Raises:
            ConfigurationError: When it is used with another store already.
        """
        if self._store not in {None, store}:
            raise ConfigurationError("A VectorStoreIndex belongs to one Recall; make another one.")
        self._store = store

    def _entries(self, name: str) -> EntryList:
        assert self._store is not None  # noqa: S101  # attached before anything else
        return EntryList(self._store, name)

    def _collection(self, name: str) -> VectorStoreCollection:
        entries = self._entries(name)
        return VectorStoreCollection(name, self._vector_store, entries, self._filter, self._ask)

    def _is_own(self, name: str) -> bool:
        return name.startswith(f"{self.collection}-{self.kind}")

    def open(self, name: str) -> VectorStoreCollection:
        """Return a collection that works.

        Raises:
            BrokenCollectionError: When there is none of this name, or it has lost its entries.
        """
        if name in self._opened:
            return self._opened[name]
        if not self._is_own(name) or not self._entries(name).is_there():
            raise BrokenCollectionError(f"{self.where} has no {name}. It is made from the store.")
        collection = self._collection(name)
        if collection.has_lost_entries():
            raise BrokenCollectionError(
                f"{self.where} has lost entries. It is filled again from the store."
            )
        self._opened[name] = collection
        return collection

    def make(self, name: str, metadata: Mapping[str, str | int]) -> VectorStoreCollection:  # noqa: ARG002
        """Return a new collection, and delete entries of earlier ones that are still there."""
        for old in self._entries(name).names(f"{self.collection}-{self.kind}"):
            with suppress(RecallError):
                self.drop(old)
        self._entries(name).begin()
        return self.open(name)

    def drop(self, name: str) -> None:
        """Delete a collection, if it is there."""
        self._opened.pop(name, None)
        if self._is_own(name):
            collection = self._collection(name)
            collection.remove(collection.units())
            self._entries(name).end()

    @contextmanager
    def writing(self, collection: str) -> Iterator[None]:  # noqa: ARG002
        """Do nothing: the list of entries is written with every change."""
        yield

    def close(self) -> None:
        """Do nothing: the application made the vector store, and closes it."""

    def _ask(self, call: Callable[[], T], *, is_search: bool = False) -> T:
        """Return an answer of the vector store, and raise its errors in our own words."""
        if is_search and self._timeout_s is not None:
            call = partial(self._calls.run, call, self._timeout_s)
        return ask_backend(self.where, call, broken=())


def _filter_of(vector_store: VectorStore) -> ScopeFilter:
    if isinstance(vector_store, InMemoryVectorStore):
        return lambda key, values: {"filter": lambda entry: entry.metadata.get(key) in values}
    return _plain_filter


def _plain_filter(key: str, values: Sequence[str]) -> dict[str, Any]:
    return {"filter": {key: values[0] if len(values) == 1 else {"$in": list(values)}}}
