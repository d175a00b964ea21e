"""The LangGraph run around a call: its thread, its scope for recall, its custom stream."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.config import get_stream_writer

from langchain_tokenmem.core.thread_names import thread_session
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.memory.recalled_blocks import ConversationScope
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import MemoryState, new_state
from langchain_tokenmem.turns.turn import TurnResult

EVENT = "tokenmem"
"""Value of `type` in every event that the memory writes into a graph's custom stream."""

StreamWriter = Callable[[Any], None]


def thread_key(config: RunnableConfig | None, name: str) -> Hashable:
    """Return the key of a run's conversation: thread, namespace and memory; None without a thread.

    The namespace holds the ids of tasks, so that sub-agents at work side by side are told apart.

    Args:
        config: The run's config; None for the one that LangChain keeps for the running task.
        name: Name of the memory: the middleware's name, or the state key of nodes.
    """
    configurable = ensure_config(config).get("configurable") or {}
    thread = configurable.get("thread_id")
    if not thread:
        return None
    # The last part names the node itself.
    parents = (configurable.get("checkpoint_ns") or "").rpartition("|")[0]
    return (str(thread), parents, name)


def session_and_user(config: RunnableConfig | None) -> tuple[str, str | None]:
    """Return session and user of a run: the thread, with the namespace of a sub-graph.

    Ids of tasks are left out of the namespace, so that each run of a sub-graph finds its own.

    Raises:
        ScopeError: When the run has no thread.
    """
    configurable = ensure_config(config).get("configurable") or {}
    thread = configurable.get("thread_id")
    if not isinstance(thread, str) or not thread:
        raise ScopeError(
            "Messages are kept by thread: name it, "
            'graph.invoke(input, {"configurable": {"thread_id": "..."}}), as a text.'
        )
    # The last part names the node itself. A checkpointer on the same store keeps the messages of
    # the thread in this session, too.
    parents = (configurable.get("checkpoint_ns") or "").split("|")[:-1]
    return thread_session(thread, "|".join(parents)), configurable.get("user_id")


def recall_scope(memory: TokenMemory, config: RunnableConfig | None) -> ConversationScope | None:
    """Return where a run's conversation is kept for recall; None where nothing is recalled."""
    if memory.recall is None:
        return None
    try:
        return ConversationScope(*session_and_user(config))
    except ScopeError as error:
        memory.warn_once(f"Nothing is recalled: {error}")
        return None


def events_of(old: MemoryState | None, new: MemoryState, name: str) -> Iterator[dict[str, Any]]:
    """Return the changes between two states, as events for LangGraph's custom stream.

    Args:
        old: The state before; None for nothing.
        new: The state after.
        name: Name of the memory: the middleware's name, or the state key of nodes.
    """
    before = old or new_state()
    fresh = [key for key, cut in new["cuts"].items() if before["cuts"].get(key) != cut]
    if fresh:
        yield {"type": EVENT, "event": "compaction", "memory": name, "message_ids": fresh}
    summary = new["summary"]
    if summary is not None and summary != before["summary"]:
        facts = ("covers_to", "covered", "tokens", "model", "reason")
        yield {
            "type": EVENT,
            "event": "summary",
            "memory": name,
            **{fact: summary[fact] for fact in facts},  # type: ignore[literal-required]
        }


def stream_writer() -> StreamWriter | None:
    """Return the writer of the graph's custom stream; None outside of a graph."""
    try:
        return get_stream_writer()
    except (RuntimeError, KeyError):
        return None


def write_events(
    writer: StreamWriter | None, old: MemoryState | None, result: TurnResult, name: str
) -> None:
    """Write the changes that a turn made into the graph's custom stream, where there is one."""
    if writer is None or not result.changed:
        return
    for event in events_of(old, result.state, name):
        writer(event)
