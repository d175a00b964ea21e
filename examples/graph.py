"""A hand-made graph with a memory in front of its model. Runs offline, with a scripted model.

Run: python examples/graph.py
"""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langchain_tokenmem import (
    MemoryMessagesState,
    TokenBudget,
    TokenMemory,
    memory_input,
    memory_nodes,
)

TURNS = 30


def main() -> None:
    """Talk for a while, then go back in time."""
    memory = TokenMemory(TokenBudget(context_window=2_000))
    model = FakeListChatModel(responses=["That is noted, and it will be looked at soon. " * 6])
    sizes = []

    def call_model(state: MemoryMessagesState) -> dict[str, Any]:
        request = memory_input(state, memory)
        sizes.append(memory.count(request).tokens)
        return {"messages": [model.invoke(request)]}

    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", call_model)
    builder.add_edge(START, memory_nodes(builder, memory))
    graph = builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    early: Any = None
    for turn in range(TURNS):
        graph.invoke(
            {"messages": [HumanMessage(f"Please note order {4_000 + turn}. " * 8)]}, config
        )
        early = graph.get_state(config).config if turn == 1 else early
    state = graph.get_state(config).values
    print(f"{len(state['messages'])} messages in the state, none removed")
    print(f"largest request: {max(sizes):,} tokens, limit {memory.budget.limit:,}")
    print(f"the summary covers {state['memory']['summary']['covered']} messages")
    fork = graph.invoke({"messages": [HumanMessage("What did I order?")]}, early)
    print(f"a fork from turn 2 has {len(fork['messages'])} messages and no summary yet")


if __name__ == "__main__":
    main()
