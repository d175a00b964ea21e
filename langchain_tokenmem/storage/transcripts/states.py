"""Memory states, budgets and summary leases of sessions."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, replace

from sqlalchemy import delete, insert, select, update

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.storage.database.async_wrappers import in_thread
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.database.json_values import from_json, to_json
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, find, find_or_make, save
from langchain_tokenmem.storage.transcripts.tables import leases


@dataclass(frozen=True)
class StoredState:
    """The memory of a session.

    Attributes:
        state: The state; None before the first decision.
        version: What a commit has to name (compare-and-swap).
        budget: The session's own budget, if it has one.
    """

    state: MemoryState | None
    version: int
    budget: TokenBudget | None


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
        stored = None if budget is None else to_json(dataclasses.asdict(budget))[0]
        with self._database.writing(f"Session {session_id!r}") as connection:
            session = find_or_make(connection, session_id, None)
            save(connection, replace(session, budget=stored))

    aset_budget = in_thread(set_budget)

    def lease(self, session_id: str, owner: str, seconds: float) -> bool:
        """Take the lease on summarizing a session, across processes.

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
            now, own = time.time(), leases.c.session_key == session.key
            mine = {"held_by": owner, "expires_at_ms": round((now + seconds) * 1_000)}
            held = connection.execute(select(leases).where(own)).first()
            if held is None:
                connection.execute(insert(leases).values(session_key=session.key, **mine))
            elif held.held_by == owner or held.expires_at_ms <= now * 1_000:
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
    state, budget = (
        None if text is None else from_json(text) for text in (session.state, session.budget)
    )
    return StoredState(
        None if state is None else load_state(state),
        session.version,
        None if budget is None else TokenBudget(**budget),
    )
