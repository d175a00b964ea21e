"""A thread in a graph's state as the conversation of a turn.

A graph keeps the memory's state in its own checkpoints, where no thread of ours may write. So a
finished summary waits in the memory for the next turn of the same thread, and a new state goes back
with the update of the node.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.errors import TokenMemoryError
from langchain_tokenmem.memory.recalled_blocks import ConversationScope, question_without_block
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.turns.turn import Snapshot, TurnRequest


@dataclass(frozen=True)
class GraphThread:
    """A conversation in the state of a graph or an agent.

    Attributes:
        memory: Decides what is shown.
        messages: The conversation as the graph's state holds it.
        state: The memory's state as the graph's state holds it; None for none yet.
        key: Thread, namespace and name of the memory, for summaries in the background; None
            without a thread: there are none then.
        scope: Where the thread is kept for recall; None: nothing is recalled.
        label: Name of the conversation in the log; empty where this view is not sent.
    """

    memory: TokenMemory
    messages: Sequence[BaseMessage]
    state: MemoryState | None
    key: Hashable = None
    scope: ConversationScope | None = None
    label: str = ""

    def load(self, request: TurnRequest, previous: Snapshot | None = None) -> Snapshot:
        """Take the summary that was finished for this thread, and keep new messages for recall."""
        stored = load_state(self.state)
        state = previous.state if previous is not None else stored
        if self.key is not None and request.steps is not None:
            taken = self.memory.finished_summaries.take(self.key, self.messages, state)
            state = taken or state
        snapshot = Snapshot(request, self.messages, state, stored, request.options)
        if self.scope is None or self.memory.recall is None or not self.messages:
            return snapshot
        try:
            state = self._kept_for_recall(self.memory.recall.store, self.scope, state)
        except TokenMemoryError as error:
            self.memory.warn_once(
                f"Session {self.scope.session_id!r}: nothing is kept for recall nor recalled, "
                f"{error}"
            )
            return snapshot
        snapshot = replace(snapshot, state=state)
        if question_without_block(self.messages, state) is None:
            return snapshot
        branch = {message.id or "": message for message in self.messages}
        scope = replace(self.scope, branch=branch, pruned=state["pruned"])
        return replace(snapshot, scope=scope)

    def commit(self, _snapshot: Snapshot, _state: MemoryState) -> bool:
        """Do nothing: the state goes back to the graph with the update of the node."""
        return True

    def summarize(self, snapshot: Snapshot, _wait_s: float) -> None:
        """Make the summary that is due; it waits for the next turn of this thread."""
        messages, before = snapshot.messages, snapshot.state
        after = self.memory.compact(messages, before, **snapshot.options)
        self.memory.finished_summaries.put(self.key, messages, before, after)

    def _kept_for_recall(
        self, store: Any, scope: ConversationScope, state: MemoryState
    ) -> MemoryState:
        """Write the messages that are new to the recall's store; return the state that knows it."""
        ids = [message.id for message in self.messages]
        last = state["stored_to"]
        new = self.messages[ids.index(last) + 1 :] if last in ids else self.messages
        kept = [message for message in new if role_of(message) not in {"system", "remove"}]
        if not kept:
            return state
        store.add(scope.session_id, kept, user_id=scope.user_id)
        return {**state, "stored_to": ids[-1]}
