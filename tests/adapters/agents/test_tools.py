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
    TranscriptStore,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.core.references import reference
from langchain_tokenmem.tools import compact_conversation_tool, read_message_tool
from tests.adapters.agents.test_middleware import agent_of, call, memory_of, rounds, thread

NAME = reference("long")


def test_an_agents_own_compaction_tool_runs_the_same_summarizer():
    memory = memory_of(4_000)
    script = [
        *rounds(6)[:-1],
        call(6, "compact_conversation", instruction="Keep the order numbers."),
        *rounds(2, 7),
    ]
    model, agent = agent_of(script, TokenMemoryMiddleware(memory, agent_tools=True))
    agent.invoke({"messages": "Go."}, thread())
    requests = memory.summarizer.requests
    assert [r.instruction for r in requests] == ["Keep the order numbers."]
    assert len(model.seen[7]) < len(model.seen[6])
    assert "conversation_summary" in model.seen[7][0].text
    assert model.seen[8][: len(model.seen[7])] == model.seen[7]
    values = agent.get_state(thread()).values
    assert values["token_memory_orders"] == {"TokenMemoryMiddleware": ""}
    assert "Before your next step" in str(values["messages"])


def test_an_order_also_counts_where_nothing_is_automatic():
    memory = memory_of(4_000)
    script = [*rounds(6)[:-1], call(6, "compact_conversation", instruction=" "), AIMessage("Done.")]
    middleware = TokenMemoryMiddleware(memory, automatic=False, agent_tools=True, name="mine")
    model, agent = agent_of(script, middleware)
    agent.invoke({"messages": "Go."}, thread())
    assert len(memory.summarizer.requests) == 1
    assert len(model.seen[-1]) < 15


def test_a_cut_message_is_read_again_in_parts():
    memory = memory_of(2_000)
    long = HumanMessage("begin " + "word " * 4_000 + "end", id="long")
    script = [
        call(0, "read_message", id=NAME),
        call(1, "read_message", id=f"#{NAME}", offset=19_990, limit=500),
        call(2, "read_message", id="long", limit=5),
        call(3, "read_message", id="nothing"),
        call(4, "read_message", id="99"),
        AIMessage("Done."),
    ]
    model, agent = agent_of(script, TokenMemoryMiddleware(memory, agent_tools=True))
    result = agent.invoke({"messages": [long]}, thread())
    first, second, by_id, *unknown = (m.content for m in result["messages"] if m.type == "tool")
    assert f"full text: message {NAME} ...]" in model.seen[0][0].content
    assert first.startswith("[characters 0 to 4,000 of 20,009; go on with offset=4000]\nbegin word")
    assert second.endswith("end")
    assert second.startswith("[characters 19,990 to 20,009 of 20,009]")
    assert by_id.endswith("\nbegin")
    assert all(
        f"no message {n} in" in said for n, said in zip(("nothing", 99), unknown, strict=True)
    )


def test_both_tools_serve_a_hand_made_graph():
    memory = memory_of(50_000)
    tools = [compact_conversation_tool(), read_message_tool()]
    script = [
        call(0, "read_message", id="h"),
        call(1, "compact_conversation", instruction="Keep names."),
        AIMessage("Done."),
    ]
    sizes = []

    def model(state: MemoryMessagesState) -> dict:
        sizes.append(len(memory_input(state, memory)))
        return {"messages": [script.pop(0)]}

    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode(tools))
    entry = memory_nodes(builder, memory)
    builder.add_edge(START, entry)
    builder.add_conditional_edges(
        "model", lambda s: "tools" if s["messages"][-1].tool_calls else END, ["tools", END]
    )
    builder.add_edge("tools", entry)
    graph = builder.compile(checkpointer=InMemorySaver())
    said = [HumanMessage("Anna asks.", id="h"), AIMessage("word " * 9_000), HumanMessage("Go.")]
    for turn in range(4):
        said += [AIMessage(f"answer {turn} " * 900), HumanMessage(f"question {turn} " * 900)]
    graph.invoke({"messages": said}, thread())
    assert [r.instruction for r in memory.summarizer.requests] == ["Keep names."]
    assert sizes[2] < sizes[1]
    assert graph.get_state(thread()).values["memory"]["summary"]


def test_the_model_sees_no_injected_argument():
    for made in (compact_conversation_tool(), read_message_tool()):
        shown = made.tool_call_schema.model_json_schema()["properties"]
        assert not {"state", "tool_call_id"} & set(shown)
        assert made.description


@pytest.mark.slow
def test_a_reference_opens_what_was_pruned_into_an_archive_and_nothing_else():
    memory, store = memory_of(2_000), TranscriptStore("sqlite://")
    answers = {}
    for archive in (store, None):
        reader = read_message_tool(archive=archive)
        script = [AIMessage(f"answer {n} " * 30, id=f"a{n}") for n in range(30)]
        script += [
            *(call(n, "read_message", id=reference(n)) for n in ("h0", "a0", "h3", "a4")),
            call(5, "read_message", id="900"),
            AIMessage("Done."),
        ]

        def model(state: MemoryMessagesState, script=script, reader=reader) -> dict:
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
        config = {"configurable": {"thread_id": f"pruned {archive is None}"}}
        for n in range(31):
            asked = HumanMessage(f"question {n} " * 30, id=f"h{n}")
            result = graph.invoke({"messages": [asked]}, config)
        assert len(result["messages"]) < 30
        answers[archive is None] = [m.content for m in result["messages"] if m.type == "tool"]
    words = [text.partition("\n")[2][:11] for text in answers[False][:4]]
    assert words == ["question 0 ", "answer 0 an", "question 3 ", "answer 4 an"]
    assert answers[False][4].startswith("There is no message 900 in this conversation")
    assert all("There is no message" in said for said in answers[True][1:3])
