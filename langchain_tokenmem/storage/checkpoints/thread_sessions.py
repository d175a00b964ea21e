"""Rows of a thread's sessions: each holds the messages that several namespaces share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import bindparam, select, update

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Transaction
from langchain_tokenmem.storage.checkpoints.tables import thread_sessions
from langchain_tokenmem.storage.database.database import is_writer
from langchain_tokenmem.storage.database.statements import Statement, insert_unless_there
from langchain_tokenmem.storage.transcripts.encoded_message import escaped, key_of, unescaped


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
        "session_id": escaped(session.session_id),
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
    session_id = unescaped(row["session_id"])
    return ThreadSession(number, thread_id, session_id, row["last_message_number"])


def thread_sessions_of(tx: Transaction, thread_id: str) -> list[ThreadSession]:
    """Return every session of a thread."""
    query = select(thread_sessions.c.session_number).where(
        thread_sessions.c.thread_key == key_of(thread_id)
    )
    numbers = (
        tx.connection.execute(query.order_by(thread_sessions.c.session_number)).scalars().all()
    )
    return [read_thread_session(tx, thread_id, number) for number in numbers]


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
