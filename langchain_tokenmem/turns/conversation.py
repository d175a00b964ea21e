"""`Conversation`: the I/O around a turn, with its input and output values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.request_options import RequestOptions, Steps
from langchain_tokenmem.core.view import View
from langchain_tokenmem.memory.prepared_call import PreparedCall
from langchain_tokenmem.memory.recalled_blocks import ConversationScope
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import MemoryState

ATTEMPTS = 8
"""Attempts to commit a new state; each fails only if another writer committed first."""


@dataclass(frozen=True)
class TurnRequest:
    """An adapter's request for one model call.

    Attributes:
        options: System text, tools, overhead and budget of the call.
        incoming: Messages of this turn that are not stored yet; empty if the state contains them.
        steps: Steps that may be taken; None to make only the view.
        instruction: Instruction for a compaction that the agent asked for, if it did.
        is_sent: Whether the view is the request itself; a chain's prompt makes another request.
    """

    options: RequestOptions = field(default_factory=RequestOptions)
    incoming: Sequence[BaseMessage] = ()
    steps: Steps | None = "all"
    instruction: str | None = None
    is_sent: bool = True


@dataclass(frozen=True)
class Snapshot:
    """A conversation as loaded for one call.

    Attributes:
        request: The adapter's request.
        messages: The messages that the memory processes, oldest first.
        state: The memory's state, with a summary that was finished meanwhile.
        stored: The state as stored, to compare a new one with.
        options: System text, tools, overhead and budget of the call.
        version: Version of the stored state, for a commit by compare-and-swap.
        scope: Where recall may search; None if nothing is recalled.
        newest: The messages that the call processes, if there are too many for one call.
        call: The call under this state; None if it processes only the newest messages.
    """

    request: TurnRequest
    messages: Sequence[BaseMessage]
    state: MemoryState
    stored: MemoryState
    options: RequestOptions
    version: int = 0
    scope: ConversationScope | None = None
    newest: Sequence[BaseMessage] | None = None
    call: PreparedCall | None = None


@dataclass(frozen=True)
class TurnResult:
    """The outcome of a turn.

    Attributes:
        state: The memory's state after it.
        view: The request for the model call.
        changed: Whether the state differs from the stored one.
    """

    state: MemoryState
    view: View
    changed: bool


class Conversation(Protocol):
    """The I/O of one conversation, as a turn needs it."""

    @property
    def memory(self) -> TokenMemory:
        """The memory that decides what is shown."""
        ...

    @property
    def label(self) -> str:
        """Name of the conversation in the log; empty if its warnings are logged elsewhere."""
        ...

    @property
    def key(self) -> Hashable:
        """Key of its background summary, or None if it cannot have one."""
        ...

    def configured(self) -> Conversation:
        """Return the conversation with a memory that has the session's own settings."""
        ...

    def load(self, request: TurnRequest, previous: Snapshot | None = None, /) -> Snapshot:
        """Read the conversation; keep the memory block of an earlier snapshot of the turn."""
        ...

    def load_after_reply(self, request: TurnRequest, /) -> Snapshot | None:
        """Read the conversation including the reply, and change nothing.

        None if a finished summary waits for the next call.
        """
        ...

    def summarize(self, snapshot: Snapshot, wait_s: float, /) -> None:
        """Make the due summary and store it for the next load; runs in the background.

        If another process is making it, wait for that one at most `wait_s`.
        """
        ...

    def commit(self, snapshot: Snapshot, state: MemoryState, /) -> bool:
        """Store a new state; return False if another writer was first."""
        ...
