"""Explanation of a model call that a graph has made, from its checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from langchain_tokenmem.adapters.graphs.nodes import AfterModelNode, TurnNode
from langchain_tokenmem.adapters.graphs.state import DEFAULT_NAME
from langchain_tokenmem.adapters.past_replies import past_reply
from langchain_tokenmem.background import in_own_thread
from langchain_tokenmem.core.explained_request import change_between
from langchain_tokenmem.core.explanation import Explanation
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.turns.conversation import Snapshot
from langchain_tokenmem.turns.turn import Turn


def explain_call(
    graph: Any, config: RunnableConfig, *, call: int | None = None, name: str = DEFAULT_NAME
) -> Explanation:
    """Return what the model was sent in a call of a graph with our nodes, and why.

    It is read from the checkpoints, in another process too; no model, tool or node is run. The
    memory's nodes have to be as they were, and the model's node has to send what `memory_input`
    returns.

    Args:
        graph: The compiled graph, with its checkpointer.
        config: The config of its thread.
        call: Number of the model's reply in the thread, from 1; default: the newest.
        name: Name of the memory.

    Raises:
        ConfigurationError: When the graph has no such memory, there is no such call, or no
            checkpoint right after it.

    Example:
        >>> from langchain_core.messages import AIMessage
        >>> from langgraph.checkpoint.memory import InMemorySaver
        >>> from langgraph.graph import START, StateGraph
        >>> from langchain_tokenmem import MemoryMessagesState, TokenMemory, memory_nodes
        >>> builder = StateGraph(MemoryMessagesState)
        >>> _ = builder.add_node("model", lambda state: {"messages": [AIMessage("hello")]})
        >>> _ = builder.add_edge(START, memory_nodes(builder, TokenMemory()))
        >>> graph = builder.compile(checkpointer=InMemorySaver())
        >>> config = {"configurable": {"thread_id": "t1"}}
        >>> _ = graph.invoke({"messages": [("human", "hi")]}, config)
        >>> [message.content for message in explain_call(graph, config).messages]
        ['hi']
    """
    nodes = _nodes_of(graph, name)
    return _explained(graph, config, graph.get_state_history(config), nodes, call)


async def aexplain_call(
    graph: Any, config: RunnableConfig, *, call: int | None = None, name: str = DEFAULT_NAME
) -> Explanation:
    """Do the same as `explain_call` without blocking the event loop."""
    nodes = _nodes_of(graph, name)
    history = [snapshot async for snapshot in graph.aget_state_history(config)]
    return await in_own_thread(_explained, graph, config, history, nodes, call)


def _nodes_of(graph: Any, name: str) -> dict[str, TurnNode]:
    """Return the nodes of a memory in front of a model, by their names in the graph."""
    bound = {key: node.bound for key, node in graph.nodes.items()}
    found = {
        key: node
        for key, node in bound.items()
        if isinstance(node, TurnNode)
        and not isinstance(node, AfterModelNode)
        and node.keys.state == name
    }
    if not any(node.is_last for node in found.values()):
        raise ConfigurationError(
            f"The graph has no node of a memory of the name {name!r} in front of a model."
        )
    return found


def _explained(
    graph: Any,
    config: RunnableConfig,
    history: Iterable[StateSnapshot],
    nodes: dict[str, TurnNode],
    call: int | None,
) -> Explanation:
    node = next(node for node in nodes.values() if node.is_last)
    made = past_reply(history, call, node.keys.messages)
    known = config.get("configurable") or {}
    configurable = {**known, "__pregel_checkpointer": graph.checkpointer}
    values = {**made.found.values, node.keys.messages: made.messages}
    thread, request = node.turn_of(values, {**config, "configurable": configurable})
    state = thread.state
    snapshot = Snapshot(request, thread.messages, state, state, request.options)
    told = Turn(replace(thread, label=""), request).view_again(snapshot).explain()
    change = change_between(_state_before(made.older, nodes, node.keys.state), state)
    thread_id = str(known.get("thread_id", ""))
    return replace(told, session=thread_id, call=made.number, change=change or told.change)


def _state_before(
    older: Iterable[StateSnapshot], nodes: dict[str, TurnNode], key: str
) -> MemoryState | None:
    """Return the memory's state before its nodes ran for a call; None for none."""
    before = None
    for snapshot in older:
        is_next = not nodes.keys().isdisjoint(snapshot.next)
        if before is not None and not is_next:
            break
        before = snapshot if is_next else before
    return before.values.get(key) if before is not None else None
