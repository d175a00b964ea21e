"""Items of a `BaseStore`: namespaces and filters that match them, and changes of one.

As LangGraph's own stores have it. Where those differ, as `InMemoryStore` does it, but for a filter
over values that cannot be compared: it finds nothing instead of raising.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from langchain_tokenmem.errors import ConfigurationError

Namespace = tuple[str, ...]
ItemId = tuple[Namespace, str]
"""Namespace and key of an item."""


@dataclass(frozen=True)
class StoredItem:
    """An item as it is stored.

    Attributes:
        namespace: Labels from the root on.
        key: Its name in the namespace.
        value: The value as JSON.
        created_at: When its key was first put, UTC.
        updated_at: When it was last put, UTC.
        ttl_minutes: Minutes that it lives after a put or a refreshing read; None for ever.
        expires_at: When that time is over.
    """

    namespace: Namespace
    key: str
    value: str
    created_at: datetime
    updated_at: datetime
    ttl_minutes: float | None = None
    expires_at: datetime | None = None

    @property
    def item_id(self) -> ItemId:
        """Namespace and key."""
        return self.namespace, self.key

    def is_live(self, at: datetime | None) -> bool:
        """Return whether it has not expired at a time; without one it always is."""
        return at is None or self.expires_at is None or self.expires_at > at


@dataclass(frozen=True)
class ChangedItems:
    """The items of a namespace, against what was read of it before.

    Attributes:
        versions: Version of each item that there is now, by a name that its store has for it.
        changed: The items that are new, or other than they were, by the same names.
    """

    versions: Mapping[str, Any]
    changed: Mapping[str, StoredItem]


@dataclass(frozen=True)
class PutChange:
    """A value that is put.

    Attributes:
        value: The value as JSON.
        at: When, UTC.
        ttl_minutes: Minutes that it is to live.
        refreshed_at: When its time to live began anew.
        first_at: When its key was put before, in a change that this one stands for, too.
        is_anew: Whether the key was deleted before that, so that its age is lost.
    """

    value: str
    at: datetime
    ttl_minutes: float | None = None
    refreshed_at: datetime | None = None
    first_at: datetime | None = None
    is_anew: bool = False


@dataclass(frozen=True)
class RefreshChange:
    """A time to live that begins anew; nothing where the item has none.

    Attributes:
        at: When, UTC.
    """

    at: datetime


@dataclass(frozen=True)
class DeleteChange:
    """An item that is deleted."""


ItemChange = PutChange | RefreshChange | DeleteChange


def changed(item_id: ItemId, before: StoredItem | None, change: ItemChange) -> StoredItem | None:
    """Return an item after a change, None where there is none then."""
    if isinstance(change, DeleteChange):
        return None
    if isinstance(change, RefreshChange):
        return before and replace(before, expires_at=_expiry(before.ttl_minutes, change.at))
    created_at = change.first_at or change.at
    if before is not None and not change.is_anew:
        created_at = before.created_at
    return StoredItem(
        *item_id,
        value=change.value,
        created_at=created_at,
        updated_at=change.at,
        ttl_minutes=change.ttl_minutes,
        expires_at=_expiry(change.ttl_minutes, change.refreshed_at or change.at),
    )


def one_after_other(first: ItemChange | None, second: ItemChange) -> ItemChange:
    """Return one change that does what two do."""
    if isinstance(second, RefreshChange):
        if isinstance(first, PutChange):
            return replace(first, refreshed_at=second.at)
        return first if isinstance(first, DeleteChange) else second
    if isinstance(second, PutChange) and isinstance(first, PutChange):
        return replace(second, first_at=first.first_at or first.at, is_anew=first.is_anew)
    if isinstance(second, PutChange):
        return replace(second, is_anew=isinstance(first, DeleteChange))
    return second


def _expiry(minutes: float | None, at: datetime) -> datetime | None:
    try:
        return None if minutes is None else at + timedelta(minutes=minutes)
    except OverflowError:  # behind the last day that there is
        return None


def value_as_json(value: Mapping[str, Any]) -> str:
    """Return the value of an item as JSON text, in ASCII: no database stumbles over it.

    Raises:
        ConfigurationError: When it is not what JSON holds.
    """
    try:
        return json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"The value of an item is a mapping of what JSON holds: texts, numbers, True, False, "
            f"None, lists and dicts with texts as keys ({error})."
        ) from error


def newest_first(items: Iterable[StoredItem]) -> list[StoredItem]:
    """Return items in the order of a search without a query: the last put one first."""
    by_id = sorted(items, key=lambda item: item.item_id)
    return sorted(by_id, key=lambda item: item.updated_at, reverse=True)


def starts_with(namespace: Sequence[str], prefix: Sequence[str]) -> bool:
    """Return whether a namespace is one of those under a prefix, or the prefix itself."""
    return tuple(namespace[: len(prefix)]) == tuple(prefix)


def matches_path(namespace: Sequence[str], path: Sequence[str], *, at_end: bool) -> bool:
    """Return whether a namespace begins, or ends, with a path; `*` stands for any label."""
    if len(namespace) < len(path):
        return False
    part = namespace[len(namespace) - len(path) :] if at_end else namespace[: len(path)]
    return all(wanted in {"*", label} for label, wanted in zip(part, path, strict=True))


def literal_prefix(path: Sequence[str]) -> Namespace:
    """Return the labels of a path before its first `*`."""
    return tuple(path[: path.index("*")] if "*" in path else path)


def matches_filter(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Return whether a value is what a search's filter asks for.

    Args:
        value: The value of an item.
        wanted: Values by key, or operators (`{"$gt": 3}`); a key with dots is also a path.

    Raises:
        ValueError: When an operator is none.
    """
    return all(_matches(_at_key(value, key), asked) for key, asked in (wanted or {}).items())


def _at_key(value: Any, key: str) -> Any:
    if not isinstance(value, Mapping):
        return None
    if key in value or "." not in key:
        return value.get(key)
    first, _, rest = key.partition(".")
    return _at_key(value.get(first), rest)


def _matches(found: Any, asked: Any) -> bool:
    if isinstance(asked, Mapping):
        if any(str(key).startswith("$") for key in asked):
            return all(_compare(found, name, other) for name, other in asked.items())
        return isinstance(found, Mapping) and all(
            _matches(found.get(key), other) for key, other in asked.items()
        )
    if isinstance(asked, list | tuple):
        return (
            isinstance(found, list)
            and len(found) == len(asked)
            and all(map(_matches, found, asked))
        )
    # To Python True is 1, to JSON it is not.
    return bool(found == asked) and isinstance(found, bool) == isinstance(asked, bool)


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def _compare(found: Any, name: str, asked: Any) -> bool:
    if name in {"$eq", "$ne"}:
        return _matches(found, asked) == (name == "$eq")
    if name not in _ORDERS:
        raise ValueError(f"Unsupported operator: {name}. A filter takes $eq, $ne, $gt, $gte, ...")
    kinds = (int, float), (str,)
    is_same_kind = any(isinstance(found, kind) and isinstance(asked, kind) for kind in kinds)
    return is_same_kind and _ORDERS[name](found, asked)
