"""The memory in a LangGraph graph: nodes before a model's node, and explanations of past calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any, NotRequired, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import StateGraph
from langgraph.types import StateSnapshot
from typing_extensions import get_type_hints, is_typeddict

from langchain_tokenmem.adapters.graphs.nodes import (
    AfterModelNode,
    CompactNode,
    MemoryNode,
    RecallNode,
    SummarizeNode,
    TurnNode,
)
from langchain_tokenmem.adapters.graphs.state import (
    DEFAULT_NAME,
    MemoryAgentState,
    MemoryMessagesState,
    memory_input,
    schema_of,
)
from langchain_tokenmem.adapters.past_calls import check_thread, past_reply
from langchain_tokenmem.adapters.stream_events import without_channels
from langchain_tokenmem.background import in_own_thread
from langchain_tokenmem.core.argument_checks import checked
from langchain_tokenmem.core.explained_request import change_between
from langchain_tokenmem.core.explanation import Explanation
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.turns.conversation import Snapshot
from langchain_tokenmem.turns.turn import Turn

__all__ = ["MemoryAgentState", "MemoryMessagesState", "memory_input", "memory_nodes"]


def memory_nodes(
    builder: StateGraph[Any, Any, Any, Any],
    memory: TokenMemory,
    before: str = "model",
    *,
    name: str = DEFAULT_NAME,
    split: bool = False,
    archive: TranscriptStore | None = None,
    prune: bool = False,
    **keywords: Any,
) -> str:
    """Put the memory before a model's node, and return the name of its first node.

    Point the edges to the model's node at that name instead; the edge from the memory to the model
    is added here. The model's node reads `memory_input(state, memory)`. The channels that the
    memory needs are added if the graph's state does not have them; no input can write those. If the
    memory makes summaries in the background, or shows times, an `AfterModelNode` is added after the
    model's node, in parallel with whatever follows it.

    Args:
        builder: The graph, before `compile`.
        memory: Decides what is shown.
        before: Name of the model's node; it may be added later.
        name: Tells several memories of one graph apart: the names of nodes and state keys are
            derived from it. Give it to `memory_input`, too.
        split: Add a node each for recall (if the memory has one), compaction and summary instead of
            one node; the views are the same.
        archive: Where `CompactNode` keeps what it removes, with `split`.
        prune: Let `CompactNode` remove covered messages, with `split`.
        keywords: Those of `MemoryNode`: `model`, `system`, `tools`, `overhead_tokens`,
            `shared_threads`, `store` and state keys.

    Raises:
        ConfigurationError: When an archive is given without `split`.

    Example:
        >>> from langgraph.graph import START, StateGraph
        >>> from langchain_tokenmem import TokenMemory
        >>> memory = TokenMemory()
        >>> builder = StateGraph(MemoryMessagesState)
        >>> _ = builder.add_node("model", lambda state: {"messages": []})
        >>> _ = builder.add_edge(START, memory_nodes(builder, memory))
        >>> sorted(builder.compile().nodes)
        ['__start__', 'model', 'token_memory']
    """
    checked(builder, StateGraph, "builder", "memory_nodes(builder, memory), before compile()")
    checked(memory, TokenMemory, "memory", "memory_nodes(builder, memory)")
    if (prune or archive is not None) and not split:
        raise ConfigurationError(
            "archive= and prune= are for CompactNode, which is in the graph only with split=True."
        )
    keywords["name"] = name
    keywords["store"] = keywords.get("store") or archive
    summarizing: MemoryNode | SummarizeNode
    nodes: dict[str, Runnable[Any, Any]] = {}
    if split:
        if memory.recall is not None or memory.notes_in_blocks is not None:
            nodes[f"{name}_recall"] = RecallNode(memory, **keywords)
        nodes[f"{name}_compact"] = CompactNode(
            memory, folding_follows=True, archive=archive, prune=prune, **keywords
        )
        summarizing = nodes[f"{name}_summarize"] = SummarizeNode(memory, **keywords)
    else:
        summarizing = nodes[f"token_{name}"] = MemoryNode(memory, **keywords)
    schema = summarizing.keys.graph_schema(builder)
    traced = without_channels(summarizing.keys.private)
    if taken := sorted(nodes.keys() & builder.nodes.keys()):
        raise ConfigurationError(
            f"The graph has a node {taken[0]!r} already; give this memory another name: "
            f'memory_nodes(builder, memory, name="other").'
        )
    for node_name, node in nodes.items():
        builder.add_node(node_name, cast("Any", node), input_schema=schema, **traced)
    if memory.background or memory.engine.rules.show_times:
        behind = AfterModelNode(memory, **keywords)
        builder.add_node(f"{name}_after_model", cast("Any", behind), input_schema=schema, **traced)
        builder.add_edge(before, f"{name}_after_model")
    _take_mode_from_input(builder, summarizing.keys.mode)
    for node_name, following in pairwise([*nodes, before]):
        builder.add_edge(node_name, following)
    return next(iter(nodes))


def _take_mode_from_input(builder: StateGraph[Any, Any, Any, Any], mode: str) -> None:
    """Add the mode of a memory to a graph's input if that is its whole state."""
    schema = builder.input_schema
    channels = builder.schemas[schema]
    known = {*builder.schemas[builder.state_schema]} <= {*channels}
    if mode in channels or mode not in builder.channels or not (known and is_typeddict(schema)):
        return
    fields = get_type_hints(schema, include_extras=True)
    wider = schema_of({**fields, mode: NotRequired[str]}, schema.__name__)
    builder.schemas[wider] = {**channels, mode: builder.channels[mode]}
    builder.input_schema = wider


def explain_call(
    graph: Any, config: RunnableConfig, *, call: int | None = None, name: str = DEFAULT_NAME
) -> Explanation:
    """Return what the model was sent in a past call of a graph with our nodes, and why.

    It is read from the checkpoints, even in another process; no model, tool or node is run. The
    memory's nodes must be as they were then, and the model's node must send what `memory_input`
    returns.

    Args:
        graph: The compiled graph, with its checkpointer.
        config: The config of its thread.
        call: Number of the model's reply in the thread, from 1; default: the newest.
        name: Name of the memory.

    Raises:
        ConfigurationError: When the graph has no such memory or no checkpointer, the config names
            no thread, there is no such call, or no checkpoint right after it.

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
    check_thread(graph, config)
    return _explained(graph, config, graph.get_state_history(config), nodes, call)


async def aexplain_call(
    graph: Any, config: RunnableConfig, *, call: int | None = None, name: str = DEFAULT_NAME
) -> Explanation:
    """Do the same as `explain_call` without blocking the event loop."""
    nodes = _nodes_of(graph, name)
    check_thread(graph, config)
    history = [snapshot async for snapshot in graph.aget_state_history(config)]
    return await in_own_thread(_explained, graph, config, history, nodes, call)


def _nodes_of(graph: Any, name: str) -> dict[str, TurnNode]:
    """Return the nodes of a memory before a model, by their names in the graph."""
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
            f"The graph has no node of a memory named {name!r} before a model."
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
    explained = Turn(replace(thread, label=""), request).view_again(snapshot).explain()
    change = change_between(_state_before(made.older, nodes, node.keys.state), state)
    thread_id = str(known.get("thread_id", ""))
    return replace(
        explained, session=thread_id, call=made.number, change=change or explained.change
    )


def _state_before(
    older: Iterable[StateSnapshot], nodes: dict[str, TurnNode], key: str
) -> MemoryState | None:
    """Return the memory's state before its nodes ran for a call; None if it had none."""
    before = None
    for snapshot in older:
        is_next = not nodes.keys().isdisjoint(snapshot.next)
        if before is not None and not is_next:
            break
        before = snapshot if is_next else before
    return before.values.get(key) if before is not None else None
