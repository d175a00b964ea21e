"""Summaries behind the reply inside graphs: for the next call, and for no other branch."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import (
    TokenBudget,
    TokenMemory,
    TokenMemoryMiddleware,
)
from langchain_tokenmem.memory.finished_summaries import FinishedSummaries
from langchain_tokenmem.state import new_state
from tests.adapters.integrations import agent_of, graph_of
from tests.fakes import CharCounter
from tests.legality import problems
from tests.summarize.models import Gate, Scripted

THREAD = {"configurable": {"thread_id": "t"}}


def memory_of(summarizer: Any, **keywords: Any) -> TokenMemory:
    budget = TokenBudget(context_window=4_000)
    return TokenMemory(budget, counter=CharCounter(), summarizer=summarizer, **keywords)


def talk(tokens: int, name: str = "m") -> list[BaseMessage]:
    """Return turns of about 110 tokens until they have so many."""
    counter, said = CharCounter(), []
    while counter.count(said).tokens < tokens:
        n = len(said) // 2
        said.append(HumanMessage(f"question {n} " * 18, id=f"{name}h{n}"))
        said.append(AIMessage(f"reply {n} " * 24, id=f"{name}a{n}"))
    return said


def summary_of(graph: Any, thread: dict = THREAD) -> Any:
    values = graph.get_state(thread).values
    memories = values.get("token_memory") or {}
    state = values.get("memory") or memories.get("TokenMemoryMiddleware") or new_state()
    return state["summary"]


@pytest.mark.slow
def test_between_the_thresholds_nobody_waits_and_the_next_call_has_the_summary(door):
    gate = Gate()
    memory = memory_of(gate.model)
    model, graph = door(memory)
    graph.invoke({"messages": talk(3_300)}, THREAD)
    assert gate.asked.wait(10)
    assert summary_of(graph) is None
    assert len(model.requests[0]) == len(talk(3_300))
    gate.open.set()
    memory.close()
    events = list(graph.stream({"messages": "And now?"}, THREAD, stream_mode="custom"))
    assert [event["event"] for event in events if event["event"] == "summary"] == ["summary"]
    assert summary_of(graph)["covers_to"].startswith("m")
    assert len(model.requests[1]) < len(model.requests[0])
    assert len(gate.model.requests) == 1


@pytest.mark.slow
def test_at_the_hard_limit_a_call_waits_but_not_for_ever(door):
    gate = Gate()
    memory = memory_of(gate.model, max_wait_s=0.2)
    model, graph = door(memory)
    graph.invoke({"messages": talk(9_000)}, THREAD)
    assert memory.count(model.requests[0]).tokens <= memory.budget.limit
    assert problems(model.requests[0]) == []
    assert summary_of(graph) is None
    gate.open.set()
    memory.close()
    graph.invoke({"messages": "And now?"}, THREAD)
    assert summary_of(graph) is not None
    patient = memory_of(Scripted(), max_wait_s=20)
    _, graph = door(patient)
    graph.invoke({"messages": talk(9_000)}, THREAD)
    assert summary_of(graph) is not None


@pytest.mark.slow
def test_a_fork_from_before_takes_nothing_of_the_later_branch(door):
    gate = Gate()
    memory = memory_of(gate.model)
    _, graph = door(memory)
    graph.invoke({"messages": talk(1_000, "root")}, THREAD)
    early = graph.get_state(THREAD).config
    graph.invoke({"messages": talk(2_300, "later")}, THREAD)
    assert gate.asked.wait(10)
    gate.open.set()
    memory.close()
    graph.invoke({"messages": talk(500, "fork")}, early)
    assert summary_of(graph) is None
    assert "later" not in str(graph.get_state(THREAD).values)


@pytest.mark.slow
def test_an_edited_message_is_not_what_was_summarized(door):
    gate = Gate()
    memory = memory_of(gate.model)
    _, graph = door(memory)
    said = talk(3_300)
    graph.invoke({"messages": said}, THREAD)
    assert gate.asked.wait(10)
    gate.open.set()
    memory.close()
    graph.invoke({"messages": [said[2].model_copy(update={"content": "x " * 90})]}, THREAD)
    assert summary_of(graph) is None
    memory.close()
    graph.invoke({"messages": "Go on."}, THREAD)
    assert summary_of(graph) is not None


@pytest.mark.slow
def test_concurrent_runs_of_one_thread_make_one_summary(door):
    gate = Gate()
    memory = memory_of(gate.model)
    _, graph = door(memory)
    graph.update_state(THREAD, {"messages": talk(3_300)})
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: graph.invoke({"messages": f"{n}?"}, THREAD), range(6)))
        assert gate.asked.wait(10)
        gate.open.set()
    memory.close()
    assert len(gate.model.requests) == 1


@pytest.mark.slow
def test_threads_do_not_take_from_one_another(door):
    gate = Gate()
    memory = memory_of(gate.model)
    _, graph = door(memory)
    other = {"configurable": {"thread_id": "other"}}
    graph.invoke({"messages": talk(3_300)}, THREAD)
    assert gate.asked.wait(10)
    gate.open.set()
    memory.close()
    graph.invoke({"messages": talk(1_000)}, other)
    assert summary_of(graph, other) is None
    graph.invoke({"messages": "And now?"}, THREAD)
    assert summary_of(graph) is not None


@pytest.mark.slow
def test_without_a_thread_the_summary_is_made_at_once(door):
    memory = memory_of(Scripted())
    model, graph = door(memory)
    graph.checkpointer = None
    graph.invoke({"messages": talk(3_300)})
    assert len(model.requests[0]) < len(talk(3_300))


@pytest.mark.slow
def test_words_of_a_background_summary_reach_no_message_stream(door):
    gate = Gate()
    memory = memory_of(gate.model)
    _, graph = door(memory)
    chunks = graph.stream({"messages": talk(3_300)}, THREAD, stream_mode="messages")
    gate.open.set()
    said = "".join(str(chunk.content) for chunk, _ in chunks)
    memory.close()
    assert len(gate.model.requests) == 1
    assert said == "Yes."


def test_an_event_loop_that_ends_loses_no_summary():
    gate = Gate()
    memory = memory_of(gate.model)
    model, graph = agent_of(memory)
    asyncio.run(graph.ainvoke({"messages": talk(3_300)}, THREAD))
    assert gate.asked.wait(10)
    gate.open.set()
    memory.close()
    asyncio.run(graph.ainvoke({"messages": "And now?"}, THREAD))
    assert summary_of(graph) is not None
    assert len(model.requests[1]) < len(model.requests[0])


@pytest.mark.slow
def test_without_a_memory_the_agents_own_model_writes_the_summaries():
    def answer(messages):
        notes = "## Goal\nThe user counts questions, and wants a reply to each of them."
        return notes if "at most" in str(messages[-1].content) else "Yes."

    model = Scripted(profile={"max_input_tokens": 4_000}, answer=answer)
    agent = create_agent(model, middleware=[TokenMemoryMiddleware()], checkpointer=InMemorySaver())
    long = [message.model_copy(update={"content": message.text * 4}) for message in talk(6_000)]
    agent.invoke({"messages": long}, THREAD)
    assert [entry["model"] for entry in summary_of(agent)["entries"]] == ["scripted"]


def long_answer(_messages: list[BaseMessage]) -> str:
    return "An answer. " * 180


@pytest.mark.slow
def test_a_summary_starts_right_after_the_models_answer(door):
    gate = Gate()
    memory = memory_of(gate.model)
    model, graph = door(memory)
    model.answer = long_answer
    graph.invoke({"messages": talk(2_900)}, THREAD)
    assert gate.asked.wait(10)
    assert summary_of(graph) is None
    gate.open.set()
    memory.close()
    graph.invoke({"messages": "And now?"}, THREAD)
    assert summary_of(graph) is not None
    assert len(model.requests[1]) < len(model.requests[0])
    assert len(gate.model.requests) == 1


@pytest.mark.slow
async def test_a_summary_starts_after_an_async_answer_too(door):
    gate = Gate()
    memory = memory_of(gate.model)
    model, graph = door(memory)
    model.answer = long_answer
    await graph.ainvoke({"messages": talk(2_900)}, THREAD)
    assert await asyncio.to_thread(gate.asked.wait, 10)
    gate.open.set()
    await memory.aclose()
    assert len(gate.model.requests) == 1


@pytest.mark.slow
def test_a_summary_that_waits_for_the_next_call_is_not_made_again_after_the_answer(door):
    memory = memory_of(Scripted(answer=lambda _messages: "## Goal\nThe user counts."))
    model, graph = door(memory)

    def answer_late(_messages: list[BaseMessage]) -> str:
        memory.close()  # the summary that was begun beside this call is there
        return "Yes."

    model.answer = answer_late
    graph.invoke({"messages": talk(3_300)}, THREAD)
    memory.close()
    assert len(memory.summarizer._model.requests) == 1
    graph.invoke({"messages": "And now?"}, THREAD)
    assert summary_of(graph) is not None


def test_a_memory_that_makes_summaries_in_the_turn_adds_no_node_behind_the_model():
    _, quick = graph_of(memory_of(None))
    assert sorted(quick.nodes) == ["__start__", "model", "token_memory"]
    _, slow = graph_of(memory_of(Scripted()))
    assert sorted(slow.nodes) == ["__start__", "memory_after_model", "model", "token_memory"]


ids = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1)


@given(told=ids, now=ids, size=st.integers(1, 8))
def test_a_summary_is_only_taken_where_the_conversation_begins_with_what_it_covers(told, now, size):
    handover = FinishedSummaries()
    size = min(size, len(told))
    pointer: Any = {"covers_to": told[size - 1], "entries": [{"id": "e"}]}
    handover.put(
        [HumanMessage(i, id=i) for i in told],
        None,
        {**new_state(), "summary": pointer},
        key="k",
    )
    taken = handover.take("k", [HumanMessage(i, id=i) for i in now], None)
    assert (taken is not None) == (now[:size] == told[:size])
    again = handover.take("k", [HumanMessage(i, id=i) for i in told], None)
    assert (again is None) == (taken is not None)


def test_what_was_kept_and_pruned_meanwhile_stays_known():
    said = [HumanMessage(name, id=name) for name in "abcd"]
    before = {**new_state(), "stored_to": "b"}
    pointer: Any = {"covers_to": "b", "entries": [{"id": "e"}]}
    handover = FinishedSummaries()
    handover.put(said, before, {**before, "summary": pointer}, key="k")
    now = {**before, "stored_to": "d", "pruned": [[1, 1]], "blocks": {"d": {"text": "", "ids": []}}}
    taken = handover.take("k", said, now)
    assert taken["summary"] == pointer
    assert (taken["stored_to"], taken["pruned"]) == ("d", [[1, 1]])
    assert "d" in taken["blocks"]
