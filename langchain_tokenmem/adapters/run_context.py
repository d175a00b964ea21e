"""The LangGraph run around a call: its thread, its owner, its scope for recall."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_tokenmem.core.session_settings import SessionSettings
from langchain_tokenmem.core.thread_names import check_characters, thread_session
from langchain_tokenmem.errors import ScopeError, StoreError
from langchain_tokenmem.memory.recalled_blocks import ConversationScope
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.notes_state import Pin
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.storage.transcripts import TranscriptRow
from langchain_tokenmem.turns.graph_thread import GraphThread
from langchain_tokenmem.turns.removed_messages import RemovedMessages

MODE_KEY = "memory_mode"
"""Names a session's mode in `configurable`, and in the state of a graph or an agent."""

_READ = "__pregel_read"
"""Key under which LangGraph hands the channels of a run to its nodes, for conditional edges and
for its own tools."""

_CHECKPOINTER = "__pregel_checkpointer"
"""Key under which LangGraph hands the checkpointer of a run to its sub-graphs."""

_CALL = 4
"""Length of the path of a `@task`: push, path of its caller, number, True."""


def thread_key(config: RunnableConfig | None, name: str) -> tuple[str, str, str] | None:
    """Return the key of a run's conversation in its thread; None without a thread.

    The namespace holds the ids of tasks, so that sub-agents at work side by side are told apart.

    Args:
        config: The run's config; None for the one that LangChain keeps for the running task.
        name: Name of the memory: the middleware's name, or the state key of nodes.
    """
    configurable = ensure_config(config).get("configurable") or {}
    thread = configurable.get("thread_id")
    if not thread:
        return None
    parents = "|".join(_parents(config))
    return (check_characters(str(thread), "thread_id"), parents, name)


def _parents(config: RunnableConfig | None) -> list[str]:
    """Return the sub-graphs that a run is in, with ids of their tasks.

    The last part of the namespace names the node itself. A function with `@task` is in the
    namespace, too, behind its caller; its path in the run's metadata ends with True.
    """
    run = ensure_config(config)
    parts = ((run.get("configurable") or {}).get("checkpoint_ns") or "").split("|")
    path: Any = (run.get("metadata") or {}).get("langgraph_path") or ()
    while len(path) == _CALL and path[-1] is True:
        parts, path = parts[:-1], path[1]
    return parts[:-1]


def subgraph_of(config: RunnableConfig | None) -> str:
    """Return the names of the sub-graphs that a run is in, without ids of tasks."""
    return "|".join(part.partition(":")[0] for part in _parents(config))


def user_of(config: RunnableConfig | None, *, shared_threads: bool = False) -> str | None:
    """Return the user of a run; None where it names none, or where threads belong to nobody.

    Args:
        config: The run's config; None for the one that LangChain keeps for the running task.
        shared_threads: Threads belong to nobody.

    Raises:
        ScopeError: When the user's id is blank, no text, or holds a control character.
    """
    user = (ensure_config(config).get("configurable") or {}).get("user_id")
    if user is None or shared_threads:
        return None
    if not isinstance(user, str) or not user.strip():
        raise ScopeError(
            f"user_id is {user!r}; a user is named by a text, such as "
            f'{{"configurable": {{"user_id": "user-7"}}}}. Leave it out where there is none.'
        )
    return check_characters(user, "user_id")


def mode_asked(config: RunnableConfig | None, channel: str | None = None) -> str | None:
    """Return the name of the mode that a run asks for; None where it asks for nothing.

    `configurable={"memory_mode": "code"}` is for the graph that is invoked: its sub-graphs inherit
    the config, and have modes of their own.

    Args:
        config: The run's config; None for the one that LangChain keeps for the running task.
        channel: What the graph's state holds; the config beats it.
    """
    asked = (ensure_config(config).get("configurable") or {}).get(MODE_KEY)
    return channel if asked is None or subgraph_of(config) else asked


def state_in_run(key: str) -> Any:
    """Return what a channel of the graph holds whose node is running; None for nothing.

    A node is given the channels of its own input schema only. The memory's channel is in the graph
    all the same, and is read as a conditional edge reads it.

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
    """Return whether the graph whose node is running has a channel of one of these names.

    An empty one counts. False where the channels cannot be read.
    """
    read: Any = (ensure_config().get("configurable") or {}).get(_READ)

    def is_there(name: str) -> bool:
        try:
            read([name])
        except (KeyError, TypeError, AttributeError):  # as in `state_in_run`
            return False
        return True

    # Where a channel that no graph has can be read, nothing is known.
    return not is_there("token_memory_no_channel") and any(map(is_there, names))


def saver_of_run(config: RunnableConfig | None) -> Any:
    """Return the checkpointer of a run; None where it has none."""
    return (ensure_config(config).get("configurable") or {}).get(_CHECKPOINTER)


def removed_messages(
    memory: TokenMemory, config: RunnableConfig | None, *, shared_threads: bool
) -> RemovedMessages | None:
    """Return what takes removed messages out of a memory's state; None where these are kept.

    Args:
        memory: The memory of the run.
        config: The run's config; None for the one that LangChain keeps for the running task.
        shared_threads: Threads belong to nobody.
    """
    saver = saver_of_run(config)
    if not getattr(saver, "hides_removed", False):
        return None
    session_id, user_id = session_and_user(config, shared_threads=shared_threads)

    def read() -> Sequence[TranscriptRow]:
        try:
            rows = saver.store.rows(session_id, user_id=user_id, include_superseded=True)
        except StoreError as error:
            memory.warn_once(f"Session {session_id!r}: messages get other numbers, {error}")
            return []
        return cast("Sequence[TranscriptRow]", rows)

    held = state_in_run(saver.transcript_channel) if saver.transcript_channel else None
    return RemovedMessages(read, held if isinstance(held, list) else ())


def checkpointed(memory: TokenMemory, config: RunnableConfig | None) -> Collection[str]:
    """Return ids of messages that the run's checkpointer keeps in the recall's store, as they are.

    Args:
        memory: The memory of the run.
        config: The run's config; None for the one that LangChain keeps for the running task.
    """
    saver, recall = saver_of_run(config), memory.recall
    if recall is None or memory.before_store or subgraph_of(config):
        return ()
    if not getattr(saver, "keeps_transcript", False) or saver.store is not recall.store:
        return ()
    held = state_in_run(saver.transcript_channel)
    return {message.id for message in held} if isinstance(held, list) else ()


def session_and_user(
    config: RunnableConfig | None, *, shared_threads: bool = False
) -> tuple[str, str | None]:
    """Return session and user of a run: the thread, with the namespace of a sub-graph.

    Ids of tasks are left out of the namespace, so that each run of a sub-graph finds its own.

    Args:
        config: The run's config; None for the one that LangChain keeps for the running task.
        shared_threads: Threads belong to nobody.

    Raises:
        ScopeError: When the run has no thread, or an id that cannot be used.
    """
    configurable = ensure_config(config).get("configurable") or {}
    thread = configurable.get("thread_id")
    if not isinstance(thread, str) or not thread:
        raise ScopeError(
            "Messages are kept by thread: name it, "
            'graph.invoke(input, {"configurable": {"thread_id": "..."}}), as a text.'
        )
    # A checkpointer on the same store keeps the messages of the thread in this session, too.
    user = user_of(config, shared_threads=shared_threads)
    return thread_session(thread, "|".join(_parents(config))), user


def recall_scope(
    memory: TokenMemory, config: RunnableConfig | None, *, shared_threads: bool = False
) -> ConversationScope | None:
    """Return where a run's conversation is kept for recall; None where nothing is recalled."""
    if memory.recall is None and memory.notes_in_blocks is None:
        return None
    if memory.recall is None and not (ensure_config(config).get("configurable") or {}).get(
        "thread_id"
    ):
        return ConversationScope("", user_of(config, shared_threads=shared_threads))
    try:
        return ConversationScope(*session_and_user(config, shared_threads=shared_threads))
    except ScopeError as error:
        memory.warn_once(f"Nothing is recalled: {error}")
        return None


def graph_thread(
    memory: TokenMemory,
    config: RunnableConfig | None,
    *,
    name: str,
    messages: Sequence[BaseMessage],
    state: MemoryState | None,
    label: str,
    recalls: bool = True,
    shared_threads: bool = False,
    pins: Mapping[str, Pin | None] | None = None,
    settings: Callable[[], SessionSettings] | None = None,
) -> GraphThread:
    """Return the thread of a run as the conversation of a turn.

    Args:
        memory: Decides what is shown.
        config: The run's config; None for the one that LangChain keeps for the running task.
        name: Name of the memory: the middleware's name, or the state key of nodes.
        messages: The conversation as the graph's state holds it.
        state: The memory's state as the graph's state holds it; None for none yet.
        label: Name of the conversation in the log; empty where this view is not sent.
        recalls: Whether old messages are brought back.
        shared_threads: Threads belong to nobody.
        pins: Pins in the graph's state.
        settings: Reads the thread's own settings from a store.

    Raises:
        ScopeError: When an id of the run cannot be used.
    """
    key, user = thread_key(config, name), user_of(config, shared_threads=shared_threads)
    return GraphThread(
        memory=memory,
        messages=memory.engine.named(messages),
        state=state,
        key=key and (user, *key),
        scope=recall_scope(memory, config, shared_threads=shared_threads) if recalls else None,
        label=label,
        user_id=user,
        thread=key[0] if key else None,
        subgraph=subgraph_of(config),
        pins=pins,
        settings=settings,
        removed=removed_messages(memory, config, shared_threads=shared_threads),
        checkpointed=checkpointed(memory, config) if recalls else (),
    )


T = TypeVar("T")


def merge_by_name(old: dict[str, T] | None, new: dict[str, T] | None) -> dict[str, T]:
    """Return the entries of both, by the memory's name; the newer one where both have it.

    So several memories may write in one step without taking the others' place.
    """
    return {**(old or {}), **(new or {})}
