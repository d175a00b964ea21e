"""The row of a session: its owner, the range of its messages, its memory state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, delete, exists, select, update

from langchain_tokenmem.core.thread_names import NAMESPACE_SEPARATOR, check_characters
from langchain_tokenmem.errors import CorruptStoreError, ScopeError
from langchain_tokenmem.storage.database.database import is_writer
from langchain_tokenmem.storage.database.statements import Statement, insert_unless_there
from langchain_tokenmem.storage.transcripts.encoded_message import (
    checksum,
    key_of,
)
from langchain_tokenmem.storage.transcripts.tables import edits, leases, messages, sessions


@dataclass(frozen=True)
class SessionRow:
    """One session as it is stored.

    Attributes:
        key: Its key in every table.
        session_id: Its name.
        user_id: Its owner, if it has one.
        first_seq: Sequence number of its first message.
        last_seq: Sequence number of its last message; `first_seq - 1` when there is none.
        version: Grows with every change of the state, and with every `clear`.
        state: The memory state as JSON.
        budget: The session's settings as JSON; a budget alone stands bare.
        edit_count: How many edits of its messages there are.
    """

    key: str
    session_id: str
    user_id: str | None = None
    first_seq: int = 1
    last_seq: int = 0
    version: int = 0
    state: str | None = None
    budget: str | None = None
    edit_count: int = 0

    @property
    def count(self) -> int:
        """Number of messages in the session."""
        return self.last_seq - self.first_seq + 1

    def values(self) -> dict[str, Any]:
        """Return the columns, checksum included."""
        columns = {
            "session_key": self.key,
            "session_id_hash": _hash(self.session_id),
            "session_id": self.session_id,
            "user_id": self.user_id,
            "first_seq": self.first_seq,
            "last_seq": self.last_seq,
            "state_version": self.version,
            "budget": self.budget,
            "state": self.state,
            "edit_count": self.edit_count,
        }
        return {**columns, "checksum": checksum(columns.values())}


def _hash(session_id: str) -> str:
    return hashlib.blake2b(session_id.encode(), digest_size=16).hexdigest()


def checked_id(session_id: Any, what: str = "session_id") -> str:
    """Return the id.

    Raises:
        ScopeError: When it is blank, no text (1 and "1" would be one session) or no usable id.
    """
    if not isinstance(session_id, str) or not session_id.strip():
        raise ScopeError(
            f"{what} is {session_id!r}; every conversation needs a text that names it, "
            f'such as "user-7/chat-1".'
        )
    for part in session_id.split(NAMESPACE_SEPARATOR):
        check_characters(part, what)
    return session_id


_OWN = select(sessions).where(sessions.c.session_key == bindparam("b_key"))
_FIND = Statement(_OWN)
_FIND_LOCKED = Statement(_OWN.with_for_update())
_SAVE = Statement(update(sessions).where(sessions.c.session_key == bindparam("b_key")))
_BY_KEYS = select(sessions).where(sessions.c.session_key.in_(bindparam("keys", expanding=True)))


def find(connection: Connection, session_id: str, user_id: str | None) -> SessionRow | None:
    """Return the row of a session, checked; None when there never was one.

    Raises:
        CorruptStoreError: When the row is damaged, or cannot be found and must be there.
        ScopeError: When it belongs to another user.
    """
    key = key_of(checked_id(session_id))
    if user_id is not None:
        checked_id(user_id, "user_id")
    row = find_by_key(connection, key)
    if row is None:
        _make_sure_of_absence(connection, key, session_id)
    elif row.session_id != session_id:
        raise _damaged(session_id)
    elif user_id is not None and row.user_id not in {None, user_id}:
        raise ScopeError(
            f"Session {session_id!r} belongs to another user than {user_id!r}; use a session id "
            f"of this user's own."
        )
    return row


def find_by_key(connection: Connection, key: str) -> SessionRow | None:
    """Return the row of a session by its key in every table, checked; None when there is none.

    In a transaction that writes nobody else can change it from then on.

    Raises:
        CorruptStoreError: When the row is damaged.
    """
    query = _FIND_LOCKED if is_writer(connection) else _FIND
    row = query.first(connection, {"b_key": key})
    return None if row is None else checked_row(row)


def find_by_keys(connection: Connection, keys: Iterable[str]) -> dict[str, SessionRow]:
    """Return the rows of the sessions with these keys that there are, checked.

    Raises:
        CorruptStoreError: When a row is damaged.
    """
    found = connection.execute(_BY_KEYS, {"keys": sorted(keys)}).mappings().all()
    return {row.key: row for row in map(checked_row, found)}


def checked_row(found: Mapping[Any, Any]) -> SessionRow:
    """Return a stored row.

    Raises:
        CorruptStoreError: When its checksum does not match.
    """
    columns = {name: found[name] for name in _COLUMNS}
    if checksum(columns.values()) != found["checksum"]:
        raise _damaged(str(columns["session_id"]))
    return SessionRow(
        key=columns["session_key"],
        session_id=columns["session_id"],
        user_id=columns["user_id"],
        first_seq=columns["first_seq"],
        last_seq=columns["last_seq"],
        version=columns["state_version"],
        state=columns["state"],
        budget=columns["budget"],
        edit_count=columns["edit_count"],
    )


_COLUMNS = tuple(name for name in SessionRow("", "").values() if name != "checksum")
_CHANGING = (
    *("user_id", "first_seq", "last_seq", "state_version", "budget", "state"),
    *("edit_count", "checksum"),
)


def list_sessions(connection: Connection, user_id: str | None) -> list[str]:
    """Return the ids of all sessions, or of one user's, in alphabetical order.

    Every row is read and checked, so that a damaged owner never shortens a user's list.

    Raises:
        CorruptStoreError: When a row is damaged, or when table and index differ.
    """
    if user_id is not None:
        checked_id(user_id, "user_id")
    rows = [checked_row(row) for row in connection.execute(select(sessions)).mappings()]
    # This query is answered from the index alone, so a page missing from either is noticed.
    keys = sorted(connection.execute(select(sessions.c.session_key)).scalars())
    if keys != sorted(row.key for row in rows):
        raise CorruptStoreError(
            f"The list of sessions: {len(rows)} rows, {len(keys)} entries in their index. Nothing "
            f"was returned; restore a backup."
        )
    return sorted(row.session_id for row in rows if user_id in {None, row.user_id})


def _make_sure_of_absence(connection: Connection, key: str, session_id: str) -> None:
    """Raise if a session that was not found must be there.

    One damaged page can hide its row from one index, not from the other one and from its
    messages. One statement asks, so that a writer at the same time is no alarm.
    """
    is_known, is_named, has_messages = connection.execute(
        select(
            exists().where(sessions.c.session_key == key),
            exists().where(sessions.c.session_id_hash == _hash(session_id)),
            exists().where(messages.c.session_key == key),
        )
    ).one()
    if not is_known and (is_named or has_messages):
        raise _damaged(session_id)


def _damaged(session_id: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"Session {session_id!r}: its row is damaged. Nothing was returned; restore a backup."
    )


def find_or_make(connection: Connection, session_id: str, user_id: str | None) -> SessionRow:
    """Return the row of a session; make it if there is none, and give it to the user."""
    row = find(connection, session_id, user_id)
    if row is None:
        new = SessionRow(key_of(session_id), session_id, user_id)
        insert_unless_there(connection, sessions, new.values())
        row = find(connection, session_id, user_id) or new
    if user_id is not None and row.user_id is None:
        row = replace(row, user_id=user_id)
        save(connection, row)
    return row


def session_keys(connection: Connection, session_id: str | None, user_id: str | None) -> list[str]:
    """Return the keys of one session, or of all sessions of a user.

    Raises:
        ScopeError: When neither id is given, or the session belongs to another user.
    """
    if session_id is not None:
        find(connection, session_id, user_id)  # raises where it is another user's
        return [key_of(session_id)]
    if user_id is None:
        raise ScopeError("Nothing is erased without a scope: name session_id= or user_id=.")
    owner = checked_id(user_id, "user_id")
    query = select(sessions.c.session_key).where(sessions.c.user_id == owner)
    return sorted(connection.execute(query).scalars())


def delete_sessions(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    """Delete sessions with messages, edits and leases; return how many rows of each there were."""
    return {
        table.name.removeprefix("tokenmem_"): sum(
            connection.execute(delete(table).where(table.c.session_key == key)).rowcount
            for key in keys
        )
        for table in (messages, edits, leases, sessions)
    }


def save(connection: Connection, row: SessionRow) -> None:
    """Write the row back."""
    values = row.values()
    _SAVE.run(connection, {"b_key": row.key, **{name: values[name] for name in _CHANGING}})
