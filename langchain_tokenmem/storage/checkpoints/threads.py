"""Whole threads: deleted, copied, and counted anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.core.thread_names import check_thread_id
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.checkpoints import checkpoint_rows
from langchain_tokenmem.storage.checkpoints.codec import Transaction
from langchain_tokenmem.storage.checkpoints.namespaces import (
    Namespace,
    drop_thread,
    lock_threads,
    make_namespace,
    namespaces_of,
    save_namespace,
)
from langchain_tokenmem.storage.checkpoints.records import Address, errors_about
from langchain_tokenmem.storage.checkpoints.store import CheckpointStore
from langchain_tokenmem.storage.checkpoints.tables import (
    SEALED,
    channel_values,
    thread_messages,
    thread_sessions,
    writes,
)
from langchain_tokenmem.storage.checkpoints.thread_sessions import (
    ThreadSession,
    damaged_thread,
    make_thread_session,
    sessions_of_threads,
    thread_sessions_of,
)
from langchain_tokenmem.storage.search_index.deletion import erase_sessions
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.appending import append_indexed
from langchain_tokenmem.storage.transcripts.edits import copy_edits, read_edits
from langchain_tokenmem.storage.transcripts.encoded_message import EncodedMessage, key_of
from langchain_tokenmem.storage.transcripts.message_rows import TranscriptRow, chunks, read_from
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, find, find_or_make, save


def delete_thread(store: CheckpointStore, thread_id: str) -> None:
    """Delete everything of a thread, its transcript included; a damaged one, too.

    Raises:
        CorruptStoreError: When an index gives the rows of another thread; nothing was deleted.
    """
    key = key_of(check_thread_id(thread_id))
    with store.database.writing(f"Thread {thread_id!r}") as connection:
        # First what a put takes first, so that the two never wait for one another.
        lock_threads(connection, [key])
        query = select(thread_sessions.c.session_id).where(thread_sessions.c.thread_key == key)
        names = connection.execute(query).scalars().all()
        found = sorted(sessions_of_threads(connection, [key]))
        gone = erase_sessions(connection, found)[1] if found else []
        drop_thread(connection, key)
    for name in names:
        store.messages.cache.forget(name)
    if found:
        store.database.forget_deleted()
        store.index.tell(Change("erased", gone))


def recount(tx: Transaction, namespace: Namespace) -> list[checkpoint_rows.CheckpointRow]:
    """Write down how many checkpoints a namespace has left, and return them."""
    left = checkpoint_rows.all_checkpoints(tx, namespace.namespace_id)
    followed = {row.parent for row in left}
    names = [row.id for row in left]
    last = names[-1] if names else None
    latest = namespace.latest if namespace.latest in names else last
    leaves = tuple(name for name in names if name not in followed)
    changed = replace(namespace, checkpoint_count=len(names), latest=latest, leaves=leaves)
    save_namespace(tx, changed)
    return left


def copy_thread(store: CheckpointStore, source: str, target: str) -> None:
    """Copy a thread with all checkpoints, pending writes and its transcript.

    Raises:
        ConfigurationError: When the target has checkpoints or a transcript of its own.
        CorruptStoreError: When a checkpoint, a pending write or a large value of the source is
            damaged or missing; nothing was copied.
    """
    store.index.make_ready()
    with store.writing(f"Thread {target!r}") as tx:
        found = namespaces_of(tx, check_thread_id(source))
        if not found:
            return
        if namespaces_of(tx, check_thread_id(target)):
            raise ConfigurationError(
                f"Thread {target!r} has checkpoints; copy to a new thread, or delete it first."
            )
        sessions = thread_sessions_of(tx, source)
        numbers = {one.session_number: _copy_session(tx, store, one, target) for one in sessions}
        for namespace in found:
            if namespace.session_number not in numbers:
                raise damaged_thread(source)
            number = numbers[namespace.session_number]
            new = replace(namespace, thread_id=target, session_number=number)
            _copy_namespace(tx, store, namespace, new)
    store.index.tell(Change("added"))


def _copy_namespace(
    tx: Transaction, store: CheckpointStore, source: Namespace, new: Namespace
) -> None:
    target = make_namespace(tx, new).namespace_id
    for table in (channel_values, writes):
        _copy_rows(tx, table, source.namespace_id, target)
    with errors_about(Address(source.thread_id, source.ns)):
        for row in checkpoint_rows.every_checkpoint(tx, source):
            store.check_parts(tx, source, row)
            checkpoint_rows.save_checkpoint(tx, target, row, is_new=True)


def _copy_session(
    tx: Transaction, store: CheckpointStore, source: ThreadSession, thread_id: str
) -> int:
    """Copy the messages of a session, and return the number of the new one."""
    session_id = thread_id + source.session_id.removeprefix(source.thread_id)
    new = replace(source, thread_id=thread_id, session_id=session_id)
    number = make_thread_session(tx, new).session_number
    _copy_rows(tx, thread_messages, source.session_number, number)
    session = find(tx.connection, source.session_id, None)
    if session is None:
        return number
    copy = find_or_make(tx.connection, session_id, session.user_id)
    if copy.count:
        raise ConfigurationError(
            f"Session {session_id!r} has messages of its own; copy to a new thread."
        )
    # The same numbers as in the source, because the checkpoints name them.
    copy = replace(copy, first_seq=session.first_seq, last_seq=session.first_seq - 1)
    rows = read_from(tx.connection, session, session.first_seq)
    save(tx.connection, copy)
    copy = append_rows(tx.connection, store.index, copy, rows)
    copy_edits(tx.connection, store.index, copy, rows, read_edits(tx.connection, session))
    return number


def append_rows(
    connection: Connection, index: IndexStore, session: SessionRow, rows: Iterable[TranscriptRow]
) -> SessionRow:
    """Append what another transcript has and this one lacks, with ids and times.

    Args:
        connection: In a transaction that writes.
        index: Takes what is appended.
        session: The session's row as it is stored.
        rows: The other one's messages, oldest first.

    Returns:
        The row as it is then.
    """
    for now, some in groupby(rows, key=lambda row: row.created_at):
        new = [_encoded(row) for row in some]
        added, _ = append_indexed(connection, index, session, new, now, of_thread=True)
        session = replace(session, last_seq=session.last_seq + len(added))
    return session


def _encoded(row: TranscriptRow) -> EncodedMessage:
    if row.was_named:
        return EncodedMessage(row.message)
    return EncodedMessage(row.message.model_copy(update={"id": None}), row.message.id)


def _copy_rows(tx: Transaction, table: Table, source: int, target: int) -> None:
    """Copy rows to another owner, each checked and sealed anew."""
    owner = SEALED[table.name][0]
    found = tx.connection.execute(select(table).where(table.c[owner] == source)).mappings()
    copies: list[dict[str, Any]] = [
        tx.codec.sealed({**tx.codec.unsealed(table, row), owner: target}) for row in found
    ]
    for some in chunks(copies):
        tx.connection.execute(insert(table), list(some))
