"""`memory_nodes`: puts the memory in front of a model's node in a LangGraph graph."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

from langchain_core.runnables import Runnable
from langgraph.graph import StateGraph
from typing_extensions import TypedDict, get_type_hints, is_typeddict

from langchain_tokenmem.adapters.graphs.nodes import (
    CompactNode,
    MemoryNode,
    RecallNode,
    SummarizeNode,
)
from langchain_tokenmem.adapters.graphs.state import (
    UNTRACKED,
    MemoryAgentState,
    MemoryMessagesState,
    memory_input,
)
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
    split: bool = False,
    archive: TranscriptStore | None = None,
    prune: bool = False,
    **keywords: Any,
) -> str:
    """Put the memory in front of a model's node, and return the name of its first node.

    Edges that went to the model's node go to that name; the edge from the memory to the model is
    made here. The model's node reads `memory_input(state, memory)`. Where the graph's output is
    its whole state, the view of the run is taken out of it.

    Args:
        builder: The graph, before `compile`.
        memory: Decides what is shown.
        before: Name of the model's node; it may be added later.
        split: Three nodes (recall, compact, summarize) in place of one; the views are the same.
        archive: Where `CompactNode` keeps what it removes, with `split`.
        prune: Let `CompactNode` remove covered messages, with `split`.
        keywords: Those of `MemoryNode`: `system`, `tools`, `overhead_tokens` and state keys.

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
    if (prune or archive is not None) and not split:
        raise ConfigurationError(
            "archive= and prune= are for CompactNode, which stands in the graph with split=True."
        )
    nodes: dict[str, Runnable[Any, Any]] = {"token_memory": MemoryNode(memory, **keywords)}
    if split:
        nodes = {
            "memory_recall": RecallNode(memory, **keywords),
            "memory_compact": CompactNode(
                memory, folding_follows=True, archive=archive, prune=prune, **keywords
            ),
            "memory_summarize": SummarizeNode(memory, **keywords),
        }
    schema = _without_untracked(builder.state_schema)
    for name, node in nodes.items():
        builder.add_node(name, cast("Any", node), input_schema=schema)
    if builder.output_schema is builder.state_schema and schema is not None:
        # Registered just now, as the input schema of the nodes.
        builder.output_schema = schema
    for name, following in pairwise([*nodes, before]):
        builder.add_edge(name, following)
    return next(iter(nodes))


def _without_untracked(schema: Any) -> Any:
    """Return a state schema without the channels of one run; None where it has none of them."""
    if not is_typeddict(schema):
        return None
    fields = get_type_hints(schema, include_extras=True)
    if not UNTRACKED & fields.keys():
        return None
    kept = {name: hint for name, hint in fields.items() if name not in UNTRACKED}
    return TypedDict(f"{schema.__name__}Output", kept)  # type: ignore[operator]
