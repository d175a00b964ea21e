"""Hand-made graphs: the untracked view, resumes, forks, and LangGraph's own agent."""

from __future__ import annotations

import warnings
from typing import Any, NotRequired

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from langchain_tokenmem import (
    MemoryMessagesState,
    MemoryNode,
    TokenMemory,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.graphs import MemoryAgentState
from langchain_tokenmem.state import STATE_VERSION, MemoryState
from tests.adapters.graphs.test_nodes import config, conversation, graph_of, memory_of
from tests.adapters.strict import run_strictly
from tests.legality import problems
from tests.providers import StrictModel


def test_the_view_is_in_no_output_and_in_no_checkpoint():
    _, graph = graph_of(memory_of())
    result = graph.invoke({"messages": conversation(12)}, config())
    assert set(result) == {"messages"}
    assert "llm_input_messages" not in graph.get_output_jsonschema()["properties"]
    saver = graph.checkpointer
    for saved in saver.list(config()):
        assert "llm_input_messages" not in saved.checkpoint["channel_values"]
        assert "llm_input_stamp" not in saved.checkpoint["channel_values"]
    # The stream of all values shows every channel of the run, this one too.
    values = list(graph.stream({"messages": "x"}, config("v"), stream_mode="values"))
    assert "llm_input_messages" in values[-1]
    assert "llm_input_messages" not in graph.get_state(config("v")).values


def test_the_state_is_plain_json_with_a_version():
    import json

    _, graph = graph_of(memory_of())
    graph.invoke({"messages": conversation(12)}, config())
    memory = graph.get_state(config()).values["memory"]
    assert json.loads(json.dumps(memory)) == memory
    assert memory["version"] == STATE_VERSION


def test_a_resume_before_the_model_makes_the_view_anew():
    memory = memory_of()
    held = []

    def call_model(state: MemoryMessagesState) -> dict:
        held.append((state.get("llm_input_messages"), memory_input(state, memory)))
        return {"messages": [AIMessage("ok")]}

    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", call_model)
    builder.add_edge(START, memory_nodes(builder, memory))
    graph = builder.compile(checkpointer=InMemorySaver(), interrupt_before=["model"])
    graph.invoke({"messages": conversation(12)}, config())
    assert held == []
    graph.invoke(None, config())
    lost, view = held[0]
    assert lost is None
    state = graph.get_state(config()).values
    shown = memory.view(conversation(12), state["memory"])
    assert view == shown.messages


def test_a_model_that_raises_finds_its_view_again_after_the_resume():
    memory = memory_of()
    views = []

    def call_model(state: MemoryMessagesState) -> dict:
        views.append(memory_input(state, memory))
        if len(views) == 1:
            raise ConnectionError
        return {"messages": [AIMessage("ok")]}

    _, graph = graph_of(memory, call_model)
    with pytest.raises(ConnectionError):
        graph.invoke({"messages": conversation(12)}, config())
    graph.invoke(None, config())
    assert views[0] == views[1]
    assert len(memory.summarizer.requests) == 1


class ModelInput(MemoryMessagesState):
    """The state of a node that reads the memory's private channel."""

    memory: NotRequired[MemoryState]


def test_a_models_node_reads_what_is_left_for_the_answer_from_a_view():
    memory = memory_of()
    inputs, views = [], []

    def call_model(state: ModelInput) -> dict:
        inputs.append(memory_input(state, memory))
        views.append(memory.view(state["messages"], state.get("memory")))
        return {"messages": [AIMessage("ok")]}

    _, graph = graph_of(memory, call_model)
    graph.invoke({"messages": conversation(12)}, config())
    budget = memory.budget.for_counts(exact=True)
    assert views[0].messages == inputs[0]
    used = views[0].usage.input_tokens
    assert views[0].output_left == budget.limit + budget.reserve_output - used


def test_messages_behind_the_memorys_node_make_the_view_stale():
    memory = memory_of()
    messages = conversation(12)
    update = MemoryNode(memory).invoke({"messages": messages})
    state = {"messages": messages, **update}
    assert memory_input(state, memory) == update["llm_input_messages"]
    later = {**state, "messages": [*messages, HumanMessage("And now?", id="new")]}
    assert memory_input(later, memory)[-1].id == "new"
    edited = [*messages[:-1], messages[-1].model_copy(update={"content": "Else."})]
    assert memory_input({**state, "messages": edited}, memory)[-1].content == "Else."


def test_an_interrupt_inside_a_tool_keeps_call_and_result_together():
    memory = memory_of()
    requests = []

    def call_model(state: MemoryMessagesState) -> dict:
        requests.append(memory_input(state, memory))
        number = len(requests)
        if number > 12:
            return {"messages": [AIMessage("Done.")]}
        call = {"name": "ask", "args": {}, "id": f"k{number}"}
        return {"messages": [AIMessage("step " * 60, tool_calls=[call])]}

    def run_tool(state: MemoryMessagesState) -> Any:
        from langchain_core.messages import ToolMessage

        answer = interrupt("May I?") if len(requests) % 4 == 0 else "yes"
        key = state["messages"][-1].tool_calls[0]["id"]
        return {"messages": [ToolMessage(f"{answer} " * 60, tool_call_id=key)]}

    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", call_model)
    builder.add_node("tools", run_tool)
    entry = memory_nodes(builder, memory)
    builder.add_edge(START, entry)
    builder.add_conditional_edges(
        "model", lambda s: "tools" if s["messages"][-1].tool_calls else END, ["tools", END]
    )
    builder.add_edge("tools", entry)
    graph = builder.compile(checkpointer=InMemorySaver())
    given: Any = {"messages": "Go."}
    stops = 0
    while True:
        result = graph.invoke(given, {**config(), "recursion_limit": 100})
        if "__interrupt__" not in result:
            break
        stops += 1
        given = Command(resume="yes")
    assert stops == 3
    for request in requests:
        assert problems(request) == []
    assert "conversation_summary" in str(requests[-1][0].content)


@pytest.mark.slow
def test_a_fork_shows_nothing_of_the_later_branch():
    seen, graph = graph_of(memory_of())
    early = None
    for number in range(40):
        word = "Red" if number > 2 else "Blue"
        graph.invoke({"messages": f"{word} {number}?"}, config())
        early = graph.get_state(config()) if number == 2 else early
    assert "Red" in str(seen[-1][0])
    graph.invoke({"messages": "Green?"}, early.config)
    assert "Green" in str(seen[-1])
    assert "Red" not in str(seen[-1])
    # Time travel: the same checkpoint gives the same view.
    history = [s for s in graph.get_state_history(config()) if s.next == ("token_memory",)]
    graph.invoke(None, history[-1].config)
    assert len(seen[-1]) == 1


def test_a_subgraph_leaves_no_repeated_ids_in_its_parent():
    memory = memory_of()
    _, child = graph_of(memory)
    child.checkpointer = None
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("child", child)
    builder.add_edge(START, "child")
    parent = builder.compile(checkpointer=InMemorySaver())
    for number in range(5):
        result = parent.invoke({"messages": f"Question {number}?"}, config())
    ids = [m.id for m in result["messages"]]
    assert len(ids) == len(set(ids)) == 10


@pytest.mark.slow
def test_the_pre_model_hook_of_langgraphs_own_agent():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LangGraph points to langchain's create_agent
        from langgraph.prebuilt import create_react_agent

        @tool
        def look(q: str) -> str:
            """Look something up."""
            return "a line of the record\n" * 40

        memory = memory_of()
        script: list = [
            AIMessage("step " * 60, tool_calls=[{"name": "look", "args": {"q": "x"}, "id": f"{n}"}])
            for n in range(15)
        ]
        model = StrictModel(family="mistral", script=[*script, AIMessage("Done.")])
        agent = create_react_agent(
            model,
            [look],
            pre_model_hook=MemoryNode(memory.for_model(model)),
            state_schema=MemoryAgentState,
            checkpointer=InMemorySaver(),
        )
        result = agent.invoke({"messages": "Go."}, {**config(), "recursion_limit": 99})
    assert result["messages"][-1].content == "Done."
    assert len(result["messages"]) == 32
    assert max(memory.count(r).tokens for r in model.seen) <= memory.budget.limit
    assert "conversation_summary" in str(model.seen[-1][0].content)


def test_explain_shows_the_list_the_parts_and_the_plan_without_a_model_call():
    memory, messages = memory_of(), conversation(12)
    told = memory.explain(messages, system="Be brief.", tools=[{"name": "f"}])
    assert memory.summarizer.requests == []
    assert told.plan.reason == "limit"
    assert told.plan.fold > 0
    assert told.view == memory.view(messages, system="Be brief.", tools=[{"name": "f"}])
    state = memory.compact(messages, system="Be brief.", tools=[{"name": "f"}])
    after = memory.explain(messages, state, system="Be brief.", tools=[{"name": "f"}])
    assert after.plan.reason is None
    assert after.view.usage.input_tokens <= told.plan.after
    assert after.profile == "common"
    parts = dict(after.view.usage.parts)
    parts.pop("reserved_output")
    assert sum(parts.values()) == after.view.usage.input_tokens


def test_the_least_a_user_can_say():
    memory = TokenMemory()
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage("hello")]})
    builder.add_edge(START, memory_nodes(builder, memory))
    assert builder.compile().invoke({"messages": "hi"})["messages"][-1].content == "hello"


@pytest.mark.slow
def test_strict_msgpack_without_a_warning(tmp_path):
    run_strictly(
        tmp_path,
        "from tests.adapters.graphs.test_graph import *\n"
        "seen, graph = graph_of(memory_of(), split=True)\n"
        "for said in conversation(8):\n"
        "    graph.invoke({'messages': [said]}, config())\n"
        "assert graph.get_state(config()).values['memory']['summary']['covered'] > 3\n"
        "assert len(seen[-1]) < 30\n",
    )


@pytest.mark.slow
async def test_a_graph_does_not_block_the_loop():
    from blockbuster import blockbuster_ctx

    for split in (False, True):
        seen, graph = graph_of(memory_of(), split=split)
        with blockbuster_ctx():
            for said in conversation(8):
                await graph.ainvoke({"messages": [said]}, config())
        assert "conversation_summary" in str(seen[-1][0].content)
