"""`SqlStore`: a LangGraph store in the database of a `TranscriptStore`."""

from __future__ import annotations

from collections.abc import Mapping

from langchain_tokenmem.core.argument_checks import checked
from langchain_tokenmem.core.stored_items import ItemId, Namespace, StoredItem
from langchain_tokenmem.notes.item_store import ItemStore
from langchain_tokenmem.storage import items
from langchain_tokenmem.storage.transcript_store import TranscriptStore

_ABOUT = "Items"


class SqlStore(ItemStore):
    """A LangGraph `BaseStore` in the SQLite or PostgreSQL database of a `TranscriptStore`.

    Notes in it are erased by `TranscriptStore.erase`, in the same transaction as everything else of
    a user or session. Every put is a durable transaction. Several processes may use one database.
    There are no vectors: a search returns items by filter, newest first.

    Args:
        store: The store with the database. It stays open when this store is closed.

    Raises:
        ConfigurationError: When `store` is not a `TranscriptStore`.

    Example:
        >>> from langchain_tokenmem import TranscriptStore
        >>> with TranscriptStore("sqlite://") as transcripts:
        ...     store = SqlStore(transcripts)
        ...     store.put(("users", "ann"), "tea", {"likes": "green tea"})
        ...     store.get(("users", "ann"), "tea").value
        {'likes': 'green tea'}
    """

    def __init__(self, store: TranscriptStore) -> None:
        super().__init__()
        self.store = checked(store, TranscriptStore, "store", "SqlStore(TranscriptStore(...))")

    def __repr__(self) -> str:
        return f"SqlStore({self.store!r})"

    def _find(self, item_id: ItemId) -> StoredItem | None:
        with self.store.database.reading(_ABOUT) as connection:
            return items.find(connection, item_id)

    def _items_under(self, prefix: Namespace, most: int | None) -> list[StoredItem]:
        with self.store.database.reading(_ABOUT) as connection:
            return items.items_under(connection, prefix, most)

    def _namespaces_under(self, prefix: Namespace) -> list[Namespace]:
        with self.store.database.reading(_ABOUT) as connection:
            return items.namespaces_under(connection, prefix)

    def _put(self, values: Mapping[ItemId, str | None]) -> None:
        with self.store.database.writing(_ABOUT) as connection:
            items.put(connection, values)

    def _erase(self, prefix: Namespace) -> dict[str, int]:
        with self.store.database.writing(_ABOUT) as connection:
            count = items.delete_under(connection, prefix)
        self.store.database.forget_deleted()
        return {"items": count}
