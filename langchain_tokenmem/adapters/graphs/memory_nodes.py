"""`memory_nodes`: puts the memory in front of a model's node in a LangGraph graph."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NotRequired, cast

from langchain_core.runnables import Runnable
from langgraph.graph import StateGraph
from typing_extensions import get_type_hints, is_typeddict

from langchain_tokenmem.adapters.graphs.nodes import (
    AfterModelNode,
    CompactNode,
    MemoryNode,
    RecallNode,
    SummarizeNode,
)
from langchain_tokenmem.adapters.graphs.state import (
    DEFAULT_NAME,
    MemoryAgentState,
    MemoryMessagesState,
    memory_input,
    schema_of,
)
from langchain_tokenmem.adapters.trace_policy import without_channels
from langchain_tokenmem.core.argument_checks import checked
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.storage.transcript_store import TranscriptStore

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
    """Put the memory in front of a model's node, and return the name of its first node.

    Edges that went to the model's node go to that name; the edge from the memory to the model is
    made here. The model's node reads `memory_input(state, memory)`. The channels that the memory
    needs are added where the graph's state does not have them; no input can write those. Where the
    memory makes summaries in the background, or shows times, an `AfterModelNode` stands behind the
    model's node, beside whatever follows it.

    Args:
        builder: The graph, before `compile`.
        memory: Decides what is shown.
        before: Name of the model's node; it may be added later.
        name: Tells several memories of one graph apart: the names of nodes and state keys are
            derived from it. Give it to `memory_input`, too.
        split: A node each for recall (where the memory has one), compaction and summary in place
            of one; the views are the same.
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
            "archive= and prune= are for CompactNode, which stands in the graph with split=True."
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
    """Add the mode of a memory to a graph's input where that is its whole state."""
    schema = builder.input_schema
    channels = builder.schemas[schema]
    known = {*builder.schemas[builder.state_schema]} <= {*channels}
    if mode in channels or mode not in builder.channels or not (known and is_typeddict(schema)):
        return
    fields = get_type_hints(schema, include_extras=True)
    wider = schema_of({**fields, mode: NotRequired[str]}, schema.__name__)
    builder.schemas[wider] = {**channels, mode: builder.channels[mode]}
    builder.input_schema = wider
