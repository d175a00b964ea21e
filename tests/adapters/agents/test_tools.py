"""Tools by which an agent looks after its own memory."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode

from langchain_tokenmem import (
    MemoryMessagesState,
    TokenMemoryMiddleware,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.tools import read_message_tool
from tests.adapters.integrations import answers, call, thread
from tests.fakes import memory_of


def test_the_middleware_gives_the_tools_that_are_named():
    def names(agent_tools):
        middleware = TokenMemoryMiddleware(memory_of(), agent_tools=agent_tools)
        return {tool.name for tool in middleware.tools}

    assert names({"memory", "read_message"}) == {"memory", "read_message"}
    assert names(True) == {"compact_conversation", "read_message"}
    assert names(False) == set()
    with pytest.raises(ConfigurationError, match="agent_tools"):
        names({"fly"})


@pytest.mark.slow
def test_a_pruned_message_is_read_from_the_archive_and_not_without_it(store):
    read = {}
    for archive in (store, None):
        memory, reader = memory_of(), read_message_tool(archive=archive)
        script = [AIMessage(f"answer {n} " * 60, id=f"a{n}") for n in range(12)]
        script += [*(call(n, "read_message", id=key) for n, key in enumerate(("h3", "a4", "h900")))]
        script += [AIMessage("Done.")]

        def model(state: MemoryMessagesState, memory=memory, script=script) -> dict:
            memory_input(state, memory)
            return {"messages": [script.pop(0)]}

        builder = StateGraph(MemoryMessagesState)
        builder.add_node("model", model)
        builder.add_node("tools", ToolNode([reader]))
        nodes = {"split": True, "archive": store, "prune": True}
        entry = memory_nodes(builder, memory, tools=[reader], **nodes)
        builder.add_edge(START, entry)
        builder.add_conditional_edges(
            "model", lambda s: "tools" if s["messages"][-1].tool_calls else END, ["tools", END]
        )
        builder.add_edge("tools", entry)
        graph = builder.compile(checkpointer=InMemorySaver())
        for n in range(13):
            asked = HumanMessage(f"question {n} " * 60, id=f"h{n}")
            result = graph.invoke({"messages": [asked]}, thread(f"archived {archive is store}"))
        assert not {"h3", "a4"} & {m.id for m in result["messages"]}
        read[archive is store] = answers(result)
    assert [text.partition("\n")[2][:10] for text in read[True][:2]] == ["question 3", "answer 4 a"]
    assert all("There is no message" in said for said in [read[True][2], *read[False]])
