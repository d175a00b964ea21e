"""The part of a `TranscriptStore` that opens a database, and reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from os import PathLike

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, Engine

from langchain_tokenmem.background import Closeable, in_thread
from langchain_tokenmem.core.messages import marks_of, role_of
from langchain_tokenmem.core.session_settings import SessionSettings
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.database import Database
from langchain_tokenmem.storage.lifecycle import AutomaticExpiry, ExpiryPolicy, kept_sessions
from langchain_tokenmem.storage.search_index import SearchIndex
from langchain_tokenmem.storage.sessions import (
    Session,
    StoredState,
    UserRule,
    find_or_make,
    list_sessions,
    save,
    settings_of,
    settings_of_user,
    state_of,
)
from langchain_tokenmem.storage.transcripts import (
    TranscriptRow,
    current,
    read,
    read_last,
    read_named,
    visible,
    with_superseded,
)

_DEFAULT_URL = "sqlite:///tokenmem.db"

_TURN_ROWS = 64
"""Rows in which the beginning of a turn is looked for first."""


class ReadableStore(Closeable):
    """Opens and reads a store; for its arguments see `TranscriptStore`."""

    def __init__(
        self,
        url: str | PathLike[str] = _DEFAULT_URL,
        *,
        pool_size: int = 8,
        engine: Engine | None = None,
        inactive_for: timedelta | None = None,
        expire_every: timedelta | None = None,
        require_user: bool = False,
        shared: bool = False,
    ) -> None:
        self.policy = ExpiryPolicy(inactive_for=inactive_for, expire_every=expire_every)
        if engine is not None and url != _DEFAULT_URL:
            raise ConfigurationError("Name the database by url or by engine=, not by both.")
        if require_user and shared:
            raise ConfigurationError("require_user=True and shared=True exclude each other.")
        self.database = Database(url, pool_size=pool_size, engine=engine)
        self._users = UserRule(require_user=require_user, shared=shared)
        self.index = SearchIndex(self.database, self._users)
        self._expiry = AutomaticExpiry(self.policy, self.database, self.index)

    def __repr__(self) -> str:
        return f"TranscriptStore({self.database.url.render_as_string(hide_password=True)!r})"

    def close(self) -> None:
        """Close every connection."""
        self._expiry.stop()
        self.database.close()

    aclose = in_thread(close)

    @contextmanager
    def _reading(
        self, session_id: str, user_id: str | None
    ) -> Iterator[tuple[Connection, Session | None]]:
        """Give a session that a call may see; None when there never was one."""
        with self.database.reading(f"Session {session_id!r}") as connection:
            yield connection, self._users.find(connection, session_id, user_id)

    @contextmanager
    def _writing(
        self, session_id: str, user_id: str | None
    ) -> Iterator[tuple[Connection, Session | None]]:
        """Give a session, and save in the end what was changed in it."""
        with self.database.writing(f"Session {session_id!r}") as connection:
            session = self._users.find(connection, session_id, user_id, lock=True)
            yield connection, session
            if session is not None:
                save(connection, session)

    @contextmanager
    def _making(self, session_id: str, user_id: str | None) -> Iterator[tuple[Connection, Session]]:
        """Do the same with a session that is made where there is none."""
        with self._writing(session_id, user_id) as (connection, found):
            session = found
            if session is None or (session.user_id is None and user_id is not None):
                session = find_or_make(connection, session_id, user_id)
            yield connection, session
            if session is not found:
                save(connection, session)

    def _check_user(self, session_id: str | None, user_id: str | None) -> None:
        if session_id is not None:
            with self._reading(session_id, user_id):
                pass

    def rows(
        self, session_id: str, *, user_id: str | None = None, include_superseded: bool = False
    ) -> list[TranscriptRow]:
        """Return every message of a session with number and time, in order.

        Args:
            session_id: Id of the conversation.
            user_id: The user who asks; the session must belong to them.
            include_superseded: Also return superseded and hidden wordings, before the one that
                replaced them, with the number of the version (0 for the first) in
                `response_metadata["tokenmem"]["superseded"]`.

        Raises:
            CorruptStoreError: When one of them is damaged or missing.
        """
        chosen = with_superseded if include_superseded else visible
        with self._reading(session_id, user_id) as (connection, session):
            if session is None:
                return []
            return chosen(read(connection, session, session.first_seq))

    arows = in_thread(rows)

    def messages(
        self, session_id: str, *, user_id: str | None = None, include_superseded: bool = False
    ) -> list[BaseMessage]:
        """Return every message of a session, in order, as the application gave it.

        An edited message has its current wording; `include_superseded` as for `rows`.
        """
        rows = self.rows(session_id, user_id=user_id, include_superseded=include_superseded)
        return [row.message for row in rows]

    amessages = in_thread(messages)

    def conversation(
        self, session_id: str, *, user_id: str | None = None
    ) -> tuple[StoredState, list[TranscriptRow]]:
        """Return the state, and the messages that a view under it needs, as of one moment.

        These are the kept messages, the last one that the summary covers, and all after it.
        """
        with self._reading(session_id, user_id) as (connection, session):
            if session is None:
                return StoredState(None, 0, None), []
            stored = state_of(session)
            state = stored.state
            if state is None or state["summary"] is None:
                return stored, visible(read(connection, session, session.first_seq))
            pointer = state["summary"]["covers_to"]
            kept = current(read_named(connection, session, [*state["kept"], pointer]))
            start = next((row.seq for row in kept if row.message.id == pointer), session.first_seq)
            tail = current(read(connection, session, start))
            rows = [*(row for row in kept if row.seq < start), *tail]
            # By the pointer's message it is known what is covered, hidden or not.
            return stored, [r for r in rows if not r.is_hidden or r.message.id == pointer]

    aconversation = in_thread(conversation)

    def turn_up_to(
        self, session_id: str, message_id: str, *, user_id: str | None = None
    ) -> list[BaseMessage]:
        """Return a message and those before it, in order, back to the human one of its turn.

        Empty if the session has no such message.
        """
        with self._reading(session_id, user_id) as (connection, session):
            named = read_named(connection, session, [message_id]) if session else []
            if session is None or not named:
                return []
            last, size = named[0].seq, _TURN_ROWS
            while True:
                first = max(session.first_seq, last - size)
                rows = visible(read(connection, session, first, last))
                found = [row.message for row in rows]
                humans = [n for n, message in enumerate(found) if role_of(message) == "human"]
                if humans or first == session.first_seq:
                    return found[humans[-1] if humans else 0 :]
                size *= 4

    def last(self, session_id: str, n: int, *, user_id: str | None = None) -> list[BaseMessage]:
        """Return the newest `n` messages in order, and the rest of the group that they begin in."""
        with self._reading(session_id, user_id) as (connection, session):
            if session is None or n < 1:
                return []
            return [row.message for row in read_last(connection, session, n, visible)]

    alast = in_thread(last)

    def get(
        self,
        session_id: str,
        message_id: str,
        *,
        user_id: str | None = None,
        include_superseded: bool = False,
    ) -> BaseMessage | None:
        """Return one message in full; None when the session has no such id, or hides it.

        With `include_superseded` it is the first wording.
        """
        found = self.named(
            session_id, [message_id], user_id=user_id, include_superseded=include_superseded
        )
        first = min(found, key=_version_of) if found else None
        return None if first is None else first.message

    aget = in_thread(get)

    def named(
        self,
        session_id: str,
        ids: Sequence[str],
        *,
        user_id: str | None = None,
        include_superseded: bool = False,
    ) -> list[TranscriptRow]:
        """Return the messages with these ids, in order; options as for `rows`."""
        chosen = with_superseded if include_superseded else visible
        with self._reading(session_id, user_id) as (connection, session):
            return [] if session is None else chosen(read_named(connection, session, ids))

    anamed = in_thread(named)

    def count(self, session_id: str, *, user_id: str | None = None) -> int:
        """Return how many messages a session has, hidden ones included."""
        with self._reading(session_id, user_id) as (_, session):
            return 0 if session is None else session.count

    acount = in_thread(count)

    def sessions(self, *, user_id: str | None = None) -> list[str]:
        """Return the ids of all sessions, or of one user's, in alphabetical order."""
        with self.database.reading("The list of sessions") as connection:
            return list_sessions(connection, user_id)

    asessions = in_thread(sessions)

    def state(self, session_id: str, *, user_id: str | None = None) -> StoredState:
        """Return the memory's state of a session."""
        with self._reading(session_id, user_id) as (_, session):
            return StoredState(None, 0, None) if session is None else state_of(session)

    astate = in_thread(state)

    def settings(
        self, session_id: str | None = None, *, user_id: str | None = None
    ) -> SessionSettings:
        """Return the settings of a session, completed by those of its user.

        Args:
            session_id: The session; without it the user's own settings are returned.
            user_id: The user, if the session has no owner yet.

        Raises:
            ScopeError: When the session belongs to another user.
        """
        about = f"User {user_id!r}" if session_id is None else f"Session {session_id!r}"
        with self.database.reading(about) as connection:
            session = (
                None if session_id is None else self._users.find(connection, session_id, user_id)
            )
            owner = user_id if session is None else session.user_id or user_id
            own = SessionSettings() if session is None else settings_of(session)
            return own.over(settings_of_user(connection, owner))

    asettings = in_thread(settings)

    def kept_sessions(self) -> list[str]:
        """Return the ids of the sessions that are marked, in alphabetical order."""
        with self.database.reading("Marks of sessions") as connection:
            return kept_sessions(connection)

    akept_sessions = in_thread(kept_sessions)


def _version_of(row: TranscriptRow) -> float:
    """Return the version of a message's words; the current ones without a mark are the last."""
    return float(marks_of(row.message).get("superseded", "inf"))
