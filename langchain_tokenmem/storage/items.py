"""Rows of a LangGraph store: notes, and whatever else an application keeps there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, and_, delete, or_, select, true
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from langchain_tokenmem.core.note_namespaces import owner_label, session_label
from langchain_tokenmem.core.stored_items import (
    ChangedItems,
    ItemChange,
    ItemId,
    Namespace,
    StoredItem,
    changed,
)
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.database import chunks
from langchain_tokenmem.storage.json_values import from_json, to_json
from langchain_tokenmem.storage.tables import items

_LONGEST = 2_000
"""Characters of a namespace, or a key; PostgreSQL's indexes take about 2,700 bytes."""

_MANY = 50
"""Items that are read by name; of more, all are."""


@dataclass(frozen=True)
class ItemRows:
    """The items of a database as a transaction sees them.

    Args:
        connection: In the transaction.
    """

    connection: Connection

    def find(self, item_id: ItemId) -> StoredItem | None:
        """Return an item."""
        row = self.connection.execute(select(items).where(_is_item(item_id))).first()
        return None if row is None else _item(row)

    def under(
        self, prefix: Namespace, live_at: datetime | None, most: int | None
    ) -> Sequence[StoredItem]:
        """Return the items under a prefix, newest first.

        Args:
            prefix: Labels from the root on.
            live_at: Leaves out what has expired then.
            most: How many are enough.
        """
        order = (items.c.updated_at.desc(), items.c.namespace, items.c.key)
        query = select(items).where(_under(prefix), _live(live_at)).order_by(*order).limit(most)
        return [_item(row) for row in self.connection.execute(query)]

    def namespaces(self, prefix: Namespace, live_at: datetime | None) -> set[Namespace]:
        """Return the namespaces under a prefix that hold items."""
        query = select(items.c.namespace).where(_under(prefix), _live(live_at)).distinct()
        return {tuple(from_json(text)) for text in self.connection.execute(query).scalars()}

    def changed_items(
        self, namespace: Namespace, versions: Mapping[str, str]
    ) -> ChangedItems | None:
        """Return what has changed in a namespace; None where an item of it can expire.

        Args:
            namespace: All its labels.
            versions: Of the items that were read before, by their keys.
        """
        is_here = items.c.namespace == _text(namespace)
        found = self.connection.execute(select(items.c.key, items.c.version).where(is_here))
        held = {from_json(row.key): row.version for row in found}
        if held == versions:
            return ChangedItems(versions, {})
        unread = [key for key, version in held.items() if versions.get(key) != version]
        if len(unread) <= _MANY:
            is_here = and_(is_here, items.c.key.in_(map(_key_text, unread)))
        rows = self.connection.execute(select(items).where(is_here))
        read = {from_json(row.key): row for row in rows}
        if any(row.expires_at is not None for row in read.values()):
            return None
        kept = {key: held[key] for key in held.keys() - set(unread)}
        now = {key: row.version for key, row in read.items()}
        return ChangedItems(kept | now, {key: _item(row) for key, row in read.items()})

    def change(self, changes: Mapping[ItemId, ItemChange]) -> None:
        """Store changes of items, in one order: two transactions never wait for each other.

        Raises:
            ConfigurationError: When a namespace or a key is too long.
        """
        for item_id in sorted(changes):
            after = changed(item_id, self.find(item_id), changes[item_id])
            if after is None:
                self.connection.execute(delete(items).where(_is_item(item_id)))
            else:
                _upsert(self.connection, _columns(after))

    def sweep(self, now: datetime) -> int:
        """Delete what has expired; return how many items there were."""
        expired = delete(items).where(items.c.expires_at <= _time(now))
        return self.connection.execute(expired).rowcount

    def delete_under(self, prefix: Namespace) -> int:
        """Delete all items under a prefix; return how many there were."""
        return self.connection.execute(delete(items).where(_under(prefix))).rowcount


def delete_of_owner(connection: Connection, owner: str) -> int:
    """Delete the notes of an owner, by its label; return how many there were."""
    return connection.execute(delete(items).where(items.c.owner == owner)).rowcount


def delete_of_sessions(
    connection: Connection, labels: Iterable[str], owners: Sequence[str] | None
) -> int:
    """Delete the notes of sessions; return how many there were.

    Args:
        connection: In a transaction that writes.
        labels: Labels of the sessions.
        owners: Labels of the owners whose notes are meant; None for all.
    """
    whose = true() if owners is None else items.c.owner.in_(owners)
    return sum(
        connection.execute(delete(items).where(items.c.session.in_(some), whose)).rowcount
        for some in chunks(set(labels))
    )


def sessions_changed_since(
    connection: Connection, labels: Iterable[str], since: datetime
) -> set[str]:
    """Return the labels of the sessions with a note that is as new as a time, or newer."""
    found: set[str] = set()
    for some in chunks(labels):
        own = (items.c.session.in_(some), items.c.updated_at >= _time(since))
        found.update(connection.execute(select(items.c.session).where(*own).distinct()).scalars())
    return found


def _text(namespace: Namespace) -> str:
    """Return a namespace as text; that of a longer one begins with it, but for the bracket."""
    text = to_json(list(namespace))[0]
    _check_length(text, f"A namespace of {len(namespace)} labels", "fewer or shorter labels")
    return text


def _key_text(key: str) -> str:
    text = to_json(key)[0]  # a database takes no half of a surrogate pair
    _check_length(text, "A key", "a shorter one")
    return text


def _check_length(text: str, what: str, instead: str) -> None:
    if len(text) > _LONGEST:
        raise ConfigurationError(
            f"{what} has {len(text):,} characters, and {_LONGEST:,} are the most; use {instead}."
        )


def _under(prefix: Namespace) -> ColumnElement[bool]:
    if not prefix:
        return true()
    text = _text(prefix)
    # No LIKE: SQLite's takes "A" for "a".
    below = and_(items.c.namespace >= text[:-1] + ",", items.c.namespace < text[:-1] + "-")
    return or_(items.c.namespace == text, below)


def _is_item(item_id: ItemId) -> ColumnElement[bool]:
    namespace, key = item_id
    return and_(items.c.namespace == _text(namespace), items.c.key == _key_text(key))


def _live(at: datetime | None) -> ColumnElement[bool]:
    expiry = items.c.expires_at
    return true() if at is None else or_(expiry.is_(None), expiry > _time(at))


def _time(at: datetime) -> str:
    """Return a time as text that is ordered as times are."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _columns(item: StoredItem) -> dict[str, Any]:
    return {
        "namespace": _text(item.namespace),
        "key": _key_text(item.key),
        "owner": owner_label(item.namespace),
        "session": session_label(item.namespace),
        "created_at": _time(item.created_at),
        "updated_at": _time(item.updated_at),
        "ttl_minutes": None if item.ttl_minutes is None else float(item.ttl_minutes),
        "expires_at": None if item.expires_at is None else _time(item.expires_at),
        "version": uuid4().hex,
        "value": item.value,
    }


def _item(row: Any) -> StoredItem:
    return StoredItem(
        namespace=tuple(from_json(row.namespace)),
        key=from_json(row.key),
        value=row.value,
        created_at=datetime.fromisoformat(row.created_at),
        updated_at=datetime.fromisoformat(row.updated_at),
        ttl_minutes=row.ttl_minutes,
        expires_at=None if row.expires_at is None else datetime.fromisoformat(row.expires_at),
    )


def _upsert(connection: Connection, columns: dict[str, Any]) -> None:
    is_postgres = connection.dialect.name == "postgresql"
    insert = postgres_insert(items) if is_postgres else sqlite_insert(items)
    key = ("namespace", "key")
    others = {name: value for name, value in columns.items() if name not in key}
    connection.execute(
        insert.values(columns).on_conflict_do_update(index_elements=key, set_=others)
    )
