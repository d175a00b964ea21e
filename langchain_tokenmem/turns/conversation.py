"""`Conversation`: the I/O around a turn, with the values that go in and out of it."""

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
"""Tries to commit a new state; each failure means that another writer's commit won."""


@dataclass(frozen=True)
class TurnRequest:
    """An adapter's request for one model call.

    Attributes:
        options: System text, tools, overhead and budget of the call.
        incoming: Messages of this turn that are not stored yet; none where the state has them.
        steps: Steps that may be taken; None for none: then only the view is made.
        instruction: Instruction of a compaction that the agent asked for; None where it did not.
        is_sent: Whether the view is the request itself; a prompt of a chain makes another one.
    """

    options: RequestOptions = field(default_factory=RequestOptions)
    incoming: Sequence[BaseMessage] = ()
    steps: Steps | None = "all"
    instruction: str | None = None
    is_sent: bool = True


@dataclass(frozen=True)
class Snapshot:
    """A conversation as it was loaded for one call.

    Attributes:
        request: The adapter's request.
        messages: The messages that the memory looks at, oldest first.
        state: The memory's state, with a summary that was finished meanwhile.
        stored: The state as it is kept; compared with a new one to see what changed.
        options: System text, tools, overhead and budget of the call.
        version: Version of the stored state, for a commit by compare-and-swap.
        scope: Where recall may look; None where nothing is recalled.
        newest: The messages that the call looks at, where there are too many for one call.
        call: The call under this state; None where it looks at the newest messages only.
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
        changed: Whether the state differs from the one that is kept.
    """

    state: MemoryState
    view: View
    changed: bool


class Conversation(Protocol):
    """The I/O of one conversation, as a turn needs it."""

    @property
    def memory(self) -> TokenMemory:
        """Memory that decides what is shown."""
        ...

    @property
    def label(self) -> str:
        """Name of the conversation in the log; empty where its warnings are logged elsewhere."""
        ...

    @property
    def key(self) -> Hashable:
        """Key of its background summary; None where it can have none."""
        ...

    def configured(self) -> Conversation:
        """Return the conversation with a memory that has the session's own settings."""
        ...

    def load(self, request: TurnRequest, previous: Snapshot | None = None, /) -> Snapshot:
        """Read the conversation; a snapshot of the same turn keeps its memory block."""
        ...

    def load_after_reply(self, request: TurnRequest, /) -> Snapshot | None:
        """Read the conversation with the reply in it, and change nothing.

        None where a finished summary waits for the next call.
        """
        ...

    def summarize(self, snapshot: Snapshot, wait_s: float, /) -> None:
        """Make the summary that is due and keep it for the next load; runs in the background.

        Where another process is making it, wait for that one at most `wait_s`.
        """
        ...

    def commit(self, snapshot: Snapshot, state: MemoryState, /) -> bool:
        """Keep a new state; return False where another writer was first."""
        ...
