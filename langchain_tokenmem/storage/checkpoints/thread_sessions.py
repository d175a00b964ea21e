"""Sessions of threads: each holds the messages that several namespaces share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, exists, select, update

from langchain_tokenmem.core.thread_names import NAMESPACE_SEPARATOR
from langchain_tokenmem.errors import CorruptStoreError, StoreError
from langchain_tokenmem.storage.checkpoints.codec import Transaction
from langchain_tokenmem.storage.checkpoints.tables import thread_sessions
from langchain_tokenmem.storage.database.database import is_writer
from langchain_tokenmem.storage.database.statements import Statement, insert_unless_there
from langchain_tokenmem.storage.transcripts.encoded_message import key_of
from langchain_tokenmem.storage.transcripts.message_rows import chunks
from langchain_tokenmem.storage.transcripts.sessions import SessionRow
from langchain_tokenmem.storage.transcripts.tables import sessions


@dataclass(frozen=True)
class ThreadSession:
    """The messages of one session of a thread.

    Attributes:
        session_number: Its number, never given twice.
        thread_id: The thread.
        session_id: Its session in the transcript store.
        last_message_number: Number of its last row of messages.
    """

    session_number: int
    thread_id: str
    session_id: str
    last_message_number: int = 0


_OWN = thread_sessions.c.session_number == bindparam("b_session_number")
_FIND = Statement(select(thread_sessions).where(_OWN))
_FIND_LOCKED = Statement(select(thread_sessions).where(_OWN).with_for_update())
_SAVE = Statement(update(thread_sessions).where(_OWN))


def _columns(session: ThreadSession) -> dict[str, Any]:
    return {
        "session_number": session.session_number,
        "thread_key": key_of(session.thread_id),
        "session_key": key_of(session.session_id),
        "session_id": session.session_id,
        "last_message_number": session.last_message_number,
    }


def make_thread_session(tx: Transaction, session: ThreadSession) -> ThreadSession:
    """Insert a session of a thread unless it is there, and return it with its number."""
    columns = _columns(session)
    del columns["session_number"]
    query = select(thread_sessions.c.session_number, thread_sessions.c.seal).where(
        thread_sessions.c.session_key == columns["session_key"]
    )
    row = tx.connection.execute(query).first()
    if row is None:
        insert_unless_there(tx.connection, thread_sessions, {**columns, "seal": b""})
        row = tx.connection.execute(query.with_for_update()).one()
    if row.seal:
        return read_thread_session(tx, session.thread_id, row.session_number)
    made = replace(session, session_number=row.session_number)
    save_thread_session(tx, made)
    return made


def read_thread_session(tx: Transaction, thread_id: str, number: int) -> ThreadSession:
    """Return a session of a thread, checked; a transaction that writes locks its row.

    Raises:
        CorruptStoreError: When its row is damaged or missing.
    """
    query = _FIND_LOCKED if is_writer(tx.connection) else _FIND
    row = query.first(tx.connection, {"b_session_number": number})
    is_own = row is not None and row["thread_key"] == key_of(thread_id)
    if row is None or not is_own or not tx.codec.is_sealed(thread_sessions, row):
        raise damaged_thread(thread_id)
    session_id = row["session_id"]
    return ThreadSession(number, thread_id, session_id, row["last_message_number"])


def thread_sessions_of(tx: Transaction, thread_id: str) -> list[ThreadSession]:
    """Return every session of a thread."""
    query = select(thread_sessions.c.session_number).where(
        thread_sessions.c.thread_key == key_of(thread_id)
    )
    numbers = tx.connection.execute(query.order_by(thread_sessions.c.session_number)).scalars()
    return [read_thread_session(tx, thread_id, number) for number in numbers.all()]


def save_thread_session(tx: Transaction, session: ThreadSession) -> None:
    """Write the row back."""
    row = tx.codec.sealed(_columns(session))
    _SAVE.run(tx.connection, {**row, "b_session_number": session.session_number})


def damaged_thread(thread_id: str) -> CorruptStoreError:
    """Return what is raised when a thread cannot be trusted as a whole."""
    return CorruptStoreError(
        f"Thread {thread_id!r}: one of its rows is damaged. Nothing was returned; restore a "
        f"backup, or look at it with `tokenmem doctor`."
    )


def owner_of_thread(connection: Connection, thread_id: str) -> str | None:
    """Return who owns the sessions of a checkpointed thread; None where nobody does yet."""
    query = (
        select(sessions.c.user_id)
        .join(thread_sessions, thread_sessions.c.session_key == sessions.c.session_key)
        .where(thread_sessions.c.thread_key == key_of(thread_id), sessions.c.user_id.is_not(None))
        .order_by(thread_sessions.c.session_number)
    )
    return connection.execute(query).scalars().first()


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
        sessions.c.session_id.contains(NAMESPACE_SEPARATOR, autoescape=True)
    )
    wanted = {*thread_keys}
    for row in connection.execute(query):
        if key_of(row.session_id.partition(NAMESPACE_SEPARATOR)[0]) in wanted:
            found.add(row.session_key)
    return found
