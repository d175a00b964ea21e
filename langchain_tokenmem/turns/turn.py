"""One turn of a conversation: from an adapter's request to the view for the model call.

    load (with a finished summary) -> recall -> start the summary that is due
        -> wait for it at the hard limit -> compact and view -> commit

`Turn.take` is the generator that holds this order for every adapter; `take_turn` and `atake_turn`
drive it. A `Conversation` is the I/O around it: a session in a store,
or a thread in a graph's state.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Protocol

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.planning import Steps
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.view import View
from langchain_tokenmem.errors import StoreError, SummaryError
from langchain_tokenmem.memory.drivers import PendingSummary, Work, arun, run
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
    """

    options: RequestOptions = field(default_factory=RequestOptions)
    incoming: Sequence[BaseMessage] = ()
    steps: Steps | None = "all"
    instruction: str | None = None


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
    """

    request: TurnRequest
    messages: Sequence[BaseMessage]
    state: MemoryState
    stored: MemoryState
    options: RequestOptions
    version: int = 0
    scope: ConversationScope | None = None


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

    def load(self, request: TurnRequest, previous: Snapshot | None = None, /) -> Snapshot:
        """Read the conversation; a snapshot of the same turn keeps its memory block."""
        ...

    def summarize(self, snapshot: Snapshot, wait_s: float, /) -> None:
        """Make the summary that is due and keep it for the next load; runs in the background.

        Where another process is making it, wait for that one at most `wait_s`.
        """
        ...

    def commit(self, snapshot: Snapshot, state: MemoryState, /) -> bool:
        """Keep a new state; return False where another writer was first."""
        ...


def take_turn(conversation: Conversation, request: TurnRequest) -> TurnResult:
    """Compact where it is due, and return the view of the next model call."""
    return run(Turn(conversation, request).take(), conversation.memory.summarizer)


async def atake_turn(conversation: Conversation, request: TurnRequest) -> TurnResult:
    """Do the same as `take_turn` without blocking the event loop."""
    return await arun(Turn(conversation, request).take(), conversation.memory.summarizer)


def compact_now(conversation: Conversation, request: TurnRequest) -> MemoryState:
    """Fold everything but the recent share into the summary, whatever the thresholds say.

    Raises:
        SummaryError: When the summarizer failed; nothing is changed then.
        StoreError: When other writers committed first, again and again.
    """
    return run(Turn(conversation, request).compact_now(), conversation.memory.summarizer)


async def acompact_now(conversation: Conversation, request: TurnRequest) -> MemoryState:
    """Do the same as `compact_now` without blocking the event loop."""
    return await arun(Turn(conversation, request).compact_now(), conversation.memory.summarizer)


@dataclass(frozen=True)
class Turn:
    """The steps of one turn, as generators.

    Attributes:
        conversation: Loads and keeps the conversation.
        request: The adapter's request.
    """

    conversation: Conversation
    request: TurnRequest

    @property
    def memory(self) -> TokenMemory:
        """Memory that decides what is shown."""
        return self.conversation.memory

    def take(self) -> Work[TurnResult]:
        """Compact where it is due, and return the view of the next model call.

        A summary that takes its time is made in the background; at the hard limit the call waits
        for it, at most `max_wait_s`. A summarizer that fails never fails the turn.
        """
        snapshot = self._load()
        job, is_needed = self._start_due_summary(snapshot)
        if job is not None and is_needed:
            yield PendingSummary(job, self.memory.max_wait_s)
            snapshot = self._load(snapshot)
        # A summary that is made in the background is not made here as well.
        steps = self.request.steps if job is None else "shorten_if_enough"
        for _ in range(ATTEMPTS):
            try:
                state, view = yield from self._compact(snapshot, steps)
            except SummaryError as error:
                return self._without_summary(snapshot, error)
            if self.conversation.commit(snapshot, state):
                return self._result(snapshot, state, view)
            snapshot = self._load(snapshot)
        self._warn("others commit all the time.")
        return self._uncompacted(snapshot)

    def compact_now(self) -> Work[MemoryState]:
        """Fold everything but the recent share into the summary; errors as in `compact_now`."""
        running = self._running_summary()
        if running is not None:  # no batch is paid for twice
            yield PendingSummary(running, self.memory.max_wait_s)
        for _ in range(ATTEMPTS):
            snapshot = self.conversation.load(self.request)
            state = yield from self.memory.engine.compaction(
                snapshot.messages,
                snapshot.state,
                force=True,
                instruction=self.request.instruction,
                **snapshot.options,
            )
            if state is snapshot.state:
                return state
            if self.conversation.commit(snapshot, state):
                return state
        raise StoreError(
            f"{self.conversation.label} was changed by others {ATTEMPTS} times while it was "
            f"compacted; nothing is lost. Try again when fewer writers are at work."
        )

    def _load(self, previous: Snapshot | None = None) -> Snapshot:
        """Return the conversation, its newest question with its memory block."""
        snapshot = self.conversation.load(self.request, previous)
        if snapshot.scope is None:
            return snapshot
        messages, state = snapshot.messages, snapshot.state
        recalled = self.memory.recalled(messages, state, snapshot.scope, **snapshot.options)
        return replace(snapshot, state=recalled or state)

    def _start_due_summary(self, snapshot: Snapshot) -> tuple[Future[None] | None, bool]:
        """Start the summary that is due in the background.

        Returns:
            Its job, or one that runs already where the agent asks for a compaction; and whether
            the request does not fit, or cannot be made, without it.
        """
        memory, conversation = self.memory, self.conversation
        if self.request.instruction is not None:
            return self._running_summary(), True
        if not memory.background or conversation.key is None or self.request.steps != "all":
            return None, False
        planned = memory.plan(snapshot.messages, snapshot.state, **snapshot.options)
        if not planned.fold:
            return None, False
        is_over_limit = planned.before > memory.limit_of(snapshot.options)
        wait_s = memory.max_wait_s if is_over_limit else 0.0
        job = memory.background_summaries.start(
            conversation.key, lambda: conversation.summarize(snapshot, wait_s)
        )
        return job, is_over_limit

    def _running_summary(self) -> Future[None] | None:
        return self.memory.background_summaries.running(self.conversation.key)

    def _compact(self, snapshot: Snapshot, steps: Steps | None) -> Work[tuple[MemoryState, View]]:
        instruction = self.request.instruction
        if instruction is None and steps is None:
            return snapshot.state, self._view(snapshot)
        work = self.memory.engine.compaction_and_view(
            snapshot.messages,
            snapshot.state,
            force=instruction is not None,
            instruction=instruction,
            steps="all" if instruction is not None or steps is None else steps,
            **snapshot.options,
        )
        return (yield from work)

    def _without_summary(self, snapshot: Snapshot, error: SummaryError) -> TurnResult:
        """Return the view that fits without the summary, and a warning that tells why."""
        self._warn(f"no summary, {error}")
        result = self._uncompacted(snapshot)
        warnings = (*result.view.warnings, f"No summary was made: {error}")
        return replace(result, view=replace(result.view, warnings=warnings))

    def _uncompacted(self, snapshot: Snapshot) -> TurnResult:
        return self._result(snapshot, snapshot.state, self._view(snapshot))

    def _view(self, snapshot: Snapshot) -> View:
        return self.memory.view(snapshot.messages, snapshot.state, **snapshot.options)

    def _result(self, snapshot: Snapshot, state: MemoryState, view: View) -> TurnResult:
        for warning in view.warnings:
            self._warn(warning)
        return TurnResult(state, view, changed=state != snapshot.stored)

    def _warn(self, warning: str) -> None:
        if self.conversation.label:
            self.memory.warn_once(f"{self.conversation.label}: {warning}")
