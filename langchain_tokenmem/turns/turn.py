"""One turn of a conversation: from an adapter's request to the view for the model call.

    load (with a finished summary) -> recall -> start the summary that is due
        -> wait for it at the hard limit -> compact and view -> commit

`Turn.take` is the generator that holds this order for every adapter; `take_turn` and `atake_turn`
drive it. A `Conversation` is the I/O around it: a session in a store,
or a thread in a graph's state.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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
        pending = self._summary_to_wait_for(snapshot)
        if pending is not None:
            yield pending
            snapshot = self._load(snapshot)
        for _ in range(ATTEMPTS):
            try:
                state, view = yield from self._compact(snapshot)
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
        if running is not None:
            yield running
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

    def _summary_to_wait_for(self, snapshot: Snapshot) -> PendingSummary | None:
        """Start the summary that is due in the background; return the one the call waits for."""
        if self.request.instruction is not None:
            return self._running_summary()  # no batch is paid for twice
        if not self._summarizes_in_background:
            return None
        memory, conversation = self.memory, self.conversation
        planned = memory.plan(snapshot.messages, snapshot.state, **snapshot.options)
        if not planned.fold:
            return None
        is_hard = planned.before > memory.limit_of(snapshot.options)
        wait_s = memory.max_wait_s if is_hard else 0.0
        job = memory.background_summaries.start(
            conversation.key, lambda: conversation.summarize(snapshot, wait_s)
        )
        return PendingSummary(job, memory.max_wait_s) if is_hard else None

    def _running_summary(self) -> PendingSummary | None:
        job = self.memory.background_summaries.running(self.conversation.key)
        return PendingSummary(job, self.memory.max_wait_s) if job is not None else None

    @property
    def _summarizes_in_background(self) -> bool:
        has_key = self.conversation.key is not None
        return self.memory.background and has_key and self.request.steps == "all"

    def _compact(self, snapshot: Snapshot) -> Work[tuple[MemoryState, View]]:
        instruction, steps = self.request.instruction, self.request.steps
        if instruction is None and steps is None:
            return snapshot.state, self._view(snapshot)
        if instruction is not None:
            steps = "all"
        elif self._summarizes_in_background:
            steps = "shorten_if_enough"
        work = self.memory.engine.compaction_and_view(
            snapshot.messages,
            snapshot.state,
            force=instruction is not None,
            instruction=instruction,
            steps=steps or "all",
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
