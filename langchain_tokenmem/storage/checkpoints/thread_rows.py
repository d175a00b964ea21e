"""Finds the sessions, the owner and the rows of whole threads, and deletes their checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, exists, select

from langchain_tokenmem.core.thread_names import NAMESPACE_SEPARATOR
from langchain_tokenmem.errors import StoreError
from langchain_tokenmem.storage.checkpoints.namespaces import namespace_ids
from langchain_tokenmem.storage.checkpoints.tables import (
    channel_values,
    checkpoints,
    namespaces,
    thread_messages,
    thread_sessions,
    writes,
)
from langchain_tokenmem.storage.transcripts.encoded_message import escaped, key_of, unescaped
from langchain_tokenmem.storage.transcripts.message_rows import chunks
from langchain_tokenmem.storage.transcripts.sessions import SessionRow
from langchain_tokenmem.storage.transcripts.tables import sessions


def owner_of_thread(connection: Connection, thread_id: str) -> str | None:
    """Return who owns the sessions of a checkpointed thread; None where nobody does yet."""
    query = (
        select(sessions.c.user_id)
        .join(thread_sessions, thread_sessions.c.session_key == sessions.c.session_key)
        .where(thread_sessions.c.thread_key == key_of(thread_id), sessions.c.user_id.is_not(None))
        .order_by(thread_sessions.c.session_number)
    )
    owner = connection.execute(query).scalars().first()
    return None if owner is None else unescaped(owner)


def refuse_checkpointed(connection: Connection, row: SessionRow) -> None:
    """Raise if the messages of a session belong to a thread with checkpoints.

    Raises:
        StoreError: When they do.
    """
    found = exists().where(thread_sessions.c.session_key == row.key)
    if connection.execute(select(found)).scalar():
        raise StoreError(
            f"Session {row.session_id!r} holds the messages of a checkpointed thread, which could "
            f"not be read without them. Delete the thread: TokenMemorySaver(store).delete_thread."
        )


def threads_by_session(connection: Connection, session_keys: Sequence[str]) -> dict[str, str]:
    """Return the keys of the threads to whose checkpoints sessions belong, by session."""
    return {
        row.session_key: row.thread_key
        for some in chunks(session_keys)
        for row in connection.execute(
            select(thread_sessions.c.session_key, thread_sessions.c.thread_key).where(
                thread_sessions.c.session_key.in_(some)
            )
        )
    }


def threads_of_sessions(connection: Connection, session_keys: Sequence[str]) -> list[str]:
    """Return the keys of the threads that sessions belong to, each its own where there is none."""
    found = threads_by_session(connection, session_keys)
    return sorted({found.get(key, key) for key in session_keys})


def sessions_of_threads(connection: Connection, thread_keys: Sequence[str]) -> set[str]:
    """Return the keys of the sessions of threads: of their checkpoints, and of sub-graphs."""
    found = {
        key
        for some in chunks(thread_keys)
        for key in connection.execute(
            select(thread_sessions.c.session_key).where(thread_sessions.c.thread_key.in_(some))
        ).scalars()
    }
    # A sub-graph without a checkpointer has a session and no checkpoints.
    query = select(sessions.c.session_key, sessions.c.session_id).where(
        sessions.c.session_id.contains(escaped(NAMESPACE_SEPARATOR), autoescape=True)
    )
    wanted = {*thread_keys}
    for row in connection.execute(query):
        if key_of(unescaped(row.session_id).partition(NAMESPACE_SEPARATOR)[0]) in wanted:
            found.add(row.session_key)
    return found


def drop_thread(connection: Connection, thread_key: str) -> int:
    """Delete the checkpoints of a thread; return how many there were."""
    counts = dict.fromkeys((checkpoints, writes, channel_values, namespaces), 0)
    for some in chunks(namespace_ids(connection, thread_key)):
        for table in counts:
            mine = table.c.namespace_id.in_(some)
            counts[table] += connection.execute(delete(table).where(mine)).rowcount
    shared = select(thread_sessions.c.session_number).where(
        thread_sessions.c.thread_key == thread_key
    )
    connection.execute(delete(thread_messages).where(thread_messages.c.session_number.in_(shared)))
    connection.execute(delete(thread_sessions).where(thread_sessions.c.thread_key == thread_key))
    return counts[checkpoints]
