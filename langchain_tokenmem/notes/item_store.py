"""`ItemStore`: the part of a LangGraph `BaseStore` that files and databases share."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)

from langchain_tokenmem.background import in_own_thread, in_thread
from langchain_tokenmem.core.stored_items import (
    ItemId,
    Namespace,
    StoredItem,
    literal_prefix,
    matches_filter,
    matches_path,
    value_as_json,
)
from langchain_tokenmem.errors import CorruptStoreError, StoreError


class ItemStore(BaseStore):
    """Base of stores that read and write `StoredItem`s.

    Reads in a batch see what was stored before it; of several puts of one key the last one wins.
    """

    @abstractmethod
    def _find(self, item_id: ItemId) -> StoredItem | None:
        """Return an item, or None if there is none."""

    @abstractmethod
    def _items_under(self, prefix: Namespace, most: int | None) -> Sequence[StoredItem]:
        """Return the items under a prefix, newest first; at least `most` if there are so many."""

    @abstractmethod
    def _namespaces_under(self, prefix: Namespace) -> Iterable[Namespace]:
        """Return the namespaces under a prefix that hold items."""

    @abstractmethod
    def _put(self, values: Mapping[ItemId, str | None]) -> None:
        """Store values as JSON, all or none of them; None deletes."""

    @abstractmethod
    def _erase(self, prefix: Namespace) -> dict[str, int]:
        """Delete everything under a prefix for good, and return the counts of `erase`."""

    def erase(self, namespace_prefix: Sequence[str]) -> dict[str, int]:
        """Delete everything under a prefix for good, and check that it is gone.

        Args:
            namespace_prefix: Such as `core.thread_names.notes_of_user(user_id)`.

        Returns:
            How many `items` there were. A `JsonStore` also returns in how many `files`, how many
            renamed `damaged_files` were deleted, and how many are `damaged_files_left`: they may
            contain items under the prefix, and the log names them.

        Raises:
            StoreError: When it fails, or something is still there, for example a concurrent put.
        """
        prefix = tuple(namespace_prefix)
        counts = self._erase(prefix)
        if left := self._items_under(prefix, 1):
            raise StoreError(
                f"{counts['items']} items under {prefix} were deleted, but {left[0].namespace} has "
                f"one again: another writer stores items there. Stop it, and erase again."
            )
        return counts

    aerase = in_thread(erase)

    def flush(self) -> None:
        """Write all pending puts; databases have none."""

    def damaged_texts(self, namespace_prefix: Sequence[str]) -> list[str]:  # noqa: ARG002
        """Return the contents of damaged files that may contain items under a prefix."""
        return []

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute several operations, and return their results in order.

        Raises:
            InvalidNamespaceError: When a label is empty, not a text, or contains a period.
            ConfigurationError: When a value cannot be stored as JSON.
            StoreError: When the store cannot be read or written.
        """
        ops = [*ops]
        for op in ops:
            validate_op_namespace(op)
        values = {
            (tuple(op.namespace), op.key): None if op.value is None else value_as_json(op.value)
            for op in ops
            if isinstance(op, PutOp)
        }
        results = [self._answer(op) for op in ops]
        if values:
            self._put(values)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same as `batch` without blocking the event loop."""
        return await in_own_thread(self.batch, [*ops])

    def _answer(self, op: Op) -> Result:
        """Return the result of a read, or None for a put."""
        if isinstance(op, GetOp):
            item = self._find((tuple(op.namespace), op.key))
            return None if item is None else Item(**_fields(item))
        if isinstance(op, SearchOp):
            return self._searched(op)
        if isinstance(op, ListNamespacesOp):
            return self._listed(op)
        if isinstance(op, PutOp):
            return None
        raise TypeError(f"Unknown operation type: {type(op)}")

    def _searched(self, op: SearchOp) -> list[SearchItem]:
        end = op.offset + op.limit
        items = self._items_under(tuple(op.namespace_prefix), None if op.filter else end)
        found = (each for each in map(_fields, items) if matches_filter(each["value"], op.filter))
        return [SearchItem(**fields) for fields in islice(found, op.offset, end)]

    def _listed(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        prefixes = [literal_prefix(c.path) for c in conditions if c.match_type == "prefix"]
        found = {
            namespace[: op.max_depth]
            for namespace in self._namespaces_under(max(prefixes, key=len, default=()))
            if all(
                matches_path(namespace, one.path, at_end=one.match_type == "suffix")
                for one in conditions
            )
        }
        return sorted(found)[op.offset : op.offset + op.limit]


def _fields(item: StoredItem) -> dict[str, Any]:
    try:
        value = json.loads(item.value)
    except ValueError as error:
        raise CorruptStoreError(
            f"Items: a stored value cannot be read ({error}). Nothing was returned; restore a "
            f"backup, or put or delete the item."
        ) from error
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": value,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }
