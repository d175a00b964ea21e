"""Graphs with a memory: one for each door that an agent or a graph has."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langchain_tokenmem import (
    MemoryMessagesState,
    TokenMemory,
    TokenMemoryMiddleware,
    memory_input,
    memory_nodes,
)
from tests.summarize.models import Scripted


def _yes(_messages: list[BaseMessage]) -> str:
    return "Yes."


def agent_of(memory: TokenMemory) -> tuple[Scripted, Any]:
    model = Scripted(answer=_yes)
    middleware = [TokenMemoryMiddleware(memory)]
    return model, create_agent(model, middleware=middleware, checkpointer=InMemorySaver())


def graph_of(memory: TokenMemory, *, split: bool = False) -> tuple[Scripted, Any]:
    model = Scripted(answer=_yes)
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", lambda state: {"messages": model.invoke(memory_input(state, memory))})
    builder.add_edge(START, memory_nodes(builder, memory, split=split))
    return model, builder.compile(checkpointer=InMemorySaver())


DOORS = {
    "middleware": agent_of,
    "node": graph_of,
    "three nodes": lambda memory: graph_of(memory, split=True),
}
