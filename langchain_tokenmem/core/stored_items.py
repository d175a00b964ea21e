"""Items of a `BaseStore`, and the namespaces and filters that match them.

They behave as in LangGraph's own stores. Where those differ, they follow `InMemoryStore`, except
that a filter on values that cannot be compared finds nothing instead of raising.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain_tokenmem.errors import ConfigurationError

Namespace = tuple[str, ...]
ItemId = tuple[Namespace, str]
"""Namespace and key of an item."""


@dataclass(frozen=True)
class StoredItem:
    """A stored item.

    Attributes:
        namespace: Labels, starting at the root.
        key: Its key in the namespace.
        value: The value as JSON.
        created_at: When its key was first put, in UTC.
        updated_at: When it was last put, in UTC.
    """

    namespace: Namespace
    key: str
    value: str
    created_at: datetime
    updated_at: datetime

    @property
    def item_id(self) -> ItemId:
        """Namespace and key."""
        return self.namespace, self.key


def value_as_json(value: Mapping[str, Any]) -> str:
    """Return the value of an item as JSON text, in ASCII, which every database accepts.

    Raises:
        ConfigurationError: When it cannot be represented in JSON.
    """
    try:
        return json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"The value of an item must be a mapping valid in JSON: texts, numbers, True, "
            f"False, None, lists and dicts with texts as keys ({error})."
        ) from error


def starts_with(namespace: Sequence[str], prefix: Sequence[str]) -> bool:
    """Return whether a namespace is under a prefix, or is the prefix itself."""
    return tuple(namespace[: len(prefix)]) == tuple(prefix)


def matches_path(namespace: Sequence[str], path: Sequence[str], *, at_end: bool) -> bool:
    """Return whether a namespace begins, or ends, with a path; `*` matches any label."""
    if len(namespace) < len(path):
        return False
    part = namespace[len(namespace) - len(path) :] if at_end else namespace[: len(path)]
    return all(wanted in {"*", label} for label, wanted in zip(part, path, strict=True))


def literal_prefix(path: Sequence[str]) -> Namespace:
    """Return the labels of a path before its first `*`."""
    return tuple(path[: path.index("*")] if "*" in path else path)


def matches_filter(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Return whether a value matches the filter of a search.

    Args:
        value: The value of an item.
        wanted: Values by key, or operators (`{"$gt": 3}`); a key with dots is also a path.

    Raises:
        ValueError: When an operator is unknown.
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
    # In Python True equals 1, in JSON it does not.
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
