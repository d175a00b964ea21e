"""The summary of a stored conversation, made behind the reply and committed when it is done."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from langchain_tokenmem.memory.background import wait_for
from langchain_tokenmem.memory.finished_summaries import carried_over
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.turns.conversation import ATTEMPTS, Conversation, Loaded, Request

if TYPE_CHECKING:
    from langchain_tokenmem.memory.token_memory import TokenMemory

_POLL_S = 0.1
"""How often a call at the hard limit looks whether another process has committed its summary."""


class Behind:
    """Makes the summaries of one conversation beside its calls, one at a time.

    Args:
        memory: Decides what is due; runs the job.
        conversation: What is summarized.
    """

    def __init__(self, memory: TokenMemory, conversation: Conversation) -> None:
        self._memory = memory
        self._conversation = conversation
        self._pause = threading.Event()  # never set: a wait that no test has to patch

    def started(self, request: Request, loaded: Loaded) -> Future[None] | None:
        """Start the summary that is due in the background.

        Returns:
            What to wait for, where the request does not fit without the summary.
        """
        if not self._memory.background:
            return None
        planned = self._memory.plan(loaded.messages, loaded.state, **loaded.around)
        if not planned.fold:
            return None
        is_hard = planned.before > self._memory.limit_of(loaded.around)
        patience = self._memory.max_wait_s if is_hard else 0.0
        job = self._memory.jobs.start(
            self._key, lambda: self._summarize(request, patience, loaded.version)
        )
        return job if is_hard else None

    def let_finish(self) -> None:
        """Wait for the summary that is being made, so that no batch is paid for twice."""
        job = self._memory.jobs.running(self._key)
        if job is not None:
            wait_for(job, self._memory.max_wait_s)

    @property
    def _key(self) -> tuple[int, str]:
        return (id(self._conversation.store), self._conversation.session_id)

    def _summarize(self, request: Request, patience: float, version: int) -> None:
        """Make the summary that is due and commit it; for a thread of its own.

        Messages of this turn are not stored yet: they only count, and are never covered.
        """
        owner = uuid4().hex
        if not self._leased(owner, patience, version):
            return
        try:
            loaded = self._conversation.load(self._stored_part(request))
            state = self._memory.compact(loaded.messages, loaded.state, **loaded.around)
            if state is not loaded.state:
                self._commit(request, loaded, state)
        finally:
            self._conversation.store.release(self._conversation.session_id, owner)

    def _commit(self, request: Request, loaded: Loaded, state: MemoryState) -> None:
        """Commit a summary on the state as it stands now; turns may have changed it meanwhile.

        After a `clear`, or another summary, it is dropped.
        """
        before, after = loaded.state, state
        for _ in range(ATTEMPTS):
            if self._conversation.commit(state, loaded):
                return
            loaded = self._conversation.load(self._stored_part(request))
            carried = carried_over(loaded.messages, before, after, loaded.state)
            if carried is None:
                return
            state = carried

    def _leased(self, owner: str, patience: float, version: int) -> bool:
        """Take the lease; where another process has it, wait for what it commits, for a while."""
        store, name = self._conversation.store, self._conversation.session_id
        end = time.monotonic() + patience
        while not store.lease(name, owner, self._memory.jobs.timeout_s):
            if time.monotonic() > end or store.state(name).version != version:
                return False
            self._pause.wait(_POLL_S)
        return True

    def _stored_part(self, request: Request) -> Request:
        count = self._memory.counter_of(request.budget or self._memory.budget).message
        budget = request.budget or self._memory.budget
        # A giant input is shown cut, and must not weigh more than it is shown.
        most = int(budget.message_share * budget.limit)
        weight = min(most, sum(map(count, request.incoming)))
        return replace(request, incoming=(), overhead_tokens=request.overhead_tokens + weight)
