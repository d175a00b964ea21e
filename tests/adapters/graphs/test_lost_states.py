"""Where the memory's state gets lost, a summary is found again by its words, and a line says so."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tokenmem import (
    MemoryNode,
    TokenMemory,
    TokenMemoryMiddleware,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.memory import finished_summaries
from langchain_tokenmem.memory.finished_summaries import FinishedSummaries, Origin
from langchain_tokenmem.state import MemoryState, new_state
from tests.adapters.graphs.test_nodes import config, conversation, memory_of
from tests.fakes import log_text, words_of
from tests.legality import problems
from tests.summarize.models import Gate, Scripted

TURNS = 30
WARNING = "The memory's state was not kept"
ANN = Origin("ann", None, b"system text and tools")


def answering(requests: list) -> Scripted:
    def answer(messages: list[BaseMessage]) -> str:
        requests.append(messages)
        return "ok " * 60

    return Scripted(answer=answer)


def question(number: int) -> str:
    return f"Question {number}? " * 30


def sub_agent(memory: TokenMemory, checkpointer: Any = None) -> tuple[list, Any]:
    """Return the requests of an agent that is a node of a graph, and the graph."""
    requests: list = []
    agent = create_agent(
        answering(requests),
        middleware=[TokenMemoryMiddleware(memory)],
        name="helper",
        checkpointer=checkpointer,
    )
    builder = StateGraph(MessagesState)
    builder.add_node("helper", agent)
    builder.add_edge(START, "helper")
    return requests, builder.compile(checkpointer=InMemorySaver())


@pytest.mark.slow
def test_an_agent_as_a_subgraph_without_a_checkpointer_is_not_summarized_again(caplog):
    memory, kept = memory_of(), memory_of()
    requests, graph = sub_agent(memory)
    expected, keeping = sub_agent(kept, checkpointer=True)
    for number in range(TURNS):
        graph.invoke({"messages": question(number)}, config())
    assert caplog.text.count(WARNING) == 1
    assert "create_agent(..., checkpointer=True)" in caplog.text
    caplog.clear()
    for number in range(TURNS):
        keeping.invoke({"messages": question(number)}, config())
    assert caplog.text == ""
    assert len(memory.summarizer.requests) == len(kept.summarizer.requests) <= 5
    assert [words_of(one) for one in requests] == [words_of(one) for one in expected]


@pytest.mark.slow
@pytest.mark.parametrize("thread", [None, "each time another"])
def test_a_client_that_sends_the_whole_list_again_finds_its_summary(thread, caplog):
    """A stateless server: no checkpointer, new ids with every call; of a user, or of nobody."""
    memory, requests = memory_of(), []
    agent = create_agent(answering(requests), middleware=[TokenMemoryMiddleware(memory)])
    said: list[tuple[str, str]] = []
    for number in range(TURNS):
        said.append(("user", question(number)))
        result = agent.invoke(
            {"messages": said}, config(f"t{number}", user_id="u") if thread else None
        )
        said.append(("assistant", result["messages"][-1].text))
    assert len(memory.summarizer.requests) <= 5
    assert caplog.text.count(WARNING) == (0 if thread else 1)
    assert "conversation_summary" in requests[-1][0].text
    for request in requests:
        assert problems(request) == []
        assert memory.count(request).tokens <= memory.budget.limit


def test_a_graph_without_a_checkpointer_finds_its_summary_and_passes_it_on(caplog):
    memory = memory_of()
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": memory_input(state, memory)[-1:]})
    builder.add_edge(START, memory_nodes(builder, memory))
    graph = builder.compile()
    said = conversation(12)
    for _ in range(3):
        graph.invoke({"messages": said})
    assert len(memory.summarizer.requests) == 1
    assert caplog.text.count(WARNING) == 1
    assert "memory_nodes(builder, memory)" in caplog.text


@pytest.mark.slow
def test_a_summary_of_the_background_is_found_again_too():
    gate = Gate()
    memory = TokenMemory(
        memory_of().budget, counter=memory_of().engine.counter, summarizer=gate.model
    )
    gate.open.set()
    requests, graph = sub_agent(memory)
    for number in range(TURNS):
        graph.invoke({"messages": question(number)}, config())
        memory.close()
    assert "conversation_summary" in requests[-1][0].text
    assert len(gate.model.requests) <= 5


@pytest.mark.slow
def test_a_summary_is_found_only_where_every_covered_word_is_the_same():
    memory, said = memory_of(), conversation(12)
    state = MemoryNode(memory).invoke({"messages": said})["memory"]
    covered = state["summary"]["covered"]
    for place in range(covered):
        other = said[place].model_copy(
            update={"content": said[place].content[::-1] or "Another word."}
        )
        MemoryNode(memory).invoke({"messages": [*said[:place], other, *said[place + 1 :]]})
    assert len(memory.summarizer.requests) == 1 + covered
    MemoryNode(memory).invoke({"messages": said})
    assert len(memory.summarizer.requests) == 1 + covered


@pytest.mark.slow
def test_words_that_were_removed_or_edited_are_in_no_summary_that_others_find():
    """A thread's later summaries rest on the earlier ones, and so on words that are gone."""
    for change in (RemoveMessage(id="h2"), HumanMessage("Nothing.", id="h2")):
        memory = memory_of()
        builder = StateGraph(MessagesState)
        builder.add_node("model", lambda state: {"messages": []})
        builder.add_edge(START, memory_nodes(builder, memory))
        graph = builder.compile(checkpointer=InMemorySaver())
        said = conversation(30)
        secret = HumanMessage("SECRET 4711. " * 9, id="h2")
        said[8] = secret
        for message in said[:48]:
            graph.invoke({"messages": [message]}, config())
        assert "SECRET" in log_text(graph.get_state(config()).values["memory"])
        for message in (change, *said[48:]):
            graph.invoke({"messages": [message]}, config())
        state = graph.get_state(config()).values
        assert state["memory"]["summary"]["covered"] > 60
        again = MemoryNode(memory).invoke({"messages": state["messages"]}, config("other"))
        assert "SECRET" not in str(again["memory"])


def test_a_summary_that_follows_on_another_is_found_behind_it_only():
    known, said = FinishedSummaries(), [HumanMessage(name, id=name) for name in "abcd"]
    known.put(said, new_state(), summed("b"), origin=ANN)
    known.put(said, summed("b"), summed("d"), origin=ANN)
    assert log_text(known.find(ANN, said, new_state())[0]) == "up to d"
    assert log_text(known.find(ANN, said[:3], new_state())[0]) == "up to b"
    said[1] = HumanMessage("edited", id="b")
    assert known.find(ANN, said, new_state()) is None


def test_what_was_recalled_for_one_thread_reaches_no_other():
    known, said = FinishedSummaries(), [HumanMessage(name, id=name) for name in "abcd"]
    block: Any = {"d": {"text": "from another session", "ids": []}}
    known.put(said, new_state(), {**summed("b"), "blocks": block, "stored_to": "d"}, origin=ANN)
    again = [m.model_copy(update={"id": m.text * 2}) for m in said]
    found = known.find(ANN, again, new_state())
    assert found is not None
    assert found[0]["blocks"] == {}
    assert found[0]["stored_to"] is None


def test_another_thread_finds_only_what_was_made_beside_the_same_system_text_and_tools():
    known, said = FinishedSummaries(), [HumanMessage(name, id=name) for name in "abcd"]
    known.put(said, new_state(), summed("b"), origin=ANN._replace(thread="t"))
    other = ANN._replace(thread="other", read=b"another system text")
    assert known.find(other, said, new_state()) is None
    assert known.find(other._replace(read=ANN.read), said, new_state()) is not None
    assert known.find(other._replace(thread="t"), said, new_state()) is not None
    assert known.find(ANN._replace(owner="bob", thread="t"), said, new_state()) is None
    known.clear()
    assert known.find(ANN._replace(thread="t"), said, new_state()) is None


def summed(pointer: str, **fields: Any) -> MemoryState:
    summary: Any = {"covers_to": pointer, "entries": [{"id": pointer, "text": f"up to {pointer}"}]}
    return {**new_state(), "summary": summary, **fields}


words = st.lists(st.sampled_from("abcd"), min_size=1, max_size=12)


@given(said=words, now=words, size=st.integers(1, 12), data=st.data())
def test_a_found_summary_always_covers_the_same_words_under_the_new_ids(said, now, size, data):
    known, size = FinishedSummaries(), min(size, len(said))
    messages = [HumanMessage(word, id=f"m{n}") for n, word in enumerate(said)]
    kept = data.draw(st.lists(st.sampled_from(range(size)), unique=True).map(sorted))
    cuts: Any = {f"m{n}": {"head": n, "tail": 0} for n in range(len(said))}
    state = summed(f"m{size - 1}", kept=[f"m{n}" for n in kept], cuts=cuts)
    known.put(messages, new_state(), state, origin=ANN)
    given_now = [HumanMessage(word, id=f"x{n}") for n, word in enumerate(now)]
    found = known.find(ANN, given_now, new_state())
    assert (found is not None) == (now[:size] == said[:size])
    if found is not None:
        after, _ = found
        assert after["summary"]["covers_to"] == f"x{size - 1}"
        assert after["kept"] == [f"x{n}" for n in kept]
        for key, cut in after["cuts"].items():
            assert now[int(key[1:])] == said[cut["head"]]
            assert int(key[1:]) == cut["head"]


def test_finished_summaries_are_bounded_and_those_used_last_stay(monkeypatch):
    monkeypatch.setattr(finished_summaries, "_MAX_KEPT", 3)
    known = FinishedSummaries()
    threads = [[HumanMessage(f"{n}"), HumanMessage("b", id="b")] for n in range(5)]
    for said in threads:
        known.put(said, new_state(), summed("b"), origin=ANN)
        known.find(ANN, threads[0], new_state())  # what is used stays
    found = [known.find(ANN, said, new_state()) is not None for said in threads]
    assert found == [True, False, False, True, True]


def test_a_fork_over_the_threshold_takes_the_summary_of_the_same_words(caplog):
    caplog.set_level(logging.WARNING)
    memory = memory_of()
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage("ok " * 60)]})
    builder.add_edge(START, memory_nodes(builder, memory))
    graph = builder.compile(checkpointer=InMemorySaver())
    graph.invoke({"messages": [SystemMessage("Rules."), *conversation(12)]}, config())
    early = next(s for s in graph.get_state_history(config()) if s.next == ("token_memory",))
    graph.invoke(None, early.config)
    assert len(memory.summarizer.requests) == 1
    assert "starts again from an earlier checkpoint" in caplog.text
