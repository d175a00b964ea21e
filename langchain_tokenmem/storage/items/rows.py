"""Rows of items: how one is found, read and checked, and how one is written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, true
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from langchain_tokenmem.core.note_namespaces import owner_label, session_label
from langchain_tokenmem.core.stored_items import (
    ChangedItems,
    ItemChange,
    ItemId,
    Namespace,
    RefreshChange,
    StoredItem,
    changed,
)
from langchain_tokenmem.core.thread_names import check_characters
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.storage.database.database import is_writer
from langchain_tokenmem.storage.database.json_values import from_json, to_json
from langchain_tokenmem.storage.items.tables import items
from langchain_tokenmem.storage.transcripts.encoded_message import (
    checksum,
    key_of,
)

_LONGEST_LABEL = 100
_LONGEST_NAMESPACE = 1_500
"""Bytes; PostgreSQL's indexes take about 2,700 bytes for all columns of a key."""

_SHORTENED = "~"

_MANY = 50
"""Sessions from which on is asked first which of them have notes; items that are read by name."""


def _label_key(label: str) -> str:
    """Return a label as a column can hold it, never the same for two labels."""
    check_characters(label, "A label of a namespace")
    if len(label) <= _LONGEST_LABEL and not label.startswith(_SHORTENED):
        return label
    return f"{_SHORTENED}{hashlib.sha256(label.encode()).hexdigest()}"


def _namespace_key(namespace: Namespace) -> str:
    key = ".".join(map(_label_key, namespace))
    if len(key.encode()) > _LONGEST_NAMESPACE:
        raise ConfigurationError(
            f"A namespace of {len(namespace)} labels is longer than a database's key can be "
            f"({len(key.encode()):,} bytes); use fewer or shorter labels."
        )
    return key


def _under(prefix: Namespace) -> ColumnElement[bool]:
    if not prefix:
        return true()
    key, column = _namespace_key(prefix), items.c.namespace_key
    # The slash stands right behind the period.
    return or_(column == key, and_(column > f"{key}.", column < f"{key}/"))


def _is_item(item_id: ItemId) -> ColumnElement[bool]:
    namespace, key = item_id
    return and_(items.c.namespace_key == _namespace_key(namespace), items.c.item_key == key_of(key))


def _live(at: datetime | None) -> ColumnElement[bool]:
    expiry = items.c.expires_at
    return true() if at is None else or_(expiry.is_(None), expiry > _text_of(at))


def _text_of(at: datetime) -> str:
    """Return a time as text that is ordered as times are."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _columns(item: StoredItem) -> dict[str, Any]:
    owner, session = owner_label(item.namespace), session_label(item.namespace)
    columns = {
        "namespace_key": _namespace_key(item.namespace),
        "item_key": key_of(item.key),
        "owner_label": None if owner is None else _label_key(owner),
        "session_label": None if session is None else _label_key(session),
        "created_at": _text_of(item.created_at),
        "updated_at": _text_of(item.updated_at),
        "ttl_minutes": None if item.ttl_minutes is None else float(item.ttl_minutes),
        "expires_at": None if item.expires_at is None else _text_of(item.expires_at),
        "namespace": to_json(list(item.namespace))[0],
        "key": item.key,
        "value": item.value,
    }
    return {**columns, "checksum": checksum(columns.values())}


_ALL = select(*(column for column in items.c if column is not items.c.checksum), items.c.checksum)
"""Selects all columns, in the order in which the checksum is over them, and the checksum last."""


@lru_cache(maxsize=4_096)
def _item(row: tuple[Any, ...]) -> StoredItem:
    """Return the item of a row, checked.

    The items of rows that were read before are kept: a question may read a thousand notes, each of
    which is checked in 6 microseconds, and found again in 1.
    """
    *columns, found = row
    (namespace_key, _, _, _, created, updated, minutes, expires, namespace, key, value) = columns
    if checksum(columns) != found:
        raise CorruptStoreError(
            f"An item in {namespace_key!r} is damaged. Nothing was returned; restore a backup, or "
            f"put the item again."
        )
    return StoredItem(
        namespace=_namespace(namespace),
        key=key,
        value=value,
        created_at=datetime.fromisoformat(created),
        updated_at=datetime.fromisoformat(updated),
        ttl_minutes=minutes,
        expires_at=None if expires is None else datetime.fromisoformat(expires),
    )


@lru_cache(maxsize=1_024)
def _namespace(text: str) -> Namespace:
    return tuple(from_json(text))


def read_item(connection: Connection, item_id: ItemId) -> StoredItem | None:
    """Return an item, checked; in a transaction that writes nobody else changes it from then on.

    Raises:
        CorruptStoreError: When it is damaged.
    """
    query = _ALL.where(_is_item(item_id))
    if is_writer(connection):
        query = query.with_for_update()
    row = connection.execute(query).first()
    return None if row is None else _item(tuple(row))


def read_items(
    connection: Connection, prefix: Namespace, live_at: datetime | None, most: int | None
) -> list[StoredItem]:
    """Return the items under a prefix, newest first, checked.

    Args:
        connection: In a transaction.
        prefix: Labels from the root on.
        live_at: Leaves out what has expired then.
        most: How many are enough.

    Raises:
        CorruptStoreError: When one is damaged.
    """
    order = (items.c.updated_at.desc(), items.c.namespace_key, items.c.item_key)
    query = _ALL.where(_under(prefix), _live(live_at)).order_by(*order).limit(most)
    return [_item(tuple(row)) for row in connection.execute(query)]


def read_namespaces(
    connection: Connection, prefix: Namespace, live_at: datetime | None
) -> set[Namespace]:
    """Return the namespaces under a prefix that hold items."""
    query = select(items.c.namespace).where(_under(prefix), _live(live_at)).distinct()
    return set(map(_namespace, connection.execute(query).scalars()))


def read_changed(
    connection: Connection, namespace: Namespace, versions: Mapping[str, str]
) -> ChangedItems | None:
    """Return what has changed in a namespace; None where an item of it can expire.

    An item's version is its checksum, which is over all its columns.

    Args:
        connection: In a transaction.
        namespace: All its labels.
        versions: Of the items that were read before, by their keys in the table.

    Raises:
        CorruptStoreError: When one that has changed is damaged.
    """
    is_here = items.c.namespace_key == _namespace_key(namespace)
    found = connection.execute(select(items.c.item_key, items.c.checksum).where(is_here))
    held = dict(found.all())
    if held == versions:
        return ChangedItems(versions, {})
    unread = [key for key, version in held.items() if versions.get(key) != version]
    if len(unread) <= _MANY:
        is_here = and_(is_here, items.c.item_key.in_(unread))
    read = {row.item_key: row for row in connection.execute(_ALL.where(is_here))}
    if any(row.expires_at is not None for row in read.values()):
        return None
    kept = {key: held[key] for key in held.keys() - set(unread)}  # what has gone since is not read
    now = {key: row.checksum for key, row in read.items()}
    return ChangedItems(kept | now, {key: _item(tuple(row)) for key, row in read.items()})


def change_items(connection: Connection, changes: Mapping[ItemId, ItemChange]) -> None:
    """Store changes of items.

    Args:
        connection: In a transaction that writes.
        changes: What happens to each item.

    Raises:
        ConfigurationError: When a namespace is too long.
        CorruptStoreError: When an item is damaged whose time to live begins anew.
    """
    # In one order, so that two transactions never wait for each other.
    for item_id in sorted(changes):
        try:
            before = read_item(connection, item_id)
        except CorruptStoreError:
            if isinstance(changes[item_id], RefreshChange):
                raise
            before = None  # a damaged item can be put anew, or deleted
        after = changed(item_id, before, changes[item_id])
        if after is None:
            connection.execute(delete(items).where(_is_item(item_id)))
        else:
            _upsert(connection, _columns(after))


def _upsert(connection: Connection, columns: dict[str, Any]) -> None:
    is_postgres = connection.dialect.name == "postgresql"
    insert = postgres_insert(items) if is_postgres else sqlite_insert(items)
    key = ("namespace_key", "item_key")
    others = {name: value for name, value in columns.items() if name not in key}
    connection.execute(
        insert.values(columns).on_conflict_do_update(index_elements=key, set_=others)
    )


def sweep_items(connection: Connection, now: datetime) -> int:
    """Delete what has expired; return how many items there were."""
    return connection.execute(delete(items).where(items.c.expires_at <= _text_of(now))).rowcount


def delete_under(connection: Connection, prefix: Namespace) -> int:
    """Delete all items under a prefix; return how many there were."""
    return connection.execute(delete(items).where(_under(prefix))).rowcount


def delete_of_owner(connection: Connection, owner: str) -> int:
    """Delete the notes of an owner, by its label; return how many there were."""
    return connection.execute(
        delete(items).where(items.c.owner_label == _label_key(owner))
    ).rowcount


def delete_items(connection: Connection, ids: Iterable[ItemId]) -> int:
    """Delete items; return how many there were."""
    return sum(connection.execute(delete(items).where(_is_item(one))).rowcount for one in ids)


def changes_of_sessions(connection: Connection, sessions: Iterable[str]) -> dict[str, str]:
    """Return the time of the newest note of sessions, in ISO 8601, by the session's label.

    Args:
        connection: In a transaction.
        sessions: Labels of the sessions.
    """
    labels = {_label_key(label): label for label in sessions}
    newest = func.max(items.c.updated_at)
    query = select(items.c.session_label, newest).where(items.c.session_label.in_(labels))
    rows = connection.execute(query.group_by(items.c.session_label))
    return {labels[label]: moment for label, moment in rows}


def delete_of_sessions(
    connection: Connection, sessions: Iterable[str], owners: Sequence[str] | None
) -> int:
    """Delete the notes of sessions; return how many there were.

    Args:
        connection: In a transaction that writes.
        sessions: Labels of the sessions.
        owners: Labels of the owners whose notes are meant; None for all.
    """
    whose = true() if owners is None else items.c.owner_label.in_(list(map(_label_key, owners)))
    labels = set(map(_label_key, sessions))
    if len(labels) > _MANY:
        found = select(items.c.session_label).where(items.c.session_label.is_not(None), whose)
        labels &= set(connection.execute(found.distinct()).scalars())
    return sum(
        connection.execute(delete(items).where(items.c.session_label == label, whose)).rowcount
        for label in labels
    )
