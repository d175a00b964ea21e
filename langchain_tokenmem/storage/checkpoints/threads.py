"""Whole threads: deleted, copied, and counted anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.core.thread_names import checked_thread
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.checkpoints import rows
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.groups import Group, damaged, groups_of, insert_group
from langchain_tokenmem.storage.checkpoints.records import Address, about, every_checkpoint
from langchain_tokenmem.storage.checkpoints.spaces import (
    Space,
    hold_threads,
    insert_space,
    save_space,
    spaces_of,
)
from langchain_tokenmem.storage.checkpoints.store import Checkpoints
from langchain_tokenmem.storage.checkpoints.tables import blobs, contents, groups, writes
from langchain_tokenmem.storage.checkpoints.thread_rows import drop_thread, sessions_of_threads
from langchain_tokenmem.storage.search_index.erasing import erase_sessions
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.appending import append_indexed
from langchain_tokenmem.storage.transcripts.encoded_message import EncodedMessage, key_of, unescaped
from langchain_tokenmem.storage.transcripts.message_rows import TranscriptRow, read_from
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, find, find_or_make, save


def delete_thread(store: Checkpoints, thread_id: str) -> None:
    """Delete everything of a thread, its transcript included; a damaged one, too.

    Raises:
        CorruptStoreError: When an index gives the rows of another thread; nothing was deleted.
    """
    key = key_of(checked_thread(thread_id))
    with store.database.writing(f"Thread {thread_id!r}") as connection:
        # First what a put takes first, so that the two never wait for one another.
        hold_threads(connection, [key])
        query = select(groups.c.session_id).where(groups.c.thread_key == key)
        names = connection.execute(query).scalars().all()
        found = sorted(sessions_of_threads(connection, [key]))
        gone = erase_sessions(connection, found)[1] if found else []
        drop_thread(connection, key)
    for name in names:
        store.messages.forget(unescaped(name))
    if found:
        store.database.forget_deleted()
        store.index.tell(Change("erased", gone))


def recount(connection: Connection, codec: Codec, space: Space) -> list[rows.Stored]:
    """Write down what a namespace has left (number, head and tips of branches), and return it."""
    left = rows.all_checkpoints(connection, codec, space.space_id)
    followed = {stored.parent for stored in left}
    names = [stored.id for stored in left]
    head = space.head if space.head in names else (names[-1] if names else None)
    tips = tuple(name for name in names if name not in followed)
    save_space(connection, codec, space.reduced(len(names), head, tips))
    return left


def copy_thread(store: Checkpoints, source: str, target: str) -> None:
    """Copy a thread with all checkpoints, pending writes and its transcript.

    Raises:
        ConfigurationError: When the target has checkpoints or a transcript of its own.
        CorruptStoreError: When a checkpoint, a pending write or a large value of the source is
            damaged or missing; nothing was copied.
    """
    codec = store.codec
    store.index.make_ready()
    with store.database.writing(f"Thread {target!r}") as connection:
        found = spaces_of(connection, codec, checked_thread(source))
        if not found:
            return
        if spaces_of(connection, codec, checked_thread(target)):
            raise ConfigurationError(
                f"Thread {target!r} has checkpoints; copy to a new thread, or delete it first."
            )
        shared = groups_of(connection, codec, source)
        if not {group.group_id for group in shared}.issuperset(one.group_id for one in found):
            raise damaged(source)
        numbers = {
            group.group_id: _copy_group(connection, store, group, target) for group in shared
        }
        for space in found:
            fresh = replace(space, thread_id=target, group_id=numbers[space.group_id])
            made = insert_space(connection, codec, fresh)
            _copy_rows(connection, codec, blobs, space.space_id, made.space_id)
            _copy_rows(connection, codec, writes, space.space_id, made.space_id)
            with about(Address(source, space.ns)):
                for stored in every_checkpoint(connection, codec, space):
                    store.make_sure_of(connection, space, stored)
                    rows.insert_checkpoint(connection, codec, made.space_id, stored, is_new=True)
    store.index.tell(Change("added"))


def _copy_group(connection: Connection, store: Checkpoints, group: Group, target: str) -> int:
    codec, index = store.codec, store.index
    session_id = target + group.session_id.removeprefix(group.thread_id)
    made = insert_group(connection, codec, replace(group, thread_id=target, session_id=session_id))
    _copy_rows(connection, codec, contents, group.group_id, made.group_id)
    session = find(connection, group.session_id, None)
    if session is None:
        return made.group_id
    copy = find_or_make(connection, session_id, session.user_id)
    if copy.count:
        raise ConfigurationError(
            f"Session {session_id!r} has messages of its own; copy to a new thread."
        )
    # The same numbers as in the source, because the checkpoints name them.
    copy = replace(copy, first_seq=session.first_seq, last_seq=session.first_seq - 1)
    said = read_from(connection, session, session.first_seq)
    save(connection, said_again(connection, index, copy, said))
    return made.group_id


def said_again(
    connection: Connection, index: IndexStore, copy: SessionRow, said: Iterable[TranscriptRow]
) -> SessionRow:
    """Append what another transcript has and this one lacks, with ids and times.

    Args:
        connection: In a transaction that writes.
        index: Takes what is appended.
        copy: The session's row as it is stored.
        said: The other one's messages, oldest first.

    Returns:
        The row as it is then.
    """
    for now, some in groupby(said, key=lambda row: row.created_at):
        told = [_as_it_was_told(row) for row in some]
        added, _ = append_indexed(connection, index, copy, told, now, of_thread=True)
        copy = replace(copy, last_seq=copy.last_seq + len(added))
    return copy


def _as_it_was_told(row: TranscriptRow) -> EncodedMessage:
    if row.was_named:
        return EncodedMessage(row.message)
    return EncodedMessage(row.message.model_copy(update={"id": None}), row.message.id)


def _copy_rows(
    connection: Connection, codec: Codec, table: Table, source: int, target: int
) -> None:
    """Copy rows to another owner, each checked and sealed anew."""
    names = rows.SEALED[table.name]
    query = select(table).where(table.c[names[0]] == source)
    copies: list[dict[str, Any]] = []
    for row in connection.execute(query).mappings():
        columns = {**rows.checked(codec, names, row), names[0]: target}
        copies.append({**columns, "seal": codec.seal(columns.values())})
    for start in range(0, len(copies), 500):
        connection.execute(insert(table), copies[start : start + 500])
