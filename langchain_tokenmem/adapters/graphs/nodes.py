"""Nodes of a LangGraph graph: Runnables from the state to an update of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from types import MethodType
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_tokenmem.adapters.agent_tools import COMPACT_REQUESTS, REQUEST_DONE
from langchain_tokenmem.adapters.graphs.state import (
    DEFAULT_NAME,
    StateKeys,
    StateUpdate,
    kept_state,
    stamp_of,
    value_of,
)
from langchain_tokenmem.adapters.run_context import Run, graph_thread
from langchain_tokenmem.adapters.stream_events import (
    write_changes,
    write_reply,
    write_view,
)
from langchain_tokenmem.background import in_own_thread
from langchain_tokenmem.core.argument_checks import (
    BeforeStore,
    as_kept,
    as_messages,
    checked,
    checked_overhead,
)
from langchain_tokenmem.core.messages import digest_of, is_pinned, role_of
from langchain_tokenmem.core.pins import PINS_CHANNEL
from langchain_tokenmem.core.request_options import RequestOptions, Steps
from langchain_tokenmem.core.todos import TODOS_KEY
from langchain_tokenmem.core.view import messages_to_send
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.memory.recalled_blocks import add_to_ranges
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.storage.transcripts import TranscriptRow
from langchain_tokenmem.turns.conversation import TurnRequest, TurnResult
from langchain_tokenmem.turns.graph_thread import GraphThread
from langchain_tokenmem.turns.turn import aafter_reply, after_reply, atake_turn, take_turn


def archive_covered(
    store: TranscriptStore,
    run: Run,
    before_store: BeforeStore | None,
    messages: Sequence[BaseMessage],
    state: MemoryState,
) -> list[TranscriptRow]:
    """Archive everything up to the summary's pointer; return what may leave the graph's state.

    These are messages that were read back as written, except system messages, pinned ones and
    those that the view shows; the pointer's own message stays as well, because the pointer is
    found by it.
    """
    summary = state["summary"]
    ids = [message.id for message in messages]
    if summary is None or summary["covers_to"] not in ids:
        return []
    covered = messages[: ids.index(summary["covers_to"])]
    spoken = [message for message in covered if role_of(message) != "system"]
    stays = {*state["kept"], None}
    names = [m.id or "" for m in spoken if m.id not in stays and not is_pinned(m)]
    if not names:
        return []
    stored, session_id = as_kept(before_store, spoken), run.session()
    store.add(session_id, stored, user_id=run.user_id)
    digests = {message.id: digest_of(message) for message in stored}
    rows = store.named(session_id, names, user_id=run.user_id)
    return [row for row in rows if digest_of(row.message) == digests.get(row.message.id)]


class TurnNode(Runnable[Any, dict[str, Any]]):
    """A node that takes one turn of the memory, and writes state and view."""

    _steps: Steps | None = "all"
    is_last = True  # whether the model's node comes next, so that the view is its request
    _recalls = False
    _folds = True  # whether it carries out the compaction that the agent asked for
    _archive: TranscriptStore | None = None
    _prune = False
    _turn: Callable[[GraphThread, TurnRequest], Any] = staticmethod(take_turn)
    _aturn: Callable[[GraphThread, TurnRequest], Awaitable[Any]] = staticmethod(atake_turn)

    def __init__(
        self,
        memory: TokenMemory,
        *,
        name: str = DEFAULT_NAME,
        model: Any = None,
        system: str | BaseMessage | None = None,
        tools: Sequence[Any] | None = None,
        overhead_tokens: int = 0,
        input_messages_key: str = "messages",
        output_messages_key: str | None = None,
        state_key: str | None = None,
        shared_threads: bool = False,
        store: TranscriptStore | None = None,
    ) -> None:
        node = type(self).__name__
        checked(memory, TokenMemory, "memory", f"{node}(TokenMemory(TokenBudget(8_000)))")
        self.memory = memory if model is None else memory.for_model(model)
        self._options: RequestOptions = {
            "system": system,
            "tools": tools,
            "overhead_tokens": checked_overhead(overhead_tokens),
        }
        self.keys = StateKeys.of(name, input_messages_key, output_messages_key, state_key)
        self._shared_threads = shared_threads
        if store is not None:
            checked(store, TranscriptStore, "store", f"{node}(memory, store=TranscriptStore(...))")
        self._store = store

        def call(node: Any, state: Any, config: RunnableConfig | None = None) -> Any:
            return node.invoke(state, config)

        # Replaces the class's method: type hints there cannot include the names of the keys.
        call.__annotations__ = {"state": self.keys.input_schema()}
        vars(self)["__call__"] = MethodType(call, self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.memory!r}, state_key={self.keys.state!r})"

    def __call__(self, state: Any, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the update of the graph's state.

        From the hints of this method LangGraph knows which channels a node needs, and adds those
        that the graph does not have.
        """
        return self.invoke(state, config)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:
        """Return the update of the graph's state."""
        thread, request = self.turn_of(input, config)
        if not thread.messages:
            return {}
        return self._update(input, config, thread, self._turn(thread, request))

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **_: Any
    ) -> dict[str, Any]:
        """Do the same as `invoke` without blocking the event loop."""
        thread, request = await in_own_thread(self.turn_of, input, config)
        if not thread.messages:
            return {}
        result = await self._aturn(thread, request)
        return await in_own_thread(self._update, input, config, thread, result)

    def turn_of(self, state: Any, config: RunnableConfig | None) -> tuple[GraphThread, TurnRequest]:
        """Return the thread in a state, and the request to its memory."""
        run = Run.of(config, shared_threads=self._shared_threads)
        thread = graph_thread(
            self.memory,
            run,
            name=self.keys.state,
            messages=as_messages(value_of(state, self.keys.messages) or []),
            state=kept_state(value_of(state, self.keys.state), self.keys.state),
            label=self.get_name() if self.is_last else "",
            store=self._store,
            recalls=self._recalls,
            pins=value_of(state, PINS_CHANNEL),
        )
        mode, asked = value_of(state, self.keys.mode), value_of(state, COMPACT_REQUESTS) or {}
        instruction = asked.get(self.keys.state) or None if self._folds else None
        options: RequestOptions = {
            **self._options,
            "todos": value_of(state, TODOS_KEY),
            "mode": run.mode(mode),
        }
        return thread, TurnRequest(options, steps=self._steps, instruction=instruction)

    def _removals(
        self, thread: GraphThread, result: TurnResult, config: RunnableConfig | None
    ) -> Sequence[TranscriptRow]:
        """Archive what is covered; return what is to be removed from the graph's messages."""
        if self._archive is None:
            return ()
        run = Run.of(config, shared_threads=self._shared_threads)
        before_store = self.memory.before_store
        messages, state = thread.messages, result.state
        found = archive_covered(self._archive, run, before_store, messages, state)
        return found if self._prune else ()

    def _update(
        self,
        state: Any,
        config: RunnableConfig | None,
        thread: GraphThread,
        result: TurnResult,
    ) -> dict[str, Any]:
        removed = self._removals(thread, result, config)
        if removed:
            pruned = add_to_ranges(result.state["pruned"], [row.seq for row in removed])
            result = replace(result, state={**result.state, "pruned": pruned}, changed=True)
        update = StateUpdate(self.keys.view)
        if result.changed:
            thread.delivered(result.state)
            update[self.keys.state] = result.state
            write_changes(self.keys.state, thread.state, result.state)
        if self.is_last:
            write_view(self.keys.state, result.view)
            gone = {row.message.id for row in removed}
            left = [message for message in thread.messages if message.id not in gone]
            update[self.keys.view] = list(messages_to_send(result.view, self.get_name()))
            update[self.keys.stamp] = stamp_of(
                left, result.state if result.changed else thread.state
            )
        if removed:
            removals = [RemoveMessage(id=row.message.id or "") for row in removed]
            update[self.keys.messages] = removals
        orders = value_of(state, COMPACT_REQUESTS) if self._folds else None
        if orders is not None and orders.get(self.keys.state) != REQUEST_DONE:
            update[COMPACT_REQUESTS] = {self.keys.state: REQUEST_DONE}
        return update


class SummarizeNode(TurnNode):
    """Folds the oldest groups into the running summary when it is due, and writes the view.

    Args:
        memory: Decides what is shown, and has the summarizer.
        keywords: Those of `MemoryNode`.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langchain_tokenmem import TokenMemory
        >>> update = SummarizeNode(TokenMemory()).invoke({"messages": [HumanMessage("hi")]})
        >>> [message.content for message in update["llm_input_messages"]]
        ['hi']
    """


class MemoryNode(TurnNode):
    """Does everything before a model call in one superstep: recall, compaction, summary, view.

    Also a `pre_model_hook` of `create_react_agent`. The channel of the memory's state is added to
    the graph with the node.

    Args:
        memory: Decides what is shown, and has the summarizer.
        name: Name of the memory; its state keys are derived from it.
        model: The chat model that is called. Without it the memory's own settings apply, and a
            `TokenMemory()` does not know the window.
        system: System text that the view begins with; the model node must not add it again.
        tools: Tool schemas that the model node sends.
        overhead_tokens: Other tokens of the request, such as those of an agent's `prompt=`.
        input_messages_key: State key of the messages.
        output_messages_key: State key of the view; default: derived from the name.
        state_key: State key of the memory's state; default: the name.
        shared_threads: Threads are shared by several users: they have no owner, and recall
            searches the thread only.
        store: Store with settings of threads and users (`set_settings`). Default: that of the
            graph's `TokenMemorySaver`, else that of the memory's recall.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langchain_tokenmem import TokenMemory
        >>> update = MemoryNode(TokenMemory()).invoke({"messages": [HumanMessage("hi")]})
        >>> [message.content for message in update["llm_input_messages"]]
        ['hi']
    """

    _recalls = True


class RecallNode(TurnNode):
    """Recalls old messages and notes that match the newest question.

    They are added to that question as a block, created once and kept in the memory's state; later
    nodes write the view. For a memory with neither `recall=` nor `notes=` it adds nothing.

    Args:
        memory: Has the recall and the notes.
        keywords: Those of `MemoryNode`.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langchain_tokenmem import TokenMemory
        >>> update = RecallNode(TokenMemory(8_000)).invoke({"messages": [HumanMessage("hi")]})
        >>> update["memory"]["blocks"]
        {}
    """

    _steps = None
    is_last = False
    _recalls = True
    _folds = False


class AfterModelNode(TurnNode):
    """Starts the summary that the next model call needs, right after the model's reply.

    The state stays as it is: the summary is made in the background, and the memory's node uses it
    at the next call. `memory_nodes` adds it after the model's node if the memory makes summaries in
    the background; in `create_react_agent` it is the `post_model_hook`. If times are shown, it
    notes when the reply was complete. It writes the `reply` event of the custom stream.

    Args:
        memory: The memory of the node before the model's.
        keywords: Those of `MemoryNode`, as given to that node.

    Example:
        >>> from langchain_core.messages import AIMessage
        >>> from langchain_tokenmem import TokenMemory
        >>> AfterModelNode(TokenMemory()).invoke({"messages": [AIMessage("hi")]})
        {}
    """

    is_last = False
    _folds = False
    _turn = staticmethod(after_reply)
    _aturn = staticmethod(aafter_reply)

    def turn_of(self, state: Any, config: RunnableConfig | None) -> tuple[GraphThread, TurnRequest]:
        """Note when the reply was complete, write it to the stream, and return the next turn."""
        thread, request = super().turn_of(state, config)
        write_reply(self.keys.state, thread.messages[-1:])
        thread.note_reply()
        return thread, request

    def _update(self, *_: Any) -> dict[str, Any]:
        return {}


class CompactNode(TurnNode):
    """Shortens old tool results when it is due, without a model call, and writes the view.

    By default the graph's messages stay as they are. With an archive and `prune` the state stays
    bounded: messages that the running summary covers are written to the transcript store, read
    back, and then removed by their ids; never a system message, a pinned one or one that the view
    still shows. Do not prune if your code relies on an append-only list.

    Args:
        memory: Decides what is shown.
        folding_follows: A `SummarizeNode` follows: leave the change to it if shortening is not
            enough, so that the prefix changes once.
        archive: Keeps the transcript, under the thread's id.
        prune: Remove covered messages from the graph's state.
        keywords: Those of `MemoryNode`.

    Raises:
        ConfigurationError: When `prune` is given without an archive.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langchain_tokenmem import TokenMemory
        >>> "messages" in CompactNode(TokenMemory()).invoke({"messages": [HumanMessage("hi")]})
        False
    """

    _folds = False

    def __init__(
        self,
        memory: TokenMemory,
        *,
        folding_follows: bool = False,
        archive: TranscriptStore | None = None,
        prune: bool = False,
        **keywords: Any,
    ) -> None:
        if prune and archive is None:
            raise ConfigurationError(
                "prune=True removes messages from the graph's state: give the store that keeps "
                "them, CompactNode(memory, archive=TranscriptStore(...), prune=True)."
            )
        if archive is not None:
            line = "CompactNode(memory, archive=TranscriptStore(...))"
            checked(archive, TranscriptStore, "archive", line)
        super().__init__(memory, **{**keywords, "store": keywords.get("store") or archive})
        self._steps = "shorten_if_enough" if folding_follows else "shorten"
        self.is_last = not folding_follows
        self._archive = archive
        self._prune = prune
