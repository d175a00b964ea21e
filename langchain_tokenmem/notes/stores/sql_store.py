"""`SqlStore`: a LangGraph store in the database of a `TranscriptStore`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from langgraph.store.base import TTLConfig

from langchain_tokenmem.core.argument_checks import checked
from langchain_tokenmem.core.stored_items import ItemChange, ItemId
from langchain_tokenmem.errors import StoreError
from langchain_tokenmem.notes.stores.item_store import ItemStore
from langchain_tokenmem.storage.async_wrappers import in_thread
from langchain_tokenmem.storage.items import ItemRows
from langchain_tokenmem.storage.transcript_store import TranscriptStore

_ABOUT = "Items"


class SqlStore(ItemStore):
    """A LangGraph `BaseStore` in the SQLite or PostgreSQL database of a `TranscriptStore`.

    Notes in it are erased by `TranscriptStore.erase`, in the same transaction as everything else of
    a user or session. Every put is a transaction: acknowledged is written. Several processes may
    use one database. A query is not ranked, there are no vectors: a search returns items by filter,
    newest first.

    Args:
        store: Whose database it is. It stays open when this store is closed.
        ttl: LangGraph's settings for items that expire.

    Raises:
        ConfigurationError: When `store` is no `TranscriptStore`.

    Example:
        >>> from langchain_tokenmem import TranscriptStore
        >>> with TranscriptStore("sqlite://") as transcripts:
        ...     store = SqlStore(transcripts)
        ...     store.put(("users", "ann"), "tea", {"likes": "green tea"})
        ...     store.get(("users", "ann"), "tea").value
        {'likes': 'green tea'}
    """

    def __init__(self, store: TranscriptStore, *, ttl: TTLConfig | None = None) -> None:
        super().__init__(ttl)
        self.store = checked(store, TranscriptStore, "store", "SqlStore(TranscriptStore(...))")

    @contextmanager
    def _reading(self) -> Iterator[ItemRows]:
        with self.store.database.reading(_ABOUT) as connection:
            yield ItemRows(connection)

    def _change(self, changes: Mapping[ItemId, ItemChange]) -> None:
        with self.store.database.writing(_ABOUT) as connection:
            ItemRows(connection).change(changes)

    def sweep_ttl(self) -> int:
        """Delete expired items; return how many there were."""
        with self.store.database.writing(_ABOUT) as connection:
            return ItemRows(connection).sweep(datetime.now(UTC))

    def erase(self, namespace_prefix: Sequence[str]) -> dict[str, int]:
        """Delete everything under a prefix for good, and make sure that it is gone.

        Args:
            namespace_prefix: Such as `core.note_namespaces.notes_of_user(user_id)`.

        Returns:
            How many items there were.

        Raises:
            StoreError: When something is still there, such as what somebody puts right now.
        """
        prefix = tuple(namespace_prefix)
        with self.store.database.writing(_ABOUT) as connection:
            count = ItemRows(connection).delete_under(prefix)
        self.store.database.forget_deleted()
        with self._reading() as reader:
            if left := reader.under(prefix, None, 1):
                raise StoreError(
                    f"{count} items under {prefix} were deleted, and {left[0].namespace} holds one "
                    f"again: somebody puts items there. Stop that, and erase again."
                )
        return {"items": count}

    aerase = in_thread(erase)
