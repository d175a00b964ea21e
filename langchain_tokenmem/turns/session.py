"""One stored conversation under a memory: what the doors over a transcript store share."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_tokenmem.errors import StoreError, SummaryError
from langchain_tokenmem.memory.background import wait_for
from langchain_tokenmem.memory.recalled_blocks import Whose
from langchain_tokenmem.state import Block, MemoryState
from langchain_tokenmem.turns.behind import Behind
from langchain_tokenmem.turns.conversation import ATTEMPTS, Conversation, Loaded, Request

if TYPE_CHECKING:
    from langchain_tokenmem.core.planning import Steps
    from langchain_tokenmem.core.view import View
    from langchain_tokenmem.memory.token_memory import TokenMemory
    from langchain_tokenmem.storage.transcript_store import TranscriptStore


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
        self._conversation = Conversation(store, session_id, user_id)
        self._behind = Behind(memory, self._conversation)

    def view(self, request: Request) -> View:
        """Compact where it is due, and return the view of the next model call.

        A summary that takes its time is made beside the call; at the hard limit the call waits
        for it, for a while.
        """
        blocks: dict[str, Block] = {}
        loaded = self._asked(request, blocks)
        awaited = self._behind.started(request, loaded)
        if awaited is not None:
            wait_for(awaited, self.memory.max_wait_s)
            loaded = self._asked(request, blocks)
        for _ in range(ATTEMPTS):
            try:
                state, view = self.memory.compact_and_view(
                    loaded.messages, loaded.state, steps=self._steps, **loaded.around
                )
            except SummaryError as error:
                return self._served_without(loaded, error)
            if not _is_storable(state, loaded, request) or self._conversation.commit(state, loaded):
                return self._told(view)
            loaded = self._asked(request, blocks)
        return self._served_uncommitted(loaded)

    async def aview(self, request: Request) -> View:
        """Do the same as `view` without blocking the event loop."""
        blocks: dict[str, Block] = {}
        loaded = await asyncio.to_thread(self._asked, request, blocks)
        awaited = await asyncio.to_thread(self._behind.started, request, loaded)
        if awaited is not None:
            await asyncio.to_thread(wait_for, awaited, self.memory.max_wait_s)
            loaded = await asyncio.to_thread(self._asked, request, blocks)
        for _ in range(ATTEMPTS):
            try:
                state, view = await self.memory.acompact_and_view(
                    loaded.messages, loaded.state, steps=self._steps, **loaded.around
                )
            except SummaryError as error:
                return self._served_without(loaded, error)
            if not _is_storable(state, loaded, request) or await asyncio.to_thread(
                self._conversation.commit, state, loaded
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
        loaded = self._conversation.load(request)
        known = loaded.state
        if blocks:
            known = {**known, "blocks": {**blocks, **known["blocks"]}}
        whose = Whose(self.session_id, self.user_id)
        state = self.memory.recalled(loaded.messages, known, whose, **loaded.around) or known
        made = state["blocks"].keys() - loaded.state["blocks"].keys()
        blocks.update((key, state["blocks"][key]) for key in made)
        return replace(loaded, state=state, stored=loaded.state) if made else loaded

    @property
    def _steps(self) -> Steps:
        """What a turn does itself: everything, or what no background summary has to follow."""
        return "shorten_if_enough" if self.memory.background else "all"

    def compact(self, request: Request, *, instruction: str | None = None) -> MemoryState:
        """Fold everything but the recent share into the summary, whatever the thresholds say.

        Raises:
            StoreError: When other writers committed first, again and again.
        """
        by_hand: dict[str, Any] = {"force": True, "instruction": instruction}
        self._behind.let_finish()
        for _ in range(ATTEMPTS):
            loaded = self._conversation.load(request)
            state = self.memory.compact(loaded.messages, loaded.state, **loaded.around, **by_hand)
            if state is loaded.state or self._conversation.commit(state, loaded):
                return state
        raise self._busy()

    async def acompact(self, request: Request, *, instruction: str | None = None) -> MemoryState:
        """Do the same as `compact` without blocking the event loop."""
        by_hand: dict[str, Any] = {"force": True, "instruction": instruction}
        await asyncio.to_thread(self._behind.let_finish)
        for _ in range(ATTEMPTS):
            loaded = await asyncio.to_thread(self._conversation.load, request)
            state = await self.memory.acompact(
                loaded.messages, loaded.state, **loaded.around, **by_hand
            )
            if state is loaded.state or await asyncio.to_thread(
                self._conversation.commit, state, loaded
            ):
                return state
        raise self._busy()

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
            f"Session {self.session_id!r} was changed by others {ATTEMPTS} times while it was "
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
