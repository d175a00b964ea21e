"""Rows of a LangGraph store: notes, and anything else that an application keeps there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, or_, select, true
from sqlalchemy.dialects.postgresql import insert

from langchain_tokenmem.core.stored_items import ItemId, Namespace, StoredItem
from langchain_tokenmem.core.thread_names import owner_label, session_label
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.message_json import from_json, to_json
from langchain_tokenmem.storage.sessions import time_text
from langchain_tokenmem.storage.tables import items

_LONGEST = 2_000
"""Maximum characters of a namespace or key; PostgreSQL's indexes accept about 2,700 bytes."""


def find(connection: Connection, item_id: ItemId) -> StoredItem | None:
    """Return an item, or None if there is none."""
    row = connection.execute(select(items).where(_is_item(item_id))).first()
    return None if row is None else _item(row)


def items_under(connection: Connection, prefix: Namespace, most: int | None) -> list[StoredItem]:
    """Return the items under a prefix, newest first, at most `most` of them."""
    order = (items.c.updated_at.desc(), items.c.namespace, items.c.key)
    query = select(items).where(_under(prefix)).order_by(*order).limit(most)
    return [_item(row) for row in connection.execute(query)]


def namespaces_under(connection: Connection, prefix: Namespace) -> list[Namespace]:
    """Return the namespaces under a prefix that hold items."""
    query = select(items.c.namespace).where(_under(prefix)).distinct()
    return [_labels(text) for text in connection.execute(query).scalars()]


def put(connection: Connection, values: Mapping[ItemId, str | None]) -> None:
    """Store values as JSON, where None deletes; in a fixed order, so that writers never deadlock.

    Raises:
        ConfigurationError: When a namespace or a key is too long.
    """
    now = time_text(datetime.now(UTC))
    for item_id, value in sorted(values.items()):
        if value is None:
            connection.execute(delete(items).where(_is_item(item_id)))
        else:
            _upsert(connection, item_id, value, now)


def delete_under(connection: Connection, prefix: Namespace) -> int:
    """Delete all items under a prefix; return how many there were."""
    return connection.execute(delete(items).where(_under(prefix))).rowcount


def _text(namespace: Namespace) -> str:
    """Return a namespace as text; that of a longer one starts with it, except for the bracket."""
    what = f"A namespace of {len(namespace)} labels"
    return _as_json(list(namespace), what, "fewer or shorter labels")


def _labels(text: str) -> Namespace:
    return tuple(from_json(text))


def _key_text(key: str) -> str:
    return _as_json(key, "A key", "a shorter one")


def _as_json(name: Any, what: str, instead: str) -> str:
    text = to_json(name)[0]  # databases do not accept lone surrogates
    if len(text) > _LONGEST:
        raise ConfigurationError(
            f"{what} has {len(text):,} characters, and {_LONGEST:,} are the most; use {instead}."
        )
    return text


def _under(prefix: Namespace) -> ColumnElement[bool]:
    if not prefix:
        return true()
    text = _text(prefix)
    # No LIKE: SQLite's is case-insensitive.
    below = and_(items.c.namespace >= text[:-1] + ",", items.c.namespace < text[:-1] + "-")
    return or_(items.c.namespace == text, below)


def _is_item(item_id: ItemId) -> ColumnElement[bool]:
    namespace, key = item_id
    return and_(items.c.namespace == _text(namespace), items.c.key == _key_text(key))


def _item(row: Any) -> StoredItem:
    return StoredItem(
        namespace=_labels(row.namespace),
        key=from_json(row.key),
        value=row.value,
        created_at=datetime.fromisoformat(row.created_at),
        updated_at=datetime.fromisoformat(row.updated_at),
    )


def _upsert(connection: Connection, item_id: ItemId, value: str, now: str) -> None:
    namespace, key = item_id
    columns = {
        "namespace": _text(namespace),
        "key": _key_text(key),
        "owner": owner_label(namespace),
        "session": session_label(namespace),
        "created_at": now,
        "updated_at": now,
        "value": value,
    }
    changed = {"updated_at": now, "value": value}
    upsert = insert(items).on_conflict_do_update(index_elements=("namespace", "key"), set_=changed)
    connection.execute(upsert, columns)
