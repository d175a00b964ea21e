"""The row of a session: who owns it, which messages it has, what its memory decided."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, func, select, update

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError, ScopeError
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.storage.database import insert_unless_there, is_writer
from langchain_tokenmem.storage.rows import checksum, escaped, from_json, key_of, to_json, unescaped
from langchain_tokenmem.storage.schema import facts, messages, sessions


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
        budget: The session's budget as JSON.
    """

    key: str
    session_id: str
    user_id: str | None = None
    first_seq: int = 1
    last_seq: int = 0
    version: int = 0
    state: str | None = None
    budget: str | None = None

    @property
    def count(self) -> int:
        """How many messages the session has."""
        return self.last_seq - self.first_seq + 1

    def values(self) -> dict[str, Any]:
        """Return the columns, checksum included."""
        columns = {
            "session_key": self.key,
            "session_id": escaped(self.session_id),
            "user_id": None if self.user_id is None else escaped(self.user_id),
            "first_seq": self.first_seq,
            "last_seq": self.last_seq,
            "version": self.version,
            "state": self.state,
            "budget": self.budget,
        }
        return {**columns, "checksum": checksum(columns.values())}

    def memory_state(self) -> MemoryState | None:
        """Return the stored state."""
        return None if self.state is None else load_state(from_json(self.state))

    def token_budget(self) -> TokenBudget | None:
        """Return the stored budget."""
        return None if self.budget is None else TokenBudget(**from_json(self.budget))


def checked_id(session_id: Any, what: str = "session_id") -> str:
    """Return the id.

    Raises:
        ScopeError: When it is empty or no text.
    """
    if not isinstance(session_id, str) or not session_id:
        raise ScopeError(
            f"{what} is {session_id!r}; every conversation needs a text that names it, "
            f'such as "user-7/chat-1".'
        )
    return session_id


def budget_json(budget: TokenBudget | None) -> str | None:
    """Return a budget as it is stored.

    Raises:
        ConfigurationError: When it is no `TokenBudget`.
    """
    if budget is None:
        return None
    if not isinstance(budget, TokenBudget):
        raise ConfigurationError(f"{budget!r} is no TokenBudget.")
    return to_json(dataclasses.asdict(budget))


def find(connection: Connection, session_id: str, user_id: str | None) -> SessionRow | None:
    """Return the row of a session, checked; None when there never was one.

    Raises:
        CorruptStoreError: When the row is damaged, or gone while its messages are there.
        ScopeError: When it belongs to another user.
    """
    key = key_of(checked_id(session_id))
    query = select(sessions).where(sessions.c.session_key == key)
    if is_writer(connection):
        query = query.with_for_update()
    found = connection.execute(query).mappings().one_or_none()
    if found is None:
        _make_sure_of_absence(connection, key, session_id)
        return None
    row = _checked(dict(found), session_id)
    if user_id is not None and row.user_id not in {None, checked_id(user_id, "user_id")}:
        raise ScopeError(
            f"Session {session_id!r} belongs to another user than {user_id!r}; use a session id "
            f"of this user's own."
        )
    return row


def _checked(columns: dict[str, Any], session_id: str) -> SessionRow:
    if columns.pop("checksum") != checksum(columns.values()):
        raise CorruptStoreError(
            f"Session {session_id!r}: its row is damaged. Nothing was returned; restore a backup."
        )
    owner = columns["user_id"]
    return SessionRow(
        key=columns["session_key"],
        session_id=unescaped(columns["session_id"]),
        user_id=None if owner is None else unescaped(owner),
        first_seq=columns["first_seq"],
        last_seq=columns["last_seq"],
        version=columns["version"],
        state=columns["state"],
        budget=columns["budget"],
    )


def list_sessions(connection: Connection, user_id: str | None) -> list[str]:
    """Return the ids of all sessions, or of one user's, in alphabetical order.

    Raises:
        CorruptStoreError: When a row is damaged, or one is missing from the list of all.
    """
    query = select(sessions)
    if user_id is not None:
        query = query.where(sessions.c.user_id == escaped(checked_id(user_id, "user_id")))
    rows = [_checked(dict(row), "?") for row in connection.execute(query).mappings()]
    known, _ = counts(connection)
    if user_id is None and known != len(rows):
        raise CorruptStoreError(
            f"{known} sessions should be there, {len(rows)} were found. Nothing was returned; "
            f"restore a backup."
        )
    return sorted(row.session_id for row in rows)


def _make_sure_of_absence(connection: Connection, key: str, session_id: str) -> None:
    """Raise if a session that was not found must have been there.

    A damaged page can hide rows. Messages without a session row, or fewer session rows than were
    ever made, show it; this is looked at only on the first contact with a session.
    """
    orphan = connection.execute(
        select(messages.c.seq).where(messages.c.session_key == key).limit(1)
    ).first()
    known, there = counts(connection)
    if orphan is not None or known != there:
        raise CorruptStoreError(
            f"Session {session_id!r}: rows of the session table are missing ({there} of {known}). "
            f"Nothing was returned; restore a backup."
        )


def counts(connection: Connection) -> tuple[int, int]:
    """Return how many sessions were ever made, and how many rows there are, as of one moment."""
    known = select(facts.c.number).where(facts.c.name == "sessions").scalar_subquery()
    there = select(func.count(sessions.c.session_key)).scalar_subquery()
    row = connection.execute(select(known, there)).one()
    return row[0], row[1]


def find_or_make(connection: Connection, session_id: str, user_id: str | None) -> SessionRow:
    """Return the row of a session; make it if there is none, and give it to the user."""
    row = find(connection, session_id, user_id)
    if row is None:
        row = SessionRow(key_of(session_id), session_id, user_id)
        if insert_unless_there(connection, sessions, row.values()):
            connection.execute(
                update(facts).where(facts.c.name == "sessions").values(number=facts.c.number + 1)
            )
        row = find(connection, session_id, user_id) or row
    if user_id is not None and row.user_id is None:
        row = replace(row, user_id=user_id)
        save(connection, row)
    return row


def save(connection: Connection, row: SessionRow) -> None:
    """Write the row back."""
    values = row.values()
    connection.execute(
        update(sessions).where(sessions.c.session_key == values.pop("session_key")).values(values)
    )
