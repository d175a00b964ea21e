"""Erasing: everything that belongs to a session or a user, from every table, in one call."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Table, delete, select

from langchain_tokenmem.core.thread_names import BETWEEN
from langchain_tokenmem.errors import ScopeError, StoreError
from langchain_tokenmem.storage.checkpoints.spaces import hold_threads, numbers_of
from langchain_tokenmem.storage.checkpoints.tables import (
    blobs,
    checkpoints,
    contents,
    groups,
    spaces,
    writes,
)
from langchain_tokenmem.storage.database.schema import leases, messages, sessions
from langchain_tokenmem.storage.search_index.deletion import delete_partitions
from langchain_tokenmem.storage.search_index.partitions import partition_keys
from langchain_tokenmem.storage.transcripts.encoded_message import escaped, key_of, unescaped
from langchain_tokenmem.storage.transcripts.message_rows import chunks
from langchain_tokenmem.storage.transcripts.sessions import checked_id, find

BY_SESSION: tuple[tuple[str, Table], ...] = (
    ("messages", messages),
    ("leases", leases),
    ("sessions", sessions),
)
"""Tables whose rows belong to a session by their column `session_key`, named as in the counts."""


def session_keys(connection: Connection, session_id: str | None, user_id: str | None) -> list[str]:
    """Return the keys of the sessions that are meant.

    Raises:
        ScopeError: When neither id is given, or the session belongs to another user.
    """
    if session_id is not None:
        session = find(connection, session_id, user_id)
        return [key_of(session_id)] if session is None else [session.key]
    if user_id is None:
        raise ScopeError("Nothing is erased without a scope: name session_id= or user_id=.")
    wanted = escaped(checked_id(user_id, "user_id"))
    query = select(sessions.c.session_key).where(sessions.c.user_id == wanted)
    return sorted(connection.execute(query).scalars())


def erase(
    connection: Connection, session_id: str | None, user_id: str | None
) -> tuple[dict[str, int], list[int]]:
    """Delete everything of a session or a user, checkpoints of their threads included.

    Returns:
        How many rows there were of each kind, and the numbers of the partitions that are gone.

    Raises:
        ScopeError: When neither id is given, or the session belongs to another user.
        StoreError: When the session is that of a sub-graph, which the thread's checkpoints need.
    """
    named = [] if session_id is None else [key_of(checked_id(session_id))]
    hold_threads(
        connection, _threads_of(connection, named or session_keys(connection, None, user_id))
    )
    keys = session_keys(connection, session_id, user_id)
    threads = _threads_of(connection, keys)
    if session_id is not None and {*threads} - {*keys}:
        raise StoreError(
            f"Session {session_id!r} holds the messages of a sub-graph, and the checkpoints of its "
            f"thread could not be read without them. Nothing was deleted; erase the thread's own "
            f"session, {session_id.partition(BETWEEN)[0]!r}, and this one goes with it."
        )
    # A thread goes whole: the sessions of its sub-graphs, too.
    keys = sorted({*keys, *sessions_of_threads(connection, threads)})
    counts, gone = erase_sessions(connection, keys, partition_keys(keys, session_id, user_id))
    counts["checkpoints"] = sum(drop_thread(connection, key) for key in threads)
    return counts, gone


def _threads_of(connection: Connection, session_keys: Sequence[str]) -> list[str]:
    """Return the keys of the threads that sessions belong to, each its own where there is none."""
    found = {
        row.session_key: row.thread_key
        for some in chunks(session_keys)
        for row in connection.execute(
            select(groups.c.session_key, groups.c.thread_key).where(groups.c.session_key.in_(some))
        )
    }
    return sorted({found.get(key, key) for key in session_keys})


def sessions_of_threads(connection: Connection, thread_keys: Sequence[str]) -> set[str]:
    """Return the keys of the sessions of threads: of their checkpoints, and of sub-graphs."""
    found = {
        key
        for some in chunks(thread_keys)
        for key in connection.execute(
            select(groups.c.session_key).where(groups.c.thread_key.in_(some))
        ).scalars()
    }
    # A sub-graph without a checkpointer has a session and no checkpoints.
    query = select(sessions.c.session_key, sessions.c.session_id).where(
        sessions.c.session_id.contains(escaped(BETWEEN), autoescape=True)
    )
    wanted = {*thread_keys}
    for row in connection.execute(query):
        if key_of(unescaped(row.session_id).partition(BETWEEN)[0]) in wanted:
            found.add(row.session_key)
    return found


def erase_sessions(
    connection: Connection, keys: Sequence[str], partitions: Sequence[str] | None = None
) -> tuple[dict[str, int], list[int]]:
    """Delete the messages, states, documents and index entries of sessions.

    Args:
        connection: In a transaction that writes.
        keys: Keys of the sessions.
        partitions: Keys of their partitions of the search index; default: those of the sessions.

    Returns:
        How many rows there were of each kind, and the numbers of the partitions that are gone.
    """
    counts, gone = delete_partitions(connection, partitions or partition_keys(keys, None, None))
    for name, table in BY_SESSION:
        counts[name] = sum(
            connection.execute(delete(table).where(table.c.session_key == key)).rowcount
            for key in keys
        )
    return counts, gone


def drop_thread(connection: Connection, thread_key: str) -> int:
    """Delete the checkpoints of a thread; return how many there were."""
    counts = dict.fromkeys((checkpoints, writes, blobs, spaces), 0)
    for some in chunks(numbers_of(connection, thread_key)):
        for table in counts:
            mine = table.c.space_id.in_(some)
            counts[table] += connection.execute(delete(table).where(mine)).rowcount
    shared = select(groups.c.group_id).where(groups.c.thread_key == thread_key)
    connection.execute(delete(contents).where(contents.c.group_id.in_(shared)))
    connection.execute(delete(groups).where(groups.c.thread_key == thread_key))
    return counts[checkpoints]
