"""Partitions of the search index: their numbers, their owners, and what a scope covers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, update

from langchain_tokenmem.core.search_units import Scope, ScopePartitions
from langchain_tokenmem.storage.database.statements import Statement, insert_unless_there
from langchain_tokenmem.storage.search_index.outbox import VECTORS, enqueue
from langchain_tokenmem.storage.search_index.tables import owners, partitions, terms
from langchain_tokenmem.storage.transcripts.encoded_message import key_of
from langchain_tokenmem.storage.transcripts.sessions import (
    SessionRow,
    checked_id,
    find,
    find_by_key,
)
from langchain_tokenmem.storage.transcripts.tables import sessions

_OWN = select(
    partitions.c.partition_id,
    partitions.c.partition_key,
    partitions.c.owner_id,
    partitions.c.indexed_to_seq,
).where(partitions.c.partition_key == bindparam("key"))
_PARTITION = Statement(_OWN)
_PARTITION_LOCKED = Statement(_OWN.with_for_update())
_OWNER_ID = Statement(select(owners.c.owner_id).where(owners.c.owner_key == bindparam("key")))


@dataclass(frozen=True)
class Partition:
    """One row of the table.

    Attributes:
        number: Its number.
        key: `session_key`, or that of the documents of a session or a user.
        owner: Number of its owner.
        indexed_to: Last number that the lexical index has.
    """

    number: int
    key: str
    owner: int
    indexed_to: int


def is_of_messages(partition_key: str) -> bool:
    """Return whether a partition holds the messages of a session: its key is the session's."""
    return partition_key[0] == "="


def session_documents(session_key: str) -> str:
    """Return the key of the partition of a session's documents."""
    return f"d{session_key}"


def user_key(user_id: str) -> str:
    """Return the key of a user, as an owner and as a partition of documents."""
    return f"u{key_of(user_id)}"


def owner_key(session: SessionRow) -> str:
    """Return the key under which the owner of a session is known."""
    return user_key(session.user_id) if session.user_id else f"s{session.key}"


def partition_keys(
    session_keys: Iterable[str], session_id: str | None, user_id: str | None
) -> list[str]:
    """Return the keys of the partitions of sessions, and of a user where no session is named."""
    found = [key for one in session_keys for key in (one, session_documents(one))]
    if session_id is None and user_id is not None:
        found.append(user_key(user_id))
    return found


def find_partition(connection: Connection, key: str, *, lock: bool = False) -> Partition | None:
    """Return a partition by its key; on PostgreSQL locked, if asked for."""
    row = (_PARTITION_LOCKED if lock else _PARTITION).first(connection, {"key": key})
    return None if row is None else Partition(*row.values())


def find_or_make_partition(
    connection: Connection, key: str, owner: str, indexed_to: int = 0
) -> Partition:
    """Return a partition; make it, and its owner's number, if there is none."""
    found = find_partition(connection, key)
    if found is None:
        row = {
            "partition_key": key,
            "owner_id": _find_or_make_owner(connection, owner),
            "indexed_to_seq": indexed_to,
            "unit_count": 0,
            "term_count": 0,
        }
        insert_unless_there(connection, partitions, row)
        return find_or_make_partition(connection, key, owner, indexed_to)
    return found


def _find_or_make_owner(connection: Connection, key: str) -> int:
    found = _OWNER_ID.first(connection, {"key": key})
    if found is None:
        insert_unless_there(connection, owners, {"owner_key": key})
        return _find_or_make_owner(connection, key)
    return int(found["owner_id"])


def move_to_user(connection: Connection, session: SessionRow) -> None:
    """Give a user what the index has of a session from before it had that user."""
    if session.user_id is None:
        return
    old = _OWNER_ID.first(connection, {"key": f"s{session.key}"})
    if old is None:
        return
    new = _find_or_make_owner(connection, owner_key(session))
    # A session without a user is the only one under its number.
    for table in (terms, partitions):
        own = table.c.owner_id == old["owner_id"]
        connection.execute(update(table).where(own).values(owner_id=new))
    connection.execute(delete(owners).where(owners.c.owner_id == old["owner_id"]))
    enqueue(connection, [VECTORS], session.key, session.first_seq)
    enqueue(connection, [VECTORS], session_documents(session.key), 1)


def lock_partition(connection: Connection, partition_key: str) -> Partition | None:
    """Return a partition, held against other writers; make it for a session.

    The session is held before its partition, as an append does it.
    """
    if is_of_messages(partition_key):
        session = find_by_key(connection, partition_key)
        if session is None:
            return None
        move_to_user(connection, session)
        find_or_make_partition(connection, session.key, owner_key(session), session.first_seq - 1)
    return find_partition(connection, partition_key, lock=True)


def partitions_in_scope(connection: Connection, scope: Scope) -> ScopePartitions | None:
    """Return the partitions that a scope may search; None when there are none.

    Raises:
        ScopeError: When an id is blank, or the session belongs to another user.
    """
    checked_id(scope.session_id)
    session = find(connection, scope.session_id, scope.user_id)
    query = select(partitions.c.partition_id, partitions.c.owner_id)
    if scope.whole_user:
        key = user_key(checked_id(scope.user_id, "user_id"))
        query = query.join(owners, owners.c.owner_id == partitions.c.owner_id)
        query = query.where(owners.c.owner_key == key)
    elif session is not None:
        keys = (session.key, session_documents(session.key))
        query = query.where(partitions.c.partition_key.in_(keys))
    else:
        return None
    rows = connection.execute(query.order_by(partitions.c.partition_id)).all()
    if not rows:
        return None
    numbers = tuple(row.partition_id for row in rows)
    return ScopePartitions(rows[0].owner_id, numbers, whole=scope.whole_user)


def keys_in_scope(scope: Scope) -> Any:
    """Return the keys of the partitions that a scope may have, or a query for them."""
    key = key_of(scope.session_id)
    if not scope.whole_user:
        return (key, session_documents(key))
    user_id = scope.user_id or ""
    own = select(owners.c.owner_id).where(owners.c.owner_key == user_key(user_id))
    return (
        select(sessions.c.session_key)
        .where(sessions.c.user_id == user_id)
        .union(
            select(partitions.c.partition_key).where(partitions.c.owner_id == own.scalar_subquery())
        )
    )
