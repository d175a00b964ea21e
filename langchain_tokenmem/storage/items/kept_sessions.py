"""Marks on sessions that stay however long they are inactive: one item for each."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection

from langchain_tokenmem.core.stored_items import PutChange
from langchain_tokenmem.storage.items.rows import (
    change_items,
    delete_items,
    read_item,
    read_items,
)

KEPT_SESSIONS = ("tokenmem", "kept_sessions")
"""Namespace of the marks; the key of each is the id of its session."""


def mark(connection: Connection, session_id: str, now: datetime) -> None:
    """Mark a session."""
    change_items(connection, {(KEPT_SESSIONS, session_id): PutChange("{}", now)})


def drop_marks(connection: Connection, session_ids: Collection[str]) -> int:
    """Take the marks of sessions back; return how many there were."""
    return delete_items(connection, [(KEPT_SESSIONS, one) for one in sorted(session_ids)])


def is_marked(connection: Connection, session_ids: Collection[str]) -> bool:
    """Return whether one of these sessions is marked."""
    return any(read_item(connection, (KEPT_SESSIONS, one)) for one in sorted(session_ids))


def marked(connection: Connection) -> list[str]:
    """Return the ids of the sessions that are marked, in alphabetical order."""
    return sorted(item.key for item in read_items(connection, KEPT_SESSIONS, None, None))
