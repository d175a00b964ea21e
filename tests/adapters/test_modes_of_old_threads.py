"""Modes of threads that are resumed, resent, or older than the mode, and of several memories."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langchain_tokenmem import (
    MemoryMessagesState,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.modes import ModeProfile
from tests.adapters.agents.test_middleware import memory_of, thread
from tests.adapters.test_modes import FENCE, text_of
from tests.providers import StrictModel

DECISION = "We decided to use SQLite because it is simple."
REASONING = '<working_notes mode="reasoning">'


def switched(mode):
    return {"configurable": {"thread_id": "t", "memory_mode": mode}}


@pytest.mark.parametrize("update", [True, False])
def test_a_run_that_is_resumed_has_the_mode_of_now(update):
    careful = ModeProfile("careful", window=5, sections=("decisions",), system_text="Take care.")
    memory, seen = memory_of(8_000, mode=careful), []

    def model(state: MemoryMessagesState):
        seen.append(memory_input(state, memory))
        return {"messages": [AIMessage("ok")]}

    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, memory_nodes(builder, memory))
    graph = builder.compile(checkpointer=InMemorySaver(), interrupt_before=["model"])
    graph.invoke({"messages": DECISION}, switched("reasoning"))
    if update:
        graph.update_state(thread(), {"memory_mode": "careful"})
        graph.invoke(None, thread())
    else:
        graph.invoke(None, switched("careful"))
    assert [message.content for message in seen[0]] == ["Take care.", DECISION]


def test_the_input_of_a_graph_switches_each_of_its_memories():
    first, second, seen = memory_of(8_000, mode="code"), memory_of(8_000, mode="code"), {}

    def node(key, memory, **options):
        def model(state: MemoryMessagesState):
            seen[key] = text_of(memory_input(state, memory, **options))
            return {"messages": [AIMessage(f"said by {key}")]}

        return model

    builder = StateGraph(MemoryMessagesState)
    builder.add_node("one", node("one", first))
    builder.add_node("two", node("two", second, name="other"))
    builder.add_edge(START, memory_nodes(builder, first, before="one"))
    builder.add_edge("one", memory_nodes(builder, second, before="two", name="other"))
    graph = builder.compile(checkpointer=InMemorySaver())
    graph.invoke({"messages": DECISION}, thread())
    result = graph.invoke({"messages": "And?", "other_mode": "reasoning"}, thread())
    assert (FENCE in seen["one"], REASONING in seen["two"]) == (False, True)
    assert "llm_input_messages" not in result
    graph.invoke({"messages": "So?", "memory_mode": "reasoning"}, thread())
    assert REASONING in seen["one"]


def test_a_narrower_input_of_the_application_stays_as_it_is():
    builder = StateGraph(MemoryMessagesState, input_schema=dict)
    builder.add_node("model", lambda state: {"messages": []})
    memory_nodes(builder, memory_of(8_000), name="other")
    assert builder.input_schema is dict


@pytest.mark.slow
def test_a_client_that_sends_the_whole_list_again_keeps_its_notes():
    """No checkpointer, new ids with every call: what is covered is known by its words."""
    memory = memory_of(2_000, mode="reasoning")
    model = StrictModel(script=[])
    agent = create_agent(model, middleware=[TokenMemoryMiddleware(memory)])
    said = [("user", f"{DECISION} Budget: $50k. {'Plan the rest. ' * 20}")]
    for number in range(24):
        result = agent.invoke({"messages": said})
        said.append(("assistant", result["messages"][-1].text or "ok"))
        said.append(("user", f"Question {number}? " * 25))
    agent.invoke({"messages": said})
    request = text_of(model.seen[-1])
    assert "conversation_summary" in request
    notes = request[request.index(FENCE) : request.index("</working_notes>")]
    assert "Constraints: Budget: $50k" in notes


def long_talk(count):
    said = [HumanMessage(f"{DECISION} Budget: $50k", id="h0"), AIMessage("ok", id="a0")]
    for number in range(1, count):
        said += [HumanMessage(f"Look at {number}. " * 20, id=f"h{number}")]
        said += [AIMessage("ok " * 60, id=f"a{number}")]
    return said


@pytest.mark.slow
@pytest.mark.parametrize("split", [True, False])
def test_a_backlog_is_read_into_the_notes_however_short_a_call_may_wait(split):
    memory = memory_of(2_000, mode="reasoning", max_wait_s=0)
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage("ok")]})
    builder.add_edge(START, memory_nodes(builder, memory, split=split))
    graph = builder.compile(checkpointer=InMemorySaver())
    graph.invoke({"messages": [*long_talk(300), HumanMessage("And?", id="q")]}, thread())
    memory.close()
    graph.invoke({"messages": [HumanMessage("And now?", id="q2")]}, thread())
    modes = graph.get_state(thread()).values["memory"]["modes"]
    assert modes["turn"] == 302
    assert [one["source"] for one in modes["sections"]["decisions"]] == [1]


@pytest.mark.slow
def test_a_backlog_of_a_stored_session_is_read_as_well():
    store = TranscriptStore("sqlite://")
    memory = memory_of(2_000, mode="reasoning", max_wait_s=0)
    history = TokenMemoryChatHistory("s1", memory=memory, store=store)
    history.add_messages([*long_talk(300), HumanMessage("And?", id="q")])
    _ = history.messages
    memory.close()
    history.add_messages([AIMessage("ok", id="a"), HumanMessage("And now?", id="q2")])
    assert "Constraints: Budget: $50k" in text_of(history.messages)
    modes = store.state("s1").state["modes"]
    assert modes["turn"] == 302
    assert [one["source"] for one in modes["sections"]["decisions"]] == [1]


def graph_with(memory, checkpointer):
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage("ok")]})
    builder.add_edge(START, memory_nodes(builder, memory))
    return builder.compile(checkpointer=checkpointer)


def test_a_mode_that_comes_late_reads_what_was_summarized_before():
    saver = InMemorySaver()
    before = graph_with(memory_of(2_000), saver)
    before.invoke({"messages": [*long_talk(20), HumanMessage("And?", id="q")]}, thread())
    state = before.get_state(thread()).values["memory"]
    assert state["summary"]["covered"] > 2
    assert "modes" not in state
    after = graph_with(memory_of(2_000, mode="reasoning"), saver)
    after.invoke({"messages": "And now?"}, thread())
    modes = after.get_state(thread()).values["memory"]["modes"]
    assert [one["source"] for one in modes["sections"]["decisions"]] == [1]
    assert modes["turn"] == 22


def test_a_mode_that_comes_late_reads_the_transcript_once(monkeypatch):
    store, read = TranscriptStore("sqlite://"), []
    plain = TokenMemoryChatHistory("s1", memory=memory_of(2_000), store=store)
    plain.add_messages(long_talk(20))
    plain.compact()
    history = TokenMemoryChatHistory("s1", memory=memory_of(2_000, mode="code"), store=store)
    whole = TranscriptStore.messages
    monkeypatch.setattr(
        TranscriptStore, "messages", lambda *a, **k: read.append(a) or whole(*a, **k)
    )
    for text in ("And?", "And now?"):
        history.add_messages([HumanMessage(text), AIMessage("ok")])
        _ = history.messages
    modes = store.state("s1").state["modes"]
    assert [one["source"] for one in modes["sections"]["decisions"]] == [1]
    assert (modes["turn"], len(read)) == (22, 1)


def test_a_session_that_is_switched_to_no_mode_and_back_has_missed_nothing():
    memory = memory_of(2_000, mode="reasoning")
    said = [HumanMessage("Go", id="g"), AIMessage("ok", id="o")]
    state, _ = memory.compact_and_view(said)
    talk = long_talk(20)
    for end in range(2, len(talk), 2):
        state, view = memory.compact_and_view([*said, *talk[:end]], state, mode="")
        assert FENCE not in text_of(view.messages)
    assert state["summary"]["covered"] > 4
    state, view = memory.compact_and_view([*said, *talk], state, mode="reasoning")
    assert "Constraints: Budget: $50k" in text_of(view.messages)
    assert state["modes"]["sections"]["decisions"][0]["number"] == 1
