"""A conversation in a store: what a view needs of it, and the commit of a new state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import marked
from langchain_tokenmem.state import MemoryState, new_state

if TYPE_CHECKING:
    from langchain_tokenmem.core.budget import TokenBudget
    from langchain_tokenmem.core.request_options import Around
    from langchain_tokenmem.storage.transcripts.message_rows import TranscriptRow
    from langchain_tokenmem.storage.transcript_store import TranscriptStore

ATTEMPTS = 8
"""Tries to commit a new state before giving up; each failure means that somebody else's won."""


@dataclass(frozen=True)
class Request:
    """What surrounds a conversation in one model call.

    Attributes:
        incoming: Messages of this turn that are not stored yet.
        system: System text in front.
        tools: Tool schemas that the call carries.
        overhead_tokens: Tokens of anything else around it.
        budget: Budget of this call; beats the session's, which beats the memory's.
    """

    incoming: Sequence[BaseMessage] = ()
    system: str | BaseMessage | None = None
    tools: Sequence[Any] | None = None
    overhead_tokens: int = 0
    budget: TokenBudget | None = None


@dataclass(frozen=True)
class Loaded:
    """A conversation as far as a view needs it.

    Attributes:
        messages: Kept messages, the pointer's own one, the tail, and what is incoming.
        state: The stored state, or a new one; with the memory block of the newest question.
        stored: The stored state as it is.
        version: Version of the stored state, for the commit.
        around: What surrounds it in the call.
    """

    messages: list[BaseMessage]
    state: MemoryState
    stored: MemoryState
    version: int
    around: Around


@dataclass(frozen=True)
class Conversation:
    """A conversation by its name.

    Attributes:
        store: Keeps the transcript and the state.
        session_id: Names the conversation.
        user_id: Who owns it; checked by the store when it is given.
    """

    store: TranscriptStore
    session_id: str
    user_id: str | None = None

    def load(self, request: Request) -> Loaded:
        """Return what a view needs for a call."""
        stored, rows = self.store.conversation(self.session_id, user_id=self.user_id)
        state = stored.state or new_state()
        return Loaded(
            messages=[*map(stamped, rows), *request.incoming],
            state=state,
            stored=state,
            version=stored.version,
            around={
                "system": request.system,
                "tools": request.tools,
                "overhead_tokens": request.overhead_tokens,
                "budget": request.budget or stored.budget,
            },
        )

    def commit(self, state: MemoryState, loaded: Loaded) -> bool:
        """Store a state; return whether nobody else stored one since this one was loaded."""
        return self.store.save_state(self.session_id, state, expected=loaded.version)


def stamped(row: TranscriptRow) -> BaseMessage:
    """Return the message of a row with its time in `response_metadata["tokenmem"]`."""
    return marked(row.message, created_at=row.created_at.isoformat())
