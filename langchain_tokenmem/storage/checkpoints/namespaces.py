"""Rows of the checkpoint namespaces of threads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    true,
    update,
)

from langchain_tokenmem.core.thread_names import check_thread_id, thread_session
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Codec, Transaction
from langchain_tokenmem.storage.checkpoints.tables import (
    channel_values,
    checkpoints,
    namespaces,
    thread_messages,
    thread_sessions,
    writes,
)
from langchain_tokenmem.storage.checkpoints.thread_sessions import (
    ThreadSession,
    damaged_thread,
    make_thread_session,
)
from langchain_tokenmem.storage.database.database import is_writer, sqlite_driver
from langchain_tokenmem.storage.database.statements import Statement, insert_unless_there
from langchain_tokenmem.storage.transcripts.encoded_message import key_of
from langchain_tokenmem.storage.transcripts.message_rows import chunks

_MOST_LEAVES = 64
"""Branches whose last checkpoint is remembered; older ones stay readable."""


@dataclass(frozen=True)
class Namespace:
    """One checkpoint namespace of a thread.

    Attributes:
        namespace_id: Its number, never given twice.
        thread_id: The thread.
        ns: The namespace.
        session_number: The session that holds its messages.
        checkpoint_count: How many checkpoints it has.
        last_value_number: Number of its last large value.
        latest: Id of the checkpoint that a run goes on from; None when there is none.
        leaves: Ids of the checkpoints that no other one follows, oldest first.
    """

    namespace_id: int
    thread_id: str
    ns: str
    session_number: int
    checkpoint_count: int = 0
    last_value_number: int = 0
    latest: str | None = None
    leaves: tuple[str, ...] = ()

    @cached_property
    def session_id(self) -> str:
        """The session that holds its messages."""
        return thread_session(self.thread_id, self.ns)

    def with_new(self, checkpoint_id: str, parent: str | None) -> Namespace:
        """Return the namespace with one checkpoint more."""
        # A child of the latest one is the latest even where another machine's clock is ahead.
        leads = self.latest is None or parent == self.latest or checkpoint_id > self.latest
        leaves = (*(leaf for leaf in self.leaves if leaf != parent), checkpoint_id)
        return replace(
            self,
            checkpoint_count=self.checkpoint_count + 1,
            latest=checkpoint_id if leads else self.latest,
            leaves=leaves,
        )


def _columns(namespace: Namespace) -> dict[str, Any]:
    return {
        "namespace_id": namespace.namespace_id,
        "thread_key": key_of(namespace.thread_id),
        "checkpoint_ns_key": key_of(namespace.ns),
        "fingerprint": _fingerprint(namespace.thread_id, namespace.ns),
        "thread_id": namespace.thread_id,
        "checkpoint_ns": namespace.ns,
        "session_number": namespace.session_number,
        "checkpoint_count": namespace.checkpoint_count,
        "last_value_number": namespace.last_value_number,
        "latest_checkpoint_id": namespace.latest,
        "leaf_checkpoint_ids": json.dumps(namespace.leaves[-_MOST_LEAVES:]),
    }


def _fingerprint(thread_id: str, ns: str) -> str:
    """Return a text that begins alike for all namespaces of a thread."""
    return _hashed(key_of(thread_id)) + _hashed(key_of(ns))


def _hashed(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


_OWN = select(namespaces).where(
    namespaces.c.thread_key == bindparam("thread"),
    namespaces.c.checkpoint_ns_key == bindparam("ns"),
)
_FIND = Statement(_OWN)
_FIND_LOCKED = Statement(_OWN.with_for_update())
_LOCK_ORDER = (
    namespaces.c.thread_key,
    namespaces.c.checkpoint_ns_key != key_of(""),
    namespaces.c.namespace_id,
)
"""The graph's own namespace is locked first, as by what makes a new one."""
_CHANGING = (
    *("checkpoint_count", "last_value_number", "latest_checkpoint_id", "leaf_checkpoint_ids"),
    "seal",
)
_SAVE = Statement(update(namespaces).where(namespaces.c.namespace_id == bindparam("b_id")))


def find_namespace(tx: Transaction, thread_id: Any, ns: str) -> Namespace | None:
    """Return a namespace of a thread, checked; None when there never was one.

    Raises:
        CorruptStoreError: When its row is damaged, or cannot be found and must be there.
        ScopeError: When the thread's id cannot be one.
    """
    key = key_of(check_thread_id(thread_id))
    names = {"thread": key, "ns": key_of(ns)}
    query = _FIND_LOCKED if is_writer(tx.connection) else _FIND
    row = query.first(tx.connection, names)
    if row is None:
        by_key = exists(_OWN.with_only_columns(namespaces.c.namespace_id))
        by_name = exists().where(namespaces.c.fingerprint == _fingerprint(thread_id, ns))
        # The graph's own namespace goes with the thread only; those of sub-graphs may go before.
        own_key = key if ns == "" else None
        by_session = exists().where(thread_sessions.c.session_key == own_key)
        found = tx.connection.execute(select(by_key, by_name, by_session), names).one()
        if any(found) and not found[0]:
            raise damaged_thread(thread_id)
        return None
    namespace = _as_namespace(tx.codec, row)
    if (namespace.thread_id, namespace.ns) != (thread_id, ns):
        raise damaged_thread(thread_id)
    return namespace


def _as_namespace(codec: Codec, row: Mapping[Any, Any]) -> Namespace:
    if not codec.is_sealed(namespaces, row):
        raise damaged_thread(str(row["thread_id"]))
    latest = row["latest_checkpoint_id"]
    return Namespace(
        row["namespace_id"],
        row["thread_id"],
        row["checkpoint_ns"],
        row["session_number"],
        row["checkpoint_count"],
        row["last_value_number"],
        latest,
        tuple(json.loads(row["leaf_checkpoint_ids"])),
    )


def namespaces_of(tx: Transaction, thread_id: str | None) -> list[Namespace]:
    """Return every namespace of a thread, or of all threads.

    Raises:
        CorruptStoreError: When a row is damaged, or when table and index differ.
    """
    where: ColumnElement[bool] = true()
    if thread_id is not None:
        # Locked first: no namespace is made from then on that the next statement would not see.
        find_namespace(tx, thread_id, "")
        where = _is_of(key_of(thread_id))
    found = read_namespaces(tx, where)
    if thread_id is None:
        names = tx.connection.execute(select(namespaces.c.fingerprint)).scalars()
        if sorted(names) != sorted(_fingerprint(one.thread_id, one.ns) for one in found):
            raise CorruptStoreError(
                "The list of threads: table and index differ. Restore a backup."
            )
    elif any(one.thread_id != thread_id for one in found):
        raise damaged_thread(thread_id)
    return found


def _is_of(thread_key: str) -> ColumnElement[bool]:
    """Return what holds for the namespaces of a thread: one index finds what the other misses."""
    first, column = _hashed(thread_key), namespaces.c.fingerprint
    last = first + "g"  # past every hexadecimal digit
    return or_(namespaces.c.thread_key == thread_key, (column >= first) & (column < last))


def drop_thread(connection: Connection, thread_key: str) -> int:
    """Delete the checkpoints of a thread, damaged ones, too; return how many there were.

    Raises:
        CorruptStoreError: When an index gives the row of another thread, or the row's name is
            damaged.
    """
    query = select(namespaces.c.namespace_id, namespaces.c.thread_id).where(_is_of(thread_key))
    found = connection.execute(query).all()
    for row in found:
        if key_of(row.thread_id) != thread_key:
            raise CorruptStoreError(
                f"An index of threads gives the row of another one, {row.thread_id!r}, or its name "
                f"is damaged. Nothing was deleted; restore a backup, or look at the store with "
                f"`tokenmem doctor`."
            )
    counts = dict.fromkeys((checkpoints, writes, channel_values, namespaces), 0)
    for some in chunks([row.namespace_id for row in found]):
        for table in counts:
            mine = table.c.namespace_id.in_(some)
            counts[table] += connection.execute(delete(table).where(mine)).rowcount
    is_own = thread_sessions.c.thread_key == thread_key
    shared = select(thread_sessions.c.session_number).where(is_own)
    connection.execute(delete(thread_messages).where(thread_messages.c.session_number.in_(shared)))
    connection.execute(delete(thread_sessions).where(is_own))
    return counts[checkpoints]


def lock_threads(connection: Connection, thread_keys: Sequence[str]) -> None:
    """Let nobody else write to threads until the transaction is over.

    Before their sessions, as a put does: the two would wait for each other.
    """
    for some in chunks(sorted(thread_keys)):
        query = select(namespaces.c.namespace_id).where(namespaces.c.thread_key.in_(some))
        connection.execute(query.order_by(*_LOCK_ORDER).with_for_update()).all()


def read_namespaces(tx: Transaction, where: ColumnElement[bool]) -> list[Namespace]:
    """Return namespaces, checked; a transaction that writes locks their rows.

    Raises:
        CorruptStoreError: When the row of one is damaged.
    """
    query = select(namespaces).where(where).order_by(*_LOCK_ORDER)
    if is_writer(tx.connection):
        query = query.with_for_update()
    return [_as_namespace(tx.codec, row) for row in tx.connection.execute(query).mappings()]


def find_or_make_namespace(tx: Transaction, thread_id: str, ns: str) -> Namespace:
    """Return a namespace of a thread; make it if there is none."""
    found = find_namespace(tx, thread_id, ns)
    if found is None and sqlite_driver(tx.connection) is None:
        # Everybody else locks the namespace before its session, here the session is made first: who
        # makes one is alone, and who had to wait looks again.
        lock = func.pg_advisory_xact_lock(func.hashtextextended(f"tokenmem {thread_id}", 0))
        tx.connection.execute(select(lock))
        found = find_namespace(tx, thread_id, ns)
    if found is not None:
        return found
    if ns:
        # Retention and deletion lock the row of the graph's own namespace: they are over before
        # the new one begins, or see it. They would take away messages that it refers to.
        find_namespace(tx, thread_id, "")
    session = ThreadSession(0, thread_id, thread_session(thread_id, ns))
    number = make_thread_session(tx, session).session_number
    return make_namespace(tx, Namespace(0, thread_id, ns, number))


def make_namespace(tx: Transaction, namespace: Namespace) -> Namespace:
    """Insert a namespace of a thread, and return it with its number."""
    columns = _columns(namespace)
    del columns["namespace_id"]
    insert_unless_there(tx.connection, namespaces, {**columns, "seal": b""})
    names = {"thread": columns["thread_key"], "ns": columns["checkpoint_ns_key"]}
    row = tx.connection.execute(_OWN.with_for_update(), names).mappings().one()
    if row["seal"]:  # another writer made it meanwhile
        return _as_namespace(tx.codec, row)
    made = replace(namespace, namespace_id=row["namespace_id"])
    save_namespace(tx, made)
    return made


def save_namespace(tx: Transaction, namespace: Namespace) -> None:
    """Write the row back.

    Only what changes: SQLite writes an index anew whose columns are named, changed or not.
    """
    row = tx.codec.sealed(_columns(namespace))
    changing = {name: row[name] for name in _CHANGING}
    _SAVE.run(tx.connection, {**changing, "b_id": namespace.namespace_id})
