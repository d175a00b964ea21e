"""A thread in a graph's state as the conversation of a turn.

A graph keeps the memory's state in its own checkpoints, which our threads must not write. So a
finished summary waits in memory for the next turn of the same thread, and a new state is returned
in the node's update.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage

from langchain_tokenmem.core.covered import after_clearing, covered_end, original_of
from langchain_tokenmem.core.message_times import first_sights
from langchain_tokenmem.core.messages import role_of, spoken_messages, with_ids
from langchain_tokenmem.core.pins import with_pins
from langchain_tokenmem.errors import ScopeError, TokenMemoryError
from langchain_tokenmem.memory.current_words import (
    CheckedMessages,
    noted_ids,
    with_current_words,
)
from langchain_tokenmem.memory.recalled_blocks import ConversationScope
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import MemoryState, Pin
from langchain_tokenmem.storage.transcripts import TranscriptRow
from langchain_tokenmem.tokens.counters import request_digest
from langchain_tokenmem.turns.backlog import beginnings
from langchain_tokenmem.turns.conversation import Snapshot, TurnRequest

STATE_IS_LOST = (
    "The memory's state was not kept since the last call: messages that were already summarized "
    "came again without their summary. It was found by their content, which works only in this "
    "process; others summarize them again. To keep the state: in a graph, "
    "builder.compile(checkpointer=...) with entry = memory_nodes(builder, memory); an agent that "
    "is a node of another graph, create_agent(..., checkpointer=True). A run that starts again "
    "from an earlier checkpoint causes this warning, too."
)
"""Warning about a state that is lost between two calls."""


@dataclass(frozen=True)
class RemovedMessages:
    """Removes the words of removed messages from the memory's state.

    Attributes:
        transcript: Reads every row of the thread's transcript, hidden ones included; given ids,
            the rows of these messages.
        others: Messages of the thread that this call may not include: they count as present.
    """

    transcript: Callable[..., Sequence[TranscriptRow]]
    others: Sequence[BaseMessage] = field(default=())

    def without(
        self,
        messages: Sequence[BaseMessage],
        state: MemoryState,
        count_text: Callable[[str], int],
        checked: CheckedMessages | None = None,
    ) -> MemoryState:
        """Return the state without words of messages that its thread no longer has.

        Messages that `CompactNode(prune=True)` moved into the transcript do not count as removed.
        The transcript is read only if there are such messages, and others are missing or were
        edited after they were summarized.
        """
        there = self._with_others(messages)
        if state["pruned"]:
            if not (_lacks_messages(state, there) or self._has_edited(state, there)):
                return state
            there = with_pruned(there, state, self.transcript())
        return with_current_words(there, state, count_text, checked, hides=True)

    def _has_edited(self, state: MemoryState, there: Sequence[BaseMessage]) -> bool:
        """Return whether a message that is summarized, but not pruned, was edited."""
        ids = [message.id for message in there[: covered_end(there, state["summary"])]]
        wordings = self.transcript(ids) if ids else ()
        return len({row.seq for row in wordings}) < len(wordings)

    def _with_others(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the thread's messages: those of the call, and those only withheld from it."""
        given = {message.id: message for message in messages}
        if given.keys() >= {message.id for message in self.others}:
            return with_ids(messages)
        held = {message.id for message in self.others}
        whole = [given.get(message.id, message) for message in self.others]
        return with_ids([*whole, *(m for m in messages if m.id not in held)])


@dataclass(frozen=True)
class GraphThread:
    """A conversation in the state of a graph or an agent.

    Attributes:
        memory: Decides what is shown, under the thread's own settings.
        messages: The conversation in the graph's state.
        state: The memory's state in the graph's state.
        key: User, thread, namespace and name of the memory, for summaries in the background; None
            if there is no thread, and so no such summaries.
        scope: Where the thread is stored for recall; None if nothing is recalled.
        label: Name of the conversation in the log; empty if this view is not sent.
        user_id: Owner of the thread; None if the run names no user, or the thread is shared.
        thread: Name of the thread, if there is one.
        subgraph: Names of the sub-graphs that the run is in; empty for the graph itself.
        pins: Pins in the graph's state, by id; None if it has no channel for them.
        held: All messages in the graph's state, if others may have changed those of this call.
        removed: Removes words of removed messages; None if the thread keeps what it removes.
        checkpointed: Ids of messages that the run's checkpointer keeps in the recall's store.
    """

    memory: TokenMemory
    messages: Sequence[BaseMessage]
    state: MemoryState
    key: Hashable = None
    scope: ConversationScope | None = None
    label: str = ""
    user_id: str | None = None
    thread: str | None = None
    subgraph: str = ""
    pins: Mapping[str, Pin | None] | None = None
    held: Sequence[BaseMessage] | None = None
    removed: RemovedMessages | None = None
    checkpointed: Collection[str] = ()

    def configured(self) -> GraphThread:
        """Return the thread itself: its memory already has its settings."""
        return self

    def load(self, request: TurnRequest, previous: Snapshot | None = None) -> Snapshot:
        """Apply a finished summary of this thread, and store new messages for recall.

        Raises:
            ScopeError: When the thread belongs to another user.
        """
        stored = self.state
        state = previous.state if previous is not None else self._owned(stored)
        if self.pins:
            state = with_pins(state, self.pins)
        if self.key is not None and request.steps is not None:
            waiting = self.memory.finished_summaries.waiting(self.key, self.messages, state)
            state = waiting or state
        state = after_clearing(self.messages if self.held is None else self.held, state)
        if state["summary"] is None and self.memory.finished_summaries:
            state = self._found_again(request, state) or state
        if self.removed is not None:
            state = self._without_removed(self.removed, state)
        if self.memory.engine.rules.show_times is not None:
            state = self.with_first_sights(state)
        snapshot = Snapshot(request, self.messages, state, stored, request.options)
        if self.scope is None or not self.messages:
            return snapshot
        return self._with_scope(snapshot, self.scope)

    def _with_scope(self, snapshot: Snapshot, scope: ConversationScope) -> Snapshot:
        """Return the snapshot after storing new messages for recall, with the scope of recall."""
        state, recall = snapshot.state, self.memory.recall
        try:
            if recall is not None:
                state = self._kept_for_recall(recall.store, scope, state)
        except ScopeError:
            raise
        except TokenMemoryError as error:
            self.memory.warn_once(
                f"Session {scope.session_id!r}: nothing is stored for recall or recalled, {error}"
            )
            return snapshot
        snapshot = replace(snapshot, state=state)
        if role_of(self.messages[-1]) != "human":
            return snapshot
        branch = {message.id or "": message for message in self.messages}
        return replace(snapshot, scope=replace(scope, branch=branch, pruned=state["pruned"]))

    def with_first_sights(self, state: MemoryState) -> MemoryState:
        """Return the state with the times of new messages, if times are shown."""
        if (shown := self.memory.engine.rules.show_times) is None:
            return state
        before, named = state.get("times", []), with_ids(self.messages)
        times = first_sights(
            before,
            named[covered_end(named, state["summary"]) :],
            self.memory.engine.now(),
            shown=shown,
            kept=state["kept"],
            replies=self.memory.finished_summaries.reply_times(self.key),
        )
        return state if times == before else {**state, "times": times}

    def note_reply(self) -> None:
        """Record when the newest replies were complete, for the thread's next call."""
        if self.memory.engine.rules.show_times is None or self.key is None:
            return
        newest = takewhile(lambda message: role_of(message) == "ai", reversed(self.messages))
        time = self.memory.engine.now().isoformat(timespec="seconds")
        times = {message.id: time for message in newest if message.id}
        self.memory.finished_summaries.note_replies(self.key, times)

    def load_after_reply(self, request: TurnRequest) -> Snapshot | None:
        """Return the thread with the reply, or None if a finished summary waits for it."""
        state = self.state
        if self.memory.finished_summaries.waiting(self.key, self.messages, state) is not None:
            return None
        return Snapshot(request, self.messages, state, state, request.options)

    def commit(self, snapshot: Snapshot, state: MemoryState) -> bool:
        """Remember a new summary in case the graph does not get or loses the state with it.

        The state itself is returned to the graph in the node's update. A call that is cancelled or
        fails returns nothing; then the summary waits for the thread's next call, so that neither a
        retry nor a fallback to another model pays for it again.
        """
        if state["summary"] is not snapshot.state["summary"]:
            self._remember(snapshot, snapshot.stored, state)
        return True

    def delivered(self, state: MemoryState) -> None:
        """Record that the graph gets a new state: no summary in it is needed again."""
        self.memory.finished_summaries.delivered(self.key, state)

    def summarize(self, snapshot: Snapshot, _wait_s: float) -> None:
        """Make the due summary; it waits for the next turn of this thread.

        With a backlog it is made part by part, and the parts done before an error are kept.
        """
        messages, before = snapshot.messages, snapshot.state
        after, limit = before, self.memory.limit_of(snapshot.options)
        try:
            for part in beginnings(messages, before, limit):
                after = self.memory.compact_behind(part, after, **snapshot.options)
                self.memory.background_summaries.extend(self.key)
        finally:
            self._remember(snapshot, before, after)

    @property
    def _agent(self) -> Hashable:
        """Thread, sub-graphs and memory for which a summary is made."""
        name = self.key[-1] if isinstance(self.key, tuple) else ""
        return self.thread, self.subgraph, name

    def _remember(self, snapshot: Snapshot, before: MemoryState, after: MemoryState) -> None:
        """Remember a new summary, unless it was made under an instruction.

        Args:
            snapshot: The call that made it.
            before: The state of the graph, to which the summary is new.
            after: The state with the summary.
        """
        if snapshot.request.instruction is not None:
            return
        places = self._places(snapshot.state, snapshot.request, after)
        known = self.memory.finished_summaries
        known.put(snapshot.messages, before, after, key=self.key)
        # A scope says what the last fold read, not what one did that the graph has not got yet.
        known.put(snapshot.messages, snapshot.state, after, places=places, agent=self._agent)

    def _places(
        self, state: MemoryState, request: TurnRequest, after: MemoryState | None = None
    ) -> list[Hashable]:
        """Return the scopes in which summaries of this conversation are found again, nearest first.

        The first is its owner's same thread, even if the system text has changed since: it is part
        of the same conversation. In another thread of the owner, everything that a summarizer may
        read beside the conversation has to be the same; no scope includes recalled text, which no
        other request has.

        Args:
            state: The state before the summary.
            request: The call; a summarizer may read its system text, tools and settings.
            after: The state with the summary; None to look for one.
        """
        # A block of a tool result quotes this conversation only.
        asked = {key for key, block in state["blocks"].items() if "named" not in block}
        hidden = asked - after["blocks"].keys() if after else set()
        options, system = request.options, request.options.get("system") or ""
        annotations = self.memory.engine.annotations
        mode = annotations.mode_of(state.get("modes"), options.get("mode"))
        around = (
            repr(options.get("settings")),
            mode.name if mode else "",
            *(pin["text"] for pin in state.get("pins", ())),
        )
        shown = [SystemMessage(system) if isinstance(system, str) else system]
        summarizer = str(id(self.memory.summarizer))
        read = request_digest(shown, options.get("tools"), summarizer, *around)
        owner = ("thread", self.thread) if self.user_id is None else ("user", self.user_id)
        near: list[Hashable] = [] if self.thread is None else [(owner, "thread", self.thread)]
        return near if hidden else [*near, (owner, "read", read)]

    def _owned(self, state: MemoryState) -> MemoryState:
        """Return the state of a thread that belongs to the user of the run."""
        owner = state.get("owner")
        if self.user_id is None or owner == self.user_id:
            return state
        if owner is not None:
            raise ScopeError(
                f"This thread belongs to another user than {self.user_id!r}; use a thread of this "
                f"user's own. Where several users share their threads: shared_threads=True, for "
                f"memory_nodes, MemoryNode or TokenMemoryMiddleware."
            )
        return {**state, "owner": self.user_id}

    def _without_removed(self, removed: RemovedMessages, state: MemoryState) -> MemoryState:
        """Return the state without words of messages that the thread no longer has.

        Raises:
            StoreError: When the transcript cannot be read.
        """
        engine = self.memory.engine
        count = engine.counter_of(engine.budget_for(None)).text
        checked = engine.checked(self.messages)
        return removed.without(self.messages, state, count, checked)

    def _found_again(self, request: TurnRequest, state: MemoryState) -> MemoryState | None:
        """Return the state with a summary of exactly these messages, if one is due and was made."""
        known, engine = self.memory.finished_summaries, self.memory.engine
        found = known.find(self._places(state, request), self.messages, state)
        if found is None:
            return None
        # A plan counts every message: make it last.
        if not engine.plan(engine.prepare(self.messages, state, **request.options)).fold:
            return None
        state, agent = found
        if agent == self._agent:  # not that of another thread, agent or memory
            self.memory.engine.warn(STATE_IS_LOST)
        return state

    def _kept_for_recall(
        self, store: Any, scope: ConversationScope, state: MemoryState
    ) -> MemoryState:
        """Write the new messages to the recall's store; return a state that records this.

        Those that the run's checkpointer stores there are written only once they are hidden: a run
        with `durability="exit"` has checkpoints only at its end.
        """
        ids = [message.id for message in self.messages]
        last = state["stored_to"]
        new = self.messages[ids.index(last) + 1 :] if last in ids else self.messages
        if all(message.id in self.checkpointed for message in new):
            hidden = covered_end(self.messages, state["summary"])
            new = new[: max(0, hidden - len(ids) + len(new))]
        kept = [
            original_of(message) for message in new if role_of(message) not in {"system", "remove"}
        ]
        if not kept:
            return state
        store.add(scope.session_id, self.memory.stored_form(kept), user_id=scope.user_id)
        return {**state, "stored_to": new[-1].id}


def _lacks_messages(state: MemoryState, there: Sequence[BaseMessage]) -> bool:
    """Return whether a message whose words are in the state is missing, apart from pruned ones."""
    if noted_ids(state) - {message.id for message in there}:
        return True
    summary = state["summary"]
    covered = spoken_messages(there[: covered_end(there, summary)])
    pruned = sum(last - first + 1 for first, last in state["pruned"])
    return summary is not None and len(covered) + pruned < summary["covered"]


def with_pruned(
    messages: Sequence[BaseMessage], state: MemoryState, rows: Sequence[TranscriptRow]
) -> list[BaseMessage]:
    """Return the messages together with those that were moved into the transcript, in order."""
    newest = {row.seq: row for row in rows}  # the newest wording of each is the last
    seqs = {row.message.id: seq for seq, row in newest.items()}
    held = {message.id for message in messages}
    moved = [
        newest[seq].message
        for first, last in state["pruned"]
        for seq in range(first, last + 1)
        if seq in newest and newest[seq].message.id not in held
    ]
    end = max(newest, default=0) + 1
    return sorted([*moved, *messages], key=lambda message: seqs.get(message.id, end))
