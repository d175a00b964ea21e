"""Memory states, settings and summary leases of sessions."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Unpack

from sqlalchemy import delete, insert, select, update

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.session_settings import ScopedSettings, SessionSettings
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.storage.database.async_wrappers import in_thread
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.database.json_values import from_json, to_json
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, find, find_or_make, save
from langchain_tokenmem.storage.transcripts.tables import leases
from langchain_tokenmem.storage.transcripts.user_settings import (
    save_settings_of_user,
    settings_of_user,
)


@dataclass(frozen=True)
class StoredState:
    """The memory of a session.

    Attributes:
        state: The state; None before the first decision.
        version: What a commit has to name (compare-and-swap).
        budget: The session's own budget, if it has one.
        edits: Names the edits of its messages that are in force; empty for none. Read with a
            conversation only.
    """

    state: MemoryState | None
    version: int
    budget: TokenBudget | None
    edits: str = ""


class SessionStates:
    """The states of sessions: the part of a `TranscriptStore` that memories write.

    Args:
        database: Where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def state(self, session_id: str) -> StoredState:
        """Return the memory of a session."""
        with self._database.reading(f"Session {session_id!r}") as connection:
            session = find(connection, session_id, None)
            return StoredState(None, 0, None) if session is None else stored_state(session)

    astate = in_thread(state)

    def save_state(self, session_id: str, state: MemoryState, *, expected: int) -> bool:
        """Store a new state, if nobody stored one or cleared the session since `expected`.

        Returns:
            Whether it was stored.
        """
        with self._database.writing(f"Session {session_id!r}") as connection:
            found = find(connection, session_id, None)
            if (found.version if found else 0) != expected:
                return False
            session = found or find_or_make(connection, session_id, None)
            save(connection, replace(session, version=expected + 1, state=to_json(state)[0]))
            return True

    asave_state = in_thread(save_state)

    def set_budget(self, session_id: str, budget: TokenBudget | None) -> None:
        """Give a session a budget of its own; None takes it back.

        Raises:
            ConfigurationError: When it is no `TokenBudget`.
        """
        if not isinstance(budget, TokenBudget | None):
            raise ConfigurationError(f"{budget!r} is no TokenBudget.")
        self.set_settings(session_id=session_id, budget=budget)

    aset_budget = in_thread(set_budget)

    def set_settings(
        self,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        **given: Unpack[ScopedSettings],
    ) -> None:
        """Give a session, or a user, settings of their own, from the next call on.

        They hold for histories and chains on this store, and for threads of graphs and agents that
        know it: by their `TokenMemorySaver`, by `store=`, or by their recall. Settings of the call
        beat those of the session, these those of the user, these those of the memory. A mode of the
        session takes the place of one that it was switched to; a thread that was switched to one
        keeps it, as its checkpoints have it.

        Args:
            session_id: The session; without it the user's settings are meant.
            user_id: The user; beside a session id it must be its owner.
            given: Keywords `budget`, `mode`, `summarizer` and `enabled`: see `ScopedSettings`. None
                takes one back, what is left out stays.

        Raises:
            ScopeError: When neither id is given, or the session belongs to another user.
            ConfigurationError: When a value cannot work.
        """
        SessionSettings().changed(given)
        if session_id is None:
            if user_id is None:
                raise ScopeError("Whose settings? Name session_id= or user_id=.")
            with self._database.writing(f"User {user_id!r}") as connection:
                changed = settings_of_user(connection, user_id).changed(given)
                save_settings_of_user(connection, user_id, changed)
            return
        with self._database.writing(f"Session {session_id!r}") as connection:
            session = find_or_make(connection, session_id, user_id)
            stored = settings_of(session).changed(given).stored()
            text = None if stored is None else to_json(stored)[0]
            session = replace(session, budget=text)
            save(connection, _without_chosen_mode(session) if "mode" in given else session)

    aset_settings = in_thread(set_settings)

    def settings(
        self, session_id: str | None = None, *, user_id: str | None = None
    ) -> SessionSettings:
        """Return the settings of a session, those of its user where it has none.

        Args:
            session_id: The session; without it the user's own settings are meant.
            user_id: The user, where the session does not know them yet.

        Raises:
            ScopeError: When the session belongs to another user.
        """
        about = f"User {user_id!r}" if session_id is None else f"Session {session_id!r}"
        with self._database.reading(about) as connection:
            session = None if session_id is None else find(connection, session_id, user_id)
            if session is None:
                return settings_of_user(connection, user_id)
            return settings_of(session).over(settings_of_user(connection, session.user_id))

    asettings = in_thread(settings)

    def lease(self, session_id: str, owner: str, seconds: float) -> bool:
        """Take the lease on summarizing a session, across processes.

        One that would run for longer than the one asked for is void: it is from a clock ahead.

        Args:
            session_id: Names the conversation.
            owner: Who takes it; the same owner may take it again.
            seconds: How long it runs if it is not given back.

        Returns:
            Whether it is this owner's now; False while another's runs, or without a session.
        """
        with self._database.writing(f"Session {session_id!r}") as connection:
            session = find(connection, session_id, None)
            if session is None:
                return False
            now, own = round(time.time() * 1_000), leases.c.session_key == session.key
            end = now + round(seconds * 1_000)
            mine = {"held_by": owner, "expires_at_ms": end}
            held = connection.execute(select(leases).where(own)).first()
            if held is None:
                connection.execute(insert(leases).values(session_key=session.key, **mine))
            elif held.held_by == owner or not now < held.expires_at_ms <= end:
                connection.execute(update(leases).where(own).values(**mine))
            else:
                return False
            return True

    def release(self, session_id: str, owner: str) -> None:
        """Give the lease back; another owner's stays."""
        with self._database.writing(f"Session {session_id!r}") as connection:
            session = find(connection, session_id, None)
            if session is not None:
                own = (leases.c.session_key == session.key, leases.c.held_by == owner)
                connection.execute(delete(leases).where(*own))


def stored_state(session: SessionRow) -> StoredState:
    """Return the memory of a session from its row."""
    state = None if session.state is None else from_json(session.state)
    return StoredState(
        None if state is None else load_state(state),
        session.version,
        settings_of(session).budget,
    )


def settings_of(session: SessionRow) -> SessionSettings:
    """Return the settings of a session itself from its row."""
    return SessionSettings.loaded(None if session.budget is None else from_json(session.budget))


def _without_chosen_mode(session: SessionRow) -> SessionRow:
    """Return the row of a session that was not switched to a mode; one under way is dropped."""
    state = None if session.state is None else load_state(from_json(session.state))
    modes = state.get("modes") if state else None
    if state is None or modes is None or "chosen" not in modes:
        return session
    kept: Any = {name: value for name, value in modes.items() if name != "chosen"}
    text = to_json({**state, "modes": kept})[0]
    return replace(session, version=session.version + 1, state=text)
