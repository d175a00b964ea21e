"""`ItemRows`: the items of a database as one transaction sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from langchain_tokenmem.core.stored_items import ChangedItems, ItemId, Namespace, StoredItem
from langchain_tokenmem.storage.items import rows


@dataclass(frozen=True)
class ItemRows:
    """The items of a database as a transaction sees them.

    Args:
        connection: In the transaction.
    """

    connection: Connection

    def find(self, item_id: ItemId) -> StoredItem | None:
        """Return an item."""
        return rows.read_item(self.connection, item_id)

    def under(
        self, prefix: Namespace, live_at: datetime | None, most: int | None
    ) -> Sequence[StoredItem]:
        """Return the items under a prefix, newest first."""
        return rows.read_items(self.connection, prefix, live_at, most)

    def namespaces(self, prefix: Namespace, live_at: datetime | None) -> set[Namespace]:
        """Return the namespaces under a prefix that hold items."""
        return rows.read_namespaces(self.connection, prefix, live_at)

    def changed_items(
        self, namespace: Namespace, versions: Mapping[str, str]
    ) -> ChangedItems | None:
        """Return what has changed in a namespace; None where an item of it can expire."""
        return rows.read_changed(self.connection, namespace, versions)
