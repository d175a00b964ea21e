"""Graphs and agents: nodes, middleware, tools, a checkpointer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_type

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph

from langchain_tokenmem import (
    CompactNode,
    MemoryMessagesState,
    MemoryNode,
    RecallNode,
    SummarizeNode,
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.errors import ThreadConflictError
from langchain_tokenmem.graphs import (
    AfterModelNode,
    MemoryAgentState,
    TokenMemoryTransformer,
    aexplain_call,
    explain_call,
)
from langchain_tokenmem.tools import (
    compact_conversation_tool,
    read_message_tool,
    record_decision_tool,
    set_goal_tool,
)


def graph(model: BaseChatModel, memory: TokenMemory, store: TranscriptStore) -> None:
    """Put the memory in front of a model's node."""

    def call_model(state: MemoryMessagesState) -> dict[str, list[BaseMessage]]:
        request = memory_input(state, memory, name="chat", system="Be brief.")
        assert_type(request, list[BaseMessage])
        return {"messages": [model.invoke(request)]}

    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", call_model)
    entry = memory_nodes(builder, memory, before="model", name="chat", system="Be brief.")
    assert_type(entry, str)
    builder.add_edge(START, entry)
    compiled = builder.compile(checkpointer=saver(store), transformers=[TokenMemoryTransformer])
    compiled.invoke({"messages": [HumanMessage("Hi.")]}, {"configurable": {"thread_id": "t1"}})


async def calls(graph: Any) -> list[int]:
    """Explain calls that a graph has made."""
    config: Any = {"configurable": {"thread_id": "t1"}}
    first = explain_call(graph, config, call=1)
    return [first.tokens, (await aexplain_call(graph, config)).tokens]


def nodes(memory: TokenMemory, store: TranscriptStore) -> StateGraph[MemoryAgentState]:
    """Add the nodes one by one."""
    builder = StateGraph(MemoryAgentState)
    builder.add_node("memory", MemoryNode(memory, state_key="memory", shared_threads=True))
    builder.add_node("recall", RecallNode(memory))
    builder.add_node("compact", CompactNode(memory, archive=store, prune=True))
    builder.add_node("summarize", SummarizeNode(memory))
    builder.add_node("after_model", AfterModelNode(memory))
    return builder


def agent(model: BaseChatModel, store: TranscriptStore) -> None:
    """Give an agent a memory, and another one the tools alone."""
    memory = TokenMemoryMiddleware(TokenMemory(), name="wide", agent_tools=True)
    made = create_agent(model, middleware=[memory], checkpointer=saver(store))
    try:
        made.invoke({"messages": [HumanMessage("Hi.")]}, {"configurable": {"thread_id": "t1"}})
    except ThreadConflictError as conflict:
        assert_type(str(conflict), str)
    tools = [read_message_tool(), compact_conversation_tool("wide")]
    tools += [record_decision_tool(), set_goal_tool()]
    assert_type(tools, list[BaseTool])
    create_agent(model, tools, middleware=[TokenMemoryMiddleware()])


def saver(store: TranscriptStore) -> BaseCheckpointSaver[Any]:
    """Make a checkpointer."""
    return TokenMemorySaver(
        store,
        on_conflict="raise",
        keep_last=10,
        older_than=timedelta(days=30),
        on_remove="hide",
        before_store=lambda messages: [m.model_copy(update={"name": None}) for m in messages],
    )
