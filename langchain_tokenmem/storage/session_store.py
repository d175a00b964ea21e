"""The part of a `TranscriptStore` that reads sessions, and stores states, settings and leases."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from os import PathLike
from typing import Any, Unpack

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, Engine

from langchain_tokenmem.background import Closeable, in_thread
from langchain_tokenmem.core.argument_checks import checked
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.session_settings import ScopedSettings, SessionSettings
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.storage.database import Database
from langchain_tokenmem.storage.lifecycle import AutomaticExpiry, ExpiryPolicy, kept_sessions
from langchain_tokenmem.storage.message_json import to_json
from langchain_tokenmem.storage.search_index import SearchIndex
from langchain_tokenmem.storage.sessions import (
    MESSAGES,
    Session,
    StoredState,
    UserRule,
    find_or_make,
    list_sessions,
    save,
    save_settings_of_user,
    save_state,
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
"""Rows that are searched first for the beginning of a turn."""


class SessionStore(Closeable):
    """Opens a store, and reads its sessions; for its arguments see `TranscriptStore`."""

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
    ) -> Iterator[tuple[Connection, Session]]:
        """Yield a session that a call may see; one that never existed is empty."""
        with self.database.reading(f"Session {session_id!r}") as connection:
            found = self._users.find(connection, session_id, user_id)
            yield connection, found or Session(0, MESSAGES, session_id, session_id)

    @contextmanager
    def _writing(
        self, session_id: str, user_id: str | None
    ) -> Iterator[tuple[Connection, Session | None]]:
        """Yield a session, and save its changes at the end."""
        with self.database.writing(f"Session {session_id!r}") as connection:
            session = self._users.find(connection, session_id, user_id, lock=True)
            yield connection, session
            if session is not None:
                save(connection, session)

    @contextmanager
    def _making(self, session_id: str, user_id: str | None) -> Iterator[tuple[Connection, Session]]:
        """Do the same, but create the session if there is none."""
        with self._writing(session_id, user_id) as (connection, found):
            session = found
            if session is None or (session.user_id is None and user_id is not None):
                session = find_or_make(connection, session_id, user_id)
            yield connection, session
            if session is not found:
                save(connection, session)

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
            return chosen(read(connection, session))

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
        """Return the state and the messages that its view needs, in one consistent read.

        These are the kept messages, the last one that the summary covers, and all after it.
        """
        with self._reading(session_id, user_id) as (connection, session):
            stored = state_of(session)
            state = stored.state
            if state is None or state["summary"] is None:
                return stored, visible(read(connection, session))
            pointer = state["summary"]["covers_to"]
            kept = current(read_named(connection, session, [*state["kept"], pointer]))
            start = next((row.seq for row in kept if row.message.id == pointer), session.first_seq)
            tail = current(read(connection, session, start))
            rows = [*(row for row in kept if row.seq < start), *tail]
            # The pointer's message marks what is covered, even if it is hidden.
            return stored, [r for r in rows if not r.is_hidden or r.message.id == pointer]

    aconversation = in_thread(conversation)

    def turn_up_to(
        self, session_id: str, message_id: str, *, user_id: str | None = None
    ) -> list[BaseMessage]:
        """Return a message and those before it, in order, back to its turn's human message.

        Empty if the session has no such message.
        """
        with self._reading(session_id, user_id) as (connection, session):
            named = read_named(connection, session, [message_id])
            if not named:
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
        """Return the newest `n` messages in order, with the rest of the first one's group."""
        checked(n, int, "n", 'store.last("s1", 6)')
        with self._reading(session_id, user_id) as (connection, session):
            rows = read_last(connection, session, n) if n > 0 else []
            return [row.message for row in rows]

    alast = in_thread(last)

    def get(
        self,
        session_id: str,
        message_id: str,
        *,
        user_id: str | None = None,
        include_superseded: bool = False,
    ) -> BaseMessage | None:
        """Return one message in full, or None if the session has no such id, or hides it.

        With `include_superseded` it is the first wording.
        """
        found = self.named(
            session_id, [message_id], user_id=user_id, include_superseded=include_superseded
        )
        return found[0].message if found else None

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
            return chosen(read_named(connection, session, ids))

    anamed = in_thread(named)

    def count(self, session_id: str, *, user_id: str | None = None) -> int:
        """Return how many messages a session has, hidden ones included."""
        with self._reading(session_id, user_id) as (_, session):
            return session.count

    acount = in_thread(count)

    def revision(self, session_id: str, *, user_id: str | None = None) -> tuple[int, ...]:
        """Return numbers that change when texts of a session are edited, redacted or deleted.

        They stay when messages are added. Empty if there is no such session.
        """
        with self._reading(session_id, user_id) as (_, session):
            return (session.id, session.first_seq, session.edits) if session.id else ()

    arevision = in_thread(revision)

    def sessions(self, *, user_id: str | None = None) -> list[str]:
        """Return the ids of all sessions, or of one user's, in alphabetical order."""
        with self.database.reading("The list of sessions") as connection:
            return list_sessions(connection, user_id)

    asessions = in_thread(sessions)

    # --- states, settings, leases, marks

    def state(self, session_id: str, *, user_id: str | None = None) -> StoredState:
        """Return the memory's state of a session."""
        with self._reading(session_id, user_id) as (_, session):
            return state_of(session)

    astate = in_thread(state)

    def save_state(
        self,
        session_id: str,
        state: MemoryState,
        *,
        expected: int,
        user_id: str | None = None,
    ) -> bool:
        """Store a new state, unless one was stored since `expected`, or the session deleted.

        Args:
            session_id: Id of the conversation.
            state: The new state.
            expected: Version of the state that it is based on; 0 if there was no session.
            user_id: The owner of the session.

        Returns:
            Whether it was stored.
        """
        with self._writing(session_id, user_id) as (connection, session):
            if (session.state_version if session else 0) != expected:
                return False
            save_state(connection, session or find_or_make(connection, session_id, user_id), state)
            return True

    asave_state = in_thread(save_state)

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

    def set_budget(
        self, session_id: str, budget: TokenBudget | None, *, user_id: str | None = None
    ) -> None:
        """Give a session its own budget; None removes it.

        Raises:
            ConfigurationError: When it is not a `TokenBudget`.
        """
        if not isinstance(budget, TokenBudget | None):
            raise ConfigurationError(f"{budget!r} is not a TokenBudget.")
        self.set_settings(session_id=session_id, user_id=user_id, budget=budget)

    aset_budget = in_thread(set_budget)

    def set_settings(
        self,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        **given: Unpack[ScopedSettings],
    ) -> None:
        """Give a session or a user its own settings, from the next call on.

        They apply to histories and chains on this store, and to graphs and agents connected to it
        by their `TokenMemorySaver`, by `store=`, or by their recall. In order of precedence:
        settings of the call, the session, the user, the memory. A thread that was switched
        to a mode keeps it.

        Args:
            session_id: The session; without it the user's settings are set.
            user_id: The user; with a session id it must be its owner.
            given: Keywords `budget`, `mode`, `summarizer` and `enabled`: see `ScopedSettings`. None
                removes a setting; others are kept.

        Raises:
            ScopeError: When neither id is given, or the session belongs to another user.
            ConfigurationError: When a value is invalid.
        """
        SessionSettings().changed(given)
        if session_id is None:
            if user_id is None:
                raise ScopeError(
                    "Name the session or user of the settings: session_id= or user_id=."
                )
            with self.database.writing(f"User {user_id!r}") as connection:
                changed = settings_of_user(connection, user_id).changed(given)
                save_settings_of_user(connection, user_id, changed)
            return
        with self._making(session_id, user_id) as (connection, session):
            stored = settings_of(session).changed(given).stored()
            session.settings = None if stored is None else to_json(stored)[0]
            if "mode" in given:
                _forget_chosen_mode(connection, session)

    aset_settings = in_thread(set_settings)

    def lease(
        self, session_id: str, owner: str, seconds: float, *, user_id: str | None = None
    ) -> bool:
        """Take the lease on summarizing a session, across processes.

        A lease that runs longer than `seconds` is ignored: its clock was ahead.

        Args:
            session_id: Id of the conversation.
            owner: Name of the holder, who may take it again.
            seconds: How long it runs if it is not released.
            user_id: The user who asks; the session must belong to them.

        Returns:
            Whether this owner holds it now; False if another does, or there is no session.
        """
        with self._writing(session_id, user_id) as (_, session):
            if session is None:
                return False
            now = time.time()
            until, end = session.leased_until or 0.0, now + seconds
            is_free = session.leased_by in {None, owner} or not now < until <= end
            if is_free:
                session.leased_by, session.leased_until = owner, end
            return is_free

    def release(self, session_id: str, owner: str, *, user_id: str | None = None) -> None:
        """Release the lease of this owner."""
        with self._writing(session_id, user_id) as (_, session):
            if session is not None and session.leased_by == owner:
                session.leased_by = session.leased_until = None

    def keep_session(
        self, session_id: str, *, keep: bool = True, user_id: str | None = None
    ) -> None:
        """Mark a session so that `expire` keeps it.

        Args:
            session_id: Id of the conversation, which may begin later.
            keep: False removes the mark.
            user_id: The user who asks; the session must belong to them.

        Raises:
            ScopeError: When the session belongs to another user.
        """
        with self._writing(session_id, user_id) as (connection, session):
            if session is not None:
                session.is_kept = int(keep)
            elif keep:
                save(connection, find_or_make(connection, session_id, user_id), is_kept=1)

    akeep_session = in_thread(keep_session)

    def kept_sessions(self) -> list[str]:
        """Return the ids of the sessions that are marked, in alphabetical order."""
        with self.database.reading("Marks of sessions") as connection:
            return kept_sessions(connection)

    akept_sessions = in_thread(kept_sessions)


def _forget_chosen_mode(connection: Connection, session: Session) -> None:
    """Reset a session's switch to a mode; a turn in progress cannot commit then."""
    state = state_of(session).state
    modes = state.get("modes") if state else None
    if state is None or modes is None or "chosen" not in modes:
        return
    kept: Any = {name: value for name, value in modes.items() if name != "chosen"}
    save_state(connection, session, {**state, "modes": kept})
