"""One stored conversation under a memory: what the doors over a transcript store share."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import marked
from langchain_tokenmem.errors import StoreError, SummaryError
from langchain_tokenmem.handover import carried_over
from langchain_tokenmem.jobs import wait_for
from langchain_tokenmem.recalling import Whose
from langchain_tokenmem.state import Block, MemoryState, new_state

if TYPE_CHECKING:
    from langchain_tokenmem.core.around import Around
    from langchain_tokenmem.core.budget import TokenBudget
    from langchain_tokenmem.core.planning import Steps
    from langchain_tokenmem.core.view import View
    from langchain_tokenmem.memory import TokenMemory
    from langchain_tokenmem.storage.message_rows import TranscriptRow
    from langchain_tokenmem.storage.transcripts import TranscriptStore

_POLL_S = 0.1
"""How often a call at the hard limit looks whether another process has committed its summary."""

_ATTEMPTS = 8
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


class Session:
    """A conversation in a store, seen through a memory.

    Args:
        memory: Decides what is shown.
        store: Keeps the transcript and the state.
        session_id: Names the conversation.
        user_id: Who owns it; checked by the store when it is given.
    """

    def __init__(
        self,
        memory: TokenMemory,
        store: TranscriptStore,
        session_id: str,
        user_id: str | None = None,
    ) -> None:
        self.memory = memory
        self.store = store
        self.session_id = session_id
        self.user_id = user_id
        self._pause = threading.Event()  # never set: a wait that no test has to patch

    def view(self, request: Request) -> View:
        """Compact where it is due, and return the view of the next model call.

        A summary that takes its time is made beside the call; at the hard limit the call waits
        for it, for a while.
        """
        blocks: dict[str, Block] = {}
        loaded = self._asked(request, blocks)
        awaited = self._started(request, loaded)
        if awaited is not None:
            wait_for(awaited, self.memory.max_wait_s)
            loaded = self._asked(request, blocks)
        for _ in range(_ATTEMPTS):
            try:
                state, view = self.memory.compact_and_view(
                    loaded.messages, loaded.state, steps=self._steps, **loaded.around
                )
            except SummaryError as error:
                return self._served_without(loaded, error)
            if not _is_storable(state, loaded, request) or self._commit(state, loaded):
                return self._told(view)
            loaded = self._asked(request, blocks)
        return self._served_uncommitted(loaded)

    async def aview(self, request: Request) -> View:
        """Do the same as `view` without blocking the event loop."""
        blocks: dict[str, Block] = {}
        loaded = await asyncio.to_thread(self._asked, request, blocks)
        awaited = await asyncio.to_thread(self._started, request, loaded)
        if awaited is not None:
            await asyncio.to_thread(wait_for, awaited, self.memory.max_wait_s)
            loaded = await asyncio.to_thread(self._asked, request, blocks)
        for _ in range(_ATTEMPTS):
            try:
                state, view = await self.memory.acompact_and_view(
                    loaded.messages, loaded.state, steps=self._steps, **loaded.around
                )
            except SummaryError as error:
                return self._served_without(loaded, error)
            if not _is_storable(state, loaded, request) or await asyncio.to_thread(
                self._commit, state, loaded
            ):
                return self._told(view)
            loaded = await asyncio.to_thread(self._asked, request, blocks)
        return self._served_uncommitted(loaded)

    def _asked(self, request: Request, blocks: dict[str, Block]) -> Loaded:
        """Return the conversation, its newest question with its memory block.

        Args:
            request: The call.
            blocks: The block that this call has made already; takes the one that is made now.
        """
        loaded = self._load(request)
        known = loaded.state
        if blocks:
            known = {**known, "blocks": {**blocks, **known["blocks"]}}
        whose = Whose(self.session_id, self.user_id)
        state = self.memory.recalled(loaded.messages, known, whose, **loaded.around) or known
        made = state["blocks"].keys() - loaded.state["blocks"].keys()
        blocks.update((key, state["blocks"][key]) for key in made)
        return replace(loaded, state=state, stored=loaded.state) if made else loaded

    def _started(self, request: Request, loaded: Loaded) -> Future[None] | None:
        """Start the summary that is due in the background.

        Returns:
            What to wait for, where the request does not fit without the summary.
        """
        if not self.memory.background:
            return None
        planned = self.memory.plan(loaded.messages, loaded.state, **loaded.around)
        if not planned.fold:
            return None
        is_hard = planned.before > self.memory.limit_of(loaded.around)
        patience = self.memory.max_wait_s if is_hard else 0.0
        job = self.memory.jobs.start(
            self._key, lambda: self._summarize(request, patience, loaded.version)
        )
        return job if is_hard else None

    @property
    def _steps(self) -> Steps:
        """What a turn does itself: everything, or what no background summary has to follow."""
        return "shorten_if_enough" if self.memory.background else "all"

    @property
    def _key(self) -> tuple[int, str]:
        return (id(self.store), self.session_id)

    def _summarize(self, request: Request, patience: float, version: int) -> None:
        """Make the summary that is due and commit it; for a thread of its own.

        Messages of this turn are not stored yet: they only count, and are never covered.
        """
        owner = uuid4().hex
        if not self._leased(owner, patience, version):
            return
        try:
            loaded = self._load(self._stored_part(request))
            state = self.memory.compact(loaded.messages, loaded.state, **loaded.around)
            if state is not loaded.state:
                self._commit_behind(request, loaded, state)
        finally:
            self.store.release(self.session_id, owner)

    def _commit_behind(self, request: Request, loaded: Loaded, state: MemoryState) -> None:
        """Commit a summary on the state as it stands now; turns may have changed it meanwhile.

        After a `clear`, or another summary, it is dropped.
        """
        before, after = loaded.state, state
        for _ in range(_ATTEMPTS):
            if self._commit(state, loaded):
                return
            loaded = self._load(self._stored_part(request))
            carried = carried_over(loaded.messages, before, after, loaded.state)
            if carried is None:
                return
            state = carried

    def _leased(self, owner: str, patience: float, version: int) -> bool:
        """Take the lease; where another process has it, wait for what it commits, for a while."""
        end = time.monotonic() + patience
        while not self.store.lease(self.session_id, owner, self.memory.jobs.timeout_s):
            if time.monotonic() > end or self.store.state(self.session_id).version != version:
                return False
            self._pause.wait(_POLL_S)
        return True

    def _stored_part(self, request: Request) -> Request:
        count = self.memory.counter_of(request.budget or self.memory.budget).message
        budget = request.budget or self.memory.budget
        # A giant input is shown cut, and must not weigh more than it is shown.
        most = int(budget.message_share * budget.limit)
        weight = min(most, sum(map(count, request.incoming)))
        return replace(request, incoming=(), overhead_tokens=request.overhead_tokens + weight)

    def compact(self, request: Request, *, instruction: str | None = None) -> MemoryState:
        """Fold everything but the recent share into the summary, whatever the thresholds say.

        Raises:
            StoreError: When other writers committed first, again and again.
        """
        by_hand: dict[str, Any] = {"force": True, "instruction": instruction}
        self._let_finish()
        for _ in range(_ATTEMPTS):
            loaded = self._load(request)
            state = self.memory.compact(loaded.messages, loaded.state, **loaded.around, **by_hand)
            if state is loaded.state or self._commit(state, loaded):
                return state
        raise self._busy()

    async def acompact(self, request: Request, *, instruction: str | None = None) -> MemoryState:
        """Do the same as `compact` without blocking the event loop."""
        by_hand: dict[str, Any] = {"force": True, "instruction": instruction}
        await asyncio.to_thread(self._let_finish)
        for _ in range(_ATTEMPTS):
            loaded = await asyncio.to_thread(self._load, request)
            state = await self.memory.acompact(
                loaded.messages, loaded.state, **loaded.around, **by_hand
            )
            if state is loaded.state or await asyncio.to_thread(self._commit, state, loaded):
                return state
        raise self._busy()

    def _let_finish(self) -> None:
        """Wait for the summary that is being made, so that no batch is paid for twice."""
        job = self.memory.jobs.running(self._key)
        if job is not None:
            wait_for(job, self.memory.max_wait_s)

    def _load(self, request: Request) -> Loaded:
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

    def _commit(self, state: MemoryState, loaded: Loaded) -> bool:
        return self.store.save_state(self.session_id, state, expected=loaded.version)

    def _served(self, loaded: Loaded, state: MemoryState) -> View:
        return self._told(self.memory.view(loaded.messages, state, **loaded.around))

    def _told(self, view: View) -> View:
        for warning in view.warnings:
            self.memory.warn_once(f"Session {self.session_id!r}: {warning}")
        return view

    def _served_without(self, loaded: Loaded, error: SummaryError) -> View:
        """Serve what fits: a summarizer that fails must not take the turn down."""
        self.memory.warn_once(f"Session {self.session_id!r}: no summary, {error}")
        view = self._served(loaded, loaded.state)
        return replace(view, warnings=(*view.warnings, f"No summary was made: {error}"))

    def _served_uncommitted(self, loaded: Loaded) -> View:
        self.memory.warn_once(f"Session {self.session_id!r}: others commit all the time.")
        return self._served(loaded, loaded.state)

    def _busy(self) -> StoreError:
        return StoreError(
            f"Session {self.session_id!r} was changed by others {_ATTEMPTS} times while it was "
            f"compacted; nothing is lost. Try again when fewer writers are at work."
        )


def _is_storable(state: MemoryState, loaded: Loaded, request: Request) -> bool:
    """Return whether there is a new state to store.

    A state whose pointer names a message that is not stored yet serves this one call only.
    """
    if state is loaded.stored:
        return False
    unstored = {message.id for message in request.incoming}
    return state["summary"] is None or state["summary"]["covers_to"] not in unstored


def stamped(row: TranscriptRow) -> BaseMessage:
    """Return the message of a row with its time in `response_metadata["tokenmem"]`."""
    return marked(row.message, created_at=row.created_at.isoformat())
