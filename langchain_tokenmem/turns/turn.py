"""One turn of a conversation: from an adapter's request to the view for the model call.

    load (with a finished summary) -> recall -> ask the provider for its count
        -> at the hard limit start the summary that is due, and wait for it
        -> compact, recall again if it hid messages, and view
        -> commit -> start the summary that is due soon
    the model's reply -> start the summary that the next call needs

A turn waits at most twice: for the provider's count and for a summary. The async versions run the
same steps in their own thread, and the summarizer on the event loop.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Literal

from langchain_tokenmem.background import in_own_thread, seconds_left, wait_for, waiting_at_most
from langchain_tokenmem.core.request_options import Steps
from langchain_tokenmem.core.view import View
from langchain_tokenmem.errors import StoreError, SummaryError, TokenMemoryError
from langchain_tokenmem.events import MemoryEvent
from langchain_tokenmem.memory.background import run_in_background
from langchain_tokenmem.memory.compaction import Summarize, summaries_by, with_async_summaries
from langchain_tokenmem.memory.prepared_call import with_sent
from langchain_tokenmem.memory.recalled_blocks import with_folded_recalled, with_recalled
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.turns.backlog import newest_messages
from langchain_tokenmem.turns.conversation import (
    ATTEMPTS,
    Conversation,
    Snapshot,
    TurnRequest,
    TurnResult,
)

_WITH_FOLDS = ("all", "shorten_if_enough")
"""Steps of turns that fold messages, if only in the background."""

Due = Literal["at once", "soon"]
"""When a background summary is needed: before this call, or for a later one."""


def take_turn(conversation: Conversation, request: TurnRequest) -> TurnResult:
    """Compact if it is due, and return the view for the next model call.

    A slow summary is made in the background; at the hard limit the call waits for
    it, at most `max_wait_s`. A failing summarizer never fails the turn.
    """
    with waiting_at_most(conversation.memory.max_wait_s):
        turn = Turn(conversation.configured(), request)
        memory = turn.conversation.memory
        return turn.take(summaries_by(memory.summarizer, memory.summary_calls))


async def atake_turn(conversation: Conversation, request: TurnRequest) -> TurnResult:
    """Do the same as `take_turn` without blocking the event loop."""
    with waiting_at_most(conversation.memory.max_wait_s):
        turn = Turn(await in_own_thread(conversation.configured), request)
        return await with_async_summaries(turn.conversation.memory.summarizer, turn.take)


def compact_now(conversation: Conversation, request: TurnRequest) -> MemoryState:
    """Fold about half of the request into the summary, regardless of thresholds.

    Raises:
        SummaryError: When the summarizer failed; then nothing is changed.
        StoreError: When other writers repeatedly committed first.
    """
    turn = Turn(conversation.configured(), request)
    return turn.compacted(summaries_by(turn.conversation.memory.summarizer))


async def acompact_now(conversation: Conversation, request: TurnRequest) -> MemoryState:
    """Do the same as `compact_now` without blocking the event loop."""
    turn = Turn(await in_own_thread(conversation.configured), request)
    return await with_async_summaries(turn.conversation.memory.summarizer, turn.compacted)


def after_reply(conversation: Conversation, request: TurnRequest) -> None:
    """Start the summary that the next call needs, right after the model's reply; never fails.

    Args:
        conversation: The conversation including the reply.
        request: The next call, as far as known.
    """
    if not conversation.memory.background or conversation.key is None:
        return
    turn = Turn(conversation, request)
    try:
        turn = Turn(conversation.configured(), request)
        if turn.conversation.memory.background and turn.running_summary() is None:
            turn.start_due_summary()
    except TokenMemoryError as error:  # the reply is done, and the next call tries again
        turn.warn(f"no summary was started after the reply, {error}")


async def aafter_reply(conversation: Conversation, request: TurnRequest) -> None:
    """Do the same as `after_reply` without blocking the event loop."""
    if conversation.memory.background:
        await in_own_thread(after_reply, conversation, request)


@dataclass(frozen=True)
class Turn:
    """The steps of one turn.

    Attributes:
        conversation: Loads and stores the conversation.
        request: The adapter's request.
        started: Start of the call, by `time.monotonic`, in seconds.
    """

    conversation: Conversation
    request: TurnRequest
    started: float = field(default_factory=time.monotonic)

    def take(self, summarize: Summarize) -> TurnResult:
        """Load the conversation, wait if needed, compact, make the view, and commit.

        The view without a due summary is made before waiting for it: when the wait ends, there may
        be many calls and no time.
        """
        memory, load = self.conversation.memory, self.conversation.load
        snapshot = self._prepared(load(self.request))
        if snapshot.call is not None:
            snapshot = replace(snapshot, call=memory.counted(snapshot.call))
        if self.request.instruction is not None:  # the agent asks for it; it may be running
            if (running := self.running_summary()) is not None:
                self._wait_for(running)
                snapshot = self._prepared(load(self.request, snapshot))
            return self._committed(snapshot, None, summarize)
        due = self._due_summary(snapshot)
        if due == "at once":
            summary = self._start_summary(snapshot, due)
            late = self._compact(snapshot, "shorten_if_enough", summaries_by(memory.summarizer))
            if not self._wait_for(summary) and self.conversation.commit(snapshot, late[0]):
                return self._result(snapshot, *late)
            snapshot = self._prepared(load(self.request, snapshot))
        return self._committed(snapshot, due, summarize)

    def _committed(self, snapshot: Snapshot, due: Due | None, summarize: Summarize) -> TurnResult:
        """Compact and make the view after all waits, and commit the new state."""
        # Do not also make a summary that is being made in the background.
        steps = self.request.steps if due is None else "shorten_if_enough"
        for _ in range(ATTEMPTS):
            try:
                state, view = self._compact(snapshot, steps, summarize)
            except SummaryError as error:
                return self._without_summary(snapshot, error)
            if self.conversation.commit(snapshot, state):
                if due == "soon":  # it reads what this turn committed
                    self._start_summary(snapshot, due)
                return self._result(snapshot, state, view)
            snapshot = self._prepared(self.conversation.load(self.request, snapshot))
        self.warn("others keep committing.")
        return self._uncompacted(snapshot)

    def _wait_for(self, summary: Future[None]) -> bool:
        """Wait for a summary as long as a call may; return whether it is finished."""
        return wait_for(summary, seconds_left(self.conversation.memory.max_wait_s))

    def start_due_summary(self) -> None:
        """Start the summary that the next call needs, counting the reply."""
        loaded = self.conversation.load_after_reply(self.request)
        if loaded is None:
            return
        snapshot = self._prepared(loaded)
        due = self._due_summary(snapshot)
        if due is not None:
            self._start_summary(snapshot, due)

    def compacted(self, summarize: Summarize) -> MemoryState:
        """Fold about half of the request into the summary, and commit it."""
        engine, instruction = self.conversation.memory.engine, self.request.instruction
        if (running := self.running_summary()) is not None:  # so that no batch is paid for twice
            self._wait_for(running)
        for _ in range(ATTEMPTS):
            snapshot = self.conversation.load(self.request)
            call = engine.prepare(snapshot.messages, snapshot.state, **snapshot.options)
            state = engine.compaction(call, summarize, force=True, instruction=instruction)[1]
            if state is snapshot.state:
                return state
            if self.conversation.commit(snapshot, state):
                return state
        raise StoreError(
            f"{self.conversation.label} was changed by others {ATTEMPTS} times while it was "
            f"compacted; nothing is lost. Try again when fewer writers are at work."
        )

    def _prepared(self, snapshot: Snapshot) -> Snapshot:
        """Return a loaded conversation with the memory block of its newest question, and its call.

        If it has too many messages for one call, only the newest are used; the others are
        summarized in the background, even by a quick summarizer.
        """
        memory, options = self.conversation.memory, snapshot.options
        is_behind = memory.catches_up and self.conversation.key is not None
        is_automatic = self.request.instruction is None and self.request.steps in _WITH_FOLDS
        if is_behind and is_automatic and memory.engine.policy.trigger:
            limit = memory.limit_of(options)
            newest = newest_messages(snapshot.messages, snapshot.state, limit)
            snapshot = replace(snapshot, newest=newest)
        if snapshot.scope is not None:
            shown = snapshot.messages if snapshot.newest is None else snapshot.newest
            state = with_recalled(memory, shown, snapshot.state, snapshot.scope, **options)
            snapshot = replace(snapshot, state=state)
        if snapshot.newest is not None:
            return snapshot
        call = memory.engine.prepare(snapshot.messages, snapshot.state, **options)
        return replace(snapshot, call=call)

    def _due_summary(self, snapshot: Snapshot) -> Due | None:
        """Return when a summary is due: now if the request cannot be made without it.

        That of a backlog takes long, and is not waited for.
        """
        memory, call = self.conversation.memory, snapshot.call
        if self.conversation.key is None or self.request.steps != "all":
            return None
        if call is None:
            return "soon"
        if not memory.background:
            return None
        planned = memory.engine.plan(call)
        if not planned.fold:
            return None
        return "at once" if planned.before > call.budget.limit else "soon"

    def _start_summary(self, snapshot: Snapshot, due: Due) -> Future[None]:
        """Start a summary in the background, or return the one in progress."""
        conversation, memory = self.conversation, self.conversation.memory
        if due == "at once":  # the call waits, so the summary is part of it
            return memory.background_summaries.start(
                conversation.key,
                lambda: conversation.summarize(snapshot, memory.max_wait_s),
                memory.engine,
            )

        def behind_the_reply() -> None:
            with run_in_background(memory.engine.source):
                conversation.summarize(snapshot, 0.0)

        return memory.background_summaries.start(conversation.key, behind_the_reply, memory.engine)

    def running_summary(self) -> Future[None] | None:
        """Return the summary in progress for this conversation, if any."""
        return self.conversation.memory.background_summaries.running(self.conversation.key)

    def _compact(
        self, snapshot: Snapshot, steps: Steps | None, summarize: Summarize
    ) -> tuple[MemoryState, View]:
        if snapshot.call is None:
            return snapshot.state, self._view(snapshot)
        engine, asked = self.conversation.memory.engine, self.request.instruction
        steps = steps if asked is None else "all"
        made = engine.compaction(snapshot.call, summarize, instruction=asked, steps=steps)
        if snapshot.scope is not None:
            made = with_folded_recalled(self.conversation.memory, *made, snapshot.scope)
        state, view = engine.request(*made)
        if not self.request.is_sent:
            state = with_sent(state, snapshot.state.get("sent"))
        return state, view

    def _without_summary(self, snapshot: Snapshot, error: SummaryError) -> TurnResult:
        """Return the view that fits without the summary, with a warning that says why."""
        self.warn(f"no summary, {error}")
        result = self._uncompacted(snapshot)
        warnings = (*result.view.warnings, f"No summary was made: {error}")
        return replace(result, view=replace(result.view, warnings=warnings))

    def view_again(self, snapshot: Snapshot) -> View:
        """Return the view of a past call under the state after it; store nothing."""
        return self._view(self._prepared(snapshot))

    def _uncompacted(self, snapshot: Snapshot) -> TurnResult:
        return self._result(snapshot, snapshot.state, self._view(snapshot))

    def _view(self, snapshot: Snapshot) -> View:
        engine, state, options = self.conversation.memory.engine, snapshot.state, snapshot.options
        if snapshot.newest is not None:
            view = engine.sendable(engine.prepare(snapshot.newest, state, **options))[1]
            if view.left_out:
                unread = len(snapshot.messages) - len(snapshot.newest)
                # Without their number, which grows: each text is logged once.
                warnings = (*view.warnings, "Messages before them wait to be summarized, too.")
                return replace(view, left_out=view.left_out + unread, warnings=warnings)
        # If the newest ones fit, no marker represents the others.
        call = snapshot.call or engine.prepare(snapshot.messages, state, **options)
        return engine.sendable(call)[1]

    def _result(self, snapshot: Snapshot, state: MemoryState, view: View) -> TurnResult:
        for warning in view.warnings:
            self.warn(warning)
        if self.conversation.label:
            tokens = view.usage.input_tokens
            seconds = time.monotonic() - self.started
            event = MemoryEvent(
                kind="view", tokens_before=tokens, tokens_after=tokens, duration_s=seconds
            )
            self.conversation.memory.engine.tell("end", event)
        return TurnResult(state, view, changed=state != snapshot.stored)

    def warn(self, warning: str) -> None:
        """Log a warning once, under the conversation's name."""
        if self.conversation.label:
            self.conversation.memory.warn_once(f"{self.conversation.label}: {warning}")
