"""The LangGraph run around a call: its thread, its owner, its settings, its scope for recall."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_tokenmem.background import waiting_at_most
from langchain_tokenmem.core.thread_names import check_characters, check_thread_id, thread_session
from langchain_tokenmem.errors import ScopeError, StoreError, TokenMemoryError
from langchain_tokenmem.events import EventSource
from langchain_tokenmem.memory.recalled_blocks import ConversationScope, is_recalled_for
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import Pin, load_state
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.storage.transcripts import TranscriptRow
from langchain_tokenmem.turns.graph_thread import GraphThread, RemovedMessages

MODE_KEY = "memory_mode"
"""Names a session's mode in `configurable`, and in the state of a graph or an agent."""

_READ = "__pregel_read"
"""Key under which LangGraph hands the channels of a run to its nodes, for conditional edges and
for its own tools."""

_CHECKPOINTER = "__pregel_checkpointer"
"""Key under which LangGraph hands the checkpointer of a run to its sub-graphs."""

_CALL = 4
"""Length of the path of a `@task`: push, path of its caller, number, True."""


@dataclass(frozen=True)
class Run:
    """What the config of a LangGraph run says about the call in it.

    Attributes:
        thread: Name of the thread; None without one.
        namespace: Sub-graphs that the run is in, with ids of their tasks, so that sub-agents that
            run side by side can be distinguished; empty in the main graph.
        subgraph: The same without ids.
        user_id: The user's id; None if the run has none, or if threads are shared.
        asked_mode: Name of the mode that the run asks for; None if it asks for none.
        saver: Its checkpointer; None if it has none.
        run_id: Id of the LangChain run that the call is made in; None outside of one.
    """

    thread: str | None
    namespace: str
    subgraph: str
    user_id: str | None
    asked_mode: str | None
    saver: Any
    run_id: str | None

    @classmethod
    def of(cls, config: RunnableConfig | None = None, *, shared_threads: bool = False) -> Run:
        """Return the run of a config.

        Args:
            config: The run's config; None for the one that LangChain keeps for the running task.
            shared_threads: Whether all users share the threads.

        Raises:
            ScopeError: When the id of the thread or of the user cannot be used.
        """
        config = ensure_config(config)
        known = config.get("configurable") or {}
        # The last part of the namespace names the node itself. A function with `@task` is in it,
        # too, after its caller; its path in the run's metadata ends with True.
        parts = (known.get("checkpoint_ns") or "").split("|")
        path: Any = (config.get("metadata") or {}).get("langgraph_path") or ()
        while len(path) == _CALL and path[-1] is True:
            parts, path = parts[:-1], path[1]
        thread = known.get("thread_id")
        user = None if shared_threads else known.get("user_id")
        if user is not None and (not isinstance(user, str) or not user.strip()):
            raise ScopeError(
                f"user_id is {user!r}; it must be a string, such as "
                f'{{"configurable": {{"user_id": "user-7"}}}}. Leave it out if there is no user.'
            )
        run_id = getattr(config.get("callbacks"), "parent_run_id", None)
        return cls(
            thread=None if thread in (None, "") else check_thread_id(thread),
            namespace="|".join(parts[:-1]),
            subgraph="|".join(part.partition(":")[0] for part in parts[:-1]),
            user_id=user if user is None else check_characters(user, "user_id"),
            asked_mode=known.get(MODE_KEY),
            saver=known.get(_CHECKPOINTER),
            run_id=None if run_id is None else str(run_id),
        )

    def session(self) -> str:
        """Return the session of the thread; ids of tasks are left out of the namespace.

        A checkpointer on the same store keeps the messages of the thread in this session, too.

        Raises:
            ScopeError: When the run has no thread, or an id that cannot be used.
        """
        if self.thread is None:
            raise ScopeError(
                "Messages are kept by thread: name it in the config, as in "
                'graph.invoke(input, {"configurable": {"thread_id": "..."}}).'
            )
        return thread_session(self.thread, self.namespace)

    def mode(self, channel: str | None) -> str | None:
        """Return the name of the requested mode, or None.

        `configurable={"memory_mode": "code"}` is for the graph that is invoked: its sub-graphs
        inherit the config, and have modes of their own.

        Args:
            channel: Mode in the graph's state; the config takes precedence.
        """
        return channel if self.asked_mode is None or self.subgraph else self.asked_mode


def state_in_run(key: str) -> Any:
    """Return the value of a channel of the running graph, or None if it is not there.

    A node receives only the channels in its input schema. The memory's channel may be missing from
    it, so the channel is read the way a conditional edge reads it.

    Args:
        key: Name of the channel.
    """
    read = (ensure_config().get("configurable") or {}).get(_READ)
    if read is None:
        return None
    try:
        return read([key]).get(key)
    except (KeyError, TypeError, AttributeError):  # no such channel, or another LangGraph
        return None


def has_channel(*names: str) -> bool:
    """Return whether the running graph has a channel with one of these names.

    An empty one counts. False if the channels cannot be read.
    """
    read: Any = (ensure_config().get("configurable") or {}).get(_READ)
    found = []
    # If a channel that no graph has can be read, nothing is known.
    for name in ("token_memory_no_channel", *names):
        try:
            read([name])
        except (KeyError, TypeError, AttributeError):  # as in `state_in_run`
            continue
        found.append(name)
    return bool(found) and found[0] in names


def _with_own_settings(memory: TokenMemory, run: Run, store: TranscriptStore) -> TokenMemory:
    """Return a memory with the settings that a store has for a run's thread, or for its user.

    A sub-graph has the thread's settings, except for the mode, which is its own.
    """
    try:
        with waiting_at_most(memory.max_wait_s):
            settings = store.settings(run.thread, user_id=run.user_id)
    except ScopeError:
        raise
    except TokenMemoryError as error:
        memory.warn_once(f"Thread {run.thread!r}: its own settings are not used, {error}")
        return memory
    return memory.with_settings(replace(settings, mode=None) if run.subgraph else settings)


def removed_messages(memory: TokenMemory, run: Run) -> RemovedMessages | None:
    """Return what takes removed messages out of a memory's state; None if these are kept."""
    saver = run.saver
    if not getattr(saver, "hides_removed", False):
        return None
    session_id = run.session()

    def read(ids: Sequence[str] = ()) -> Sequence[TranscriptRow]:
        read_rows = partial(saver.store.named, ids=ids) if ids else saver.store.rows
        try:
            rows = read_rows(session_id, user_id=run.user_id, include_superseded=True)
        except StoreError as error:
            memory.warn_once(f"Session {session_id!r}: messages get other numbers, {error}")
            return []
        return cast("Sequence[TranscriptRow]", rows)

    held = state_in_run(saver.transcript_channel) if saver.transcript_channel else None
    return RemovedMessages(read, held if isinstance(held, list) else ())


def checkpointed(memory: TokenMemory, run: Run) -> Collection[str]:
    """Return ids of messages that the run's checkpointer keeps unchanged in the recall's store.

    Args:
        memory: The memory of the run, which has a recall.
        run: The run.
    """
    saver, recall = run.saver, memory.recall
    if recall is None or memory.before_store or run.subgraph:
        return ()
    if not getattr(saver, "keeps_transcript", False) or saver.store is not recall.store:
        return ()
    held = state_in_run(saver.transcript_channel)
    return {message.id for message in held} if isinstance(held, list) else ()


def recall_scope(memory: TokenMemory, run: Run) -> ConversationScope | None:
    """Return where a run's conversation is kept for recall; None if nothing is recalled."""
    if memory.recall is None and not run.thread:  # notes need no thread
        return ConversationScope("", user_id=run.user_id)
    try:
        return ConversationScope(run.session(), run.user_id)
    except ScopeError as error:
        memory.warn_once(f"Nothing is recalled: {error}")
        return None


def graph_thread(
    memory: TokenMemory,
    run: Run,
    *,
    name: str,
    messages: Sequence[BaseMessage],
    state: Any,
    label: str,
    store: TranscriptStore | None,
    recalls: bool = True,
    pins: Mapping[str, Pin | None] | None = None,
    held: Sequence[BaseMessage] | None = None,
) -> GraphThread:
    """Return the thread of a run as the conversation of a turn; settings are read from the store.

    Args:
        memory: Decides what is shown; the thread's own settings come on top.
        run: The run.
        name: Name of the memory: the middleware's name, or the state key of nodes.
        messages: The conversation in the graph's state.
        state: The memory's state in the graph's state; None if there is none yet.
        label: Its name in the log if it has no thread; empty if this view is not sent.
        store: The store of settings that the application gave.
        recalls: Whether a new question gets a memory block; one that has a block gets another if
            messages are folded.
        pins: Pins in the graph's state.
        held: All messages in the graph's state, if others may have changed those of this call.

    Raises:
        ScopeError: When an id of the run cannot be used.
        CorruptStoreError: When the stored state is not this memory's.
    """
    thread = run.thread
    removed, owner = removed_messages(memory, run), run.user_id
    # In order of precedence: the application's store, a `TokenMemorySaver`'s, the recall's.
    near = (store, getattr(run.saver, "store", None), getattr(memory.recall, "store", None))
    known = next((one for one in near if isinstance(one, TranscriptStore)), None)
    session = thread_session(thread, run.subgraph) if thread else None
    source = EventSource(session=session, thread=thread, user=owner, run_id=run.run_id)
    memory = memory.in_conversation(source)
    if known is not None and (thread or owner):
        memory = _with_own_settings(memory, run, known)
    known_state, named = load_state(state), memory.engine.checked(messages).named(messages)
    recalls = recalls or is_recalled_for(named, known_state)
    recalls = recalls and (memory.recall is not None or memory.notes_in_blocks is not None)
    return GraphThread(
        memory=memory,
        messages=named,
        state=known_state,
        key=(owner, thread, run.namespace, name) if thread else None,
        scope=recall_scope(memory, run) if recalls else None,
        label=f"Thread {thread!r}" if label and thread else label,
        user_id=owner,
        thread=thread,
        subgraph=run.subgraph,
        pins=pins,
        held=held,
        removed=removed,
        checkpointed=checkpointed(memory, run) if recalls else (),
    )


T = TypeVar("T")


def merge_by_name(old: dict[str, T] | None, new: dict[str, T] | None) -> dict[str, T]:
    """Return the entries of both, by the memory's name; the newer one if both have it.

    So several memories can write in one step without replacing each other's entries.
    """
    return {**(old or {}), **(new or {})}
