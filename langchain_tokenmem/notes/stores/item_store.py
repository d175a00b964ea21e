"""`ItemStore`: the part of a LangGraph `BaseStore` that is the same for files and databases."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

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
    TTLConfig,
    validate_op_namespace,
)

from langchain_tokenmem.background import in_own_thread
from langchain_tokenmem.core.stored_items import (
    ChangedItems,
    DeleteChange,
    ItemChange,
    ItemId,
    Namespace,
    PutChange,
    RefreshChange,
    StoredItem,
    literal_prefix,
    matches_filter,
    matches_path,
    value_as_json,
)
from langchain_tokenmem.notes.stores.ttl_sweeper import TtlSweeper


class ChangedItemsOp(NamedTuple):
    """An operation that asks what has changed in a namespace since it was read.

    Its result is the versions of all items, and the `Item`s that are new or other than they were,
    both by names that the store has for them. It is None where one of them can expire: to read such
    items begins their time anew.

    The plain way, to read a thousand notes again for every question, takes 20 ms on a database and
    10 on files; to ask takes 2 and 1 (benchmarks/notes_question.py).

    Attributes:
        namespace: All its labels.
        versions: As an earlier result gave them.
    """

    namespace: Namespace
    versions: Mapping[str, Any]


class EraseOp(NamedTuple):
    """An operation that deletes everything under a prefix for good, as `erase` does; counts it.

    Attributes:
        namespace_prefix: Labels from the root on.
    """

    namespace_prefix: Namespace


class ItemReader(Protocol):
    """Reads items as they are at one moment."""

    def find(self, item_id: ItemId) -> StoredItem | None:
        """Return an item."""

    def under(
        self, prefix: Namespace, live_at: datetime | None, most: int | None
    ) -> Sequence[StoredItem]:
        """Return the items under a prefix, newest first.

        Args:
            prefix: Labels from the root on.
            live_at: Leaves out what has expired then.
            most: How many are enough.
        """

    def namespaces(self, prefix: Namespace, live_at: datetime | None) -> Iterable[Namespace]:
        """Return the namespaces under a prefix that hold items."""

    def changed_items(
        self, namespace: Namespace, versions: Mapping[str, Any]
    ) -> ChangedItems | None:
        """Return what has changed in a namespace since its items had these versions.

        None where one of them can expire.
        """


class ItemStore(TtlSweeper, BaseStore):
    """Base of stores that read and change `StoredItem`s.

    Operations of one batch that read see what was stored before it; of several puts of one key the
    last one counts.

    Besides LangGraph's operations `batch` does `ChangedItemsOp` and `EraseOp`.

    Args:
        ttl: LangGraph's settings for items that expire.
    """

    supports_ttl = True

    def __init__(self, ttl: TTLConfig | None = None) -> None:
        super().__init__()
        self.ttl_config = ttl

    @abstractmethod
    def _reading(self) -> AbstractContextManager[ItemReader]:
        """Give a reader."""

    @abstractmethod
    def _change(self, changes: Mapping[ItemId, ItemChange]) -> None:
        """Store changes, all or none."""

    @abstractmethod
    def erase(self, namespace_prefix: Sequence[str]) -> dict[str, int]:
        """Delete everything under a prefix for good, and return how many `items` there were."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations, and return their results in order.

        Raises:
            InvalidNamespaceError: When a label is empty, no text, or holds a period.
            ConfigurationError: When a value is not what JSON holds.
            StoreError: When it cannot be read or written.
        """
        ops = [*ops]
        for op in ops:
            validate_op_namespace(op)
        now = datetime.now(UTC)
        puts = {(tuple(op.namespace), op.key): _put(op, now) for op in ops if isinstance(op, PutOp)}
        results: list[Result] = [None] * len(ops)
        refreshed: dict[ItemId, ItemChange] = {}
        asked = {place: op for place, op in enumerate(ops) if not isinstance(op, PutOp | EraseOp)}
        if asked:
            with self._reading() as reader:
                for place, op in asked.items():
                    results[place], read = self._answer(reader, op, now)
                    refreshed |= {one.item_id: RefreshChange(now) for one in read}
        if changes := refreshed | puts:
            self._change(changes)
        for place, op in enumerate(ops):
            if isinstance(op, EraseOp):
                results[place] = self.erase(op.namespace_prefix)["items"]
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same as `batch` without blocking the event loop."""
        return await in_own_thread(self.batch, [*ops])

    def _answer(
        self, reader: ItemReader, op: Op, now: datetime
    ) -> tuple[Result, Sequence[StoredItem]]:
        """Return the result of an operation that reads, and the items whose TTL it refreshes."""
        live_at = now if (self.ttl_config or {}).get("omit_expired") else None
        if isinstance(op, GetOp):
            one = reader.find((tuple(op.namespace), op.key))
            found = [one] if one and one.is_live(live_at) else []
            result: Result = next((Item(**fields) for fields in _fields(found)), None)
        elif isinstance(op, SearchOp):
            found = _searched(reader, op, live_at)
            result = [SearchItem(**fields) for fields in _fields(found)]
        elif isinstance(op, ListNamespacesOp):
            return _listed(reader, op, live_at), []
        elif isinstance(op, ChangedItemsOp):
            return _changes(reader.changed_items(op.namespace, op.versions)), []
        else:
            raise TypeError(f"Unknown operation type: {type(op)}")
        return result, [item for item in found if op.refresh_ttl and item.ttl_minutes is not None]


def _put(op: PutOp, now: datetime) -> ItemChange:
    return DeleteChange() if op.value is None else PutChange(value_as_json(op.value), now, op.ttl)


def _changes(read: ChangedItems | None) -> Any:
    if read is None:
        return None
    items = (Item(**fields) for fields in _fields([*read.changed.values()]))
    return read.versions, dict(zip(read.changed, items, strict=True))


def _searched(reader: ItemReader, op: SearchOp, live_at: datetime | None) -> list[StoredItem]:
    most = None if op.filter else op.offset + op.limit
    items = reader.under(tuple(op.namespace_prefix), live_at, most)
    if op.filter:
        values = zip(items, _values(items), strict=True)
        items = [item for item, value in values if matches_filter(value, op.filter)]
    return [*items[op.offset : op.offset + op.limit]]


def _listed(reader: ItemReader, op: ListNamespacesOp, live_at: datetime | None) -> list[Namespace]:
    conditions = op.match_conditions or ()
    prefix: Namespace = max(
        (literal_prefix(one.path) for one in conditions if one.match_type == "prefix"),
        key=len,
        default=(),
    )
    found = {
        namespace[: op.max_depth]
        for namespace in reader.namespaces(prefix, live_at)
        if all(
            matches_path(namespace, one.path, at_end=one.match_type == "suffix")
            for one in conditions
        )
    }
    return sorted(found)[op.offset : op.offset + op.limit]


def _values(items: Sequence[StoredItem]) -> list[Any]:
    """Return the values of items; read as one text, which takes half the time of a thousand."""
    return list(json.loads(f"[{','.join([item.value for item in items])}]"))


def _fields(items: Sequence[StoredItem]) -> Iterator[dict[str, Any]]:
    for item, value in zip(items, _values(items), strict=True):
        yield {
            "namespace": item.namespace,
            "key": item.key,
            "value": value,
            "created_at": item.created_at,
            "updated_at": item.updated_at,
        }
