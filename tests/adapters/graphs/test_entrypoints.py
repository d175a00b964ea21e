"""The memory in LangGraph's functional API: `@entrypoint` and `@task`."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph, add_messages

from langchain_tokenmem import MemoryNode, TokenMemory
from langchain_tokenmem.graphs import AfterModelNode
from tests.adapters.integrations import contents, thread, turns
from tests.contract.chats import Heard
from tests.fakes import memory_of
from tests.summarize.models import Gate, Scripted

QUESTIONS = [message for message in turns(60) if message.type == "human"]


def chat_of(memory: TokenMemory) -> tuple[Scripted, Any]:
    """Return a model, and a chat that saves its messages and the memory's state by itself."""
    model = Scripted(answer=lambda _: "Yes. " * 40)
    node = MemoryNode(memory)

    @task
    def remember(state: dict[str, Any]) -> dict[str, Any]:
        return node.invoke(state)

    @task
    def call_model(request: list[Any]) -> Any:
        return model.invoke(request)

    @entrypoint(checkpointer=InMemorySaver())
    def chat(question: Any, *, previous: Any = None) -> Any:
        state = {"messages": [], **(previous or {})}
        state["messages"] = add_messages(state["messages"], question)
        state |= remember(state).result()
        answer = call_model(state.pop("llm_input_messages")).result()
        state["messages"] = add_messages(state["messages"], answer)
        return entrypoint.final(value=answer, save=state)

    return model, chat


@pytest.mark.slow
def test_a_chat_is_summarized_and_keeps_its_state():
    memory = memory_of()
    model, chat = chat_of(memory)
    written = [
        event
        for question in QUESTIONS
        for event in chat.stream(question, thread(), stream_mode="custom")
    ]
    kinds = [event["event"] for event in written]
    assert kinds.count("view") == len(QUESTIONS)
    assert kinds.count("summary") > 1
    covered = [event["covered"] for event in written if event["event"] == "summary"]
    assert covered == sorted(covered)
    assert len(model.requests) == len(QUESTIONS)
    assert all(memory.count(request).tokens <= memory.budget.limit for request in model.requests)
    assert "question 0 " not in contents(model.requests[-1][1:])


async def test_an_async_chat_starts_its_summary_after_the_reply():
    gate = Gate()
    memory = memory_of(4_000, summarizer=gate.model)
    node, behind = MemoryNode(memory), AfterModelNode(memory)

    @task
    async def remember(state: dict[str, Any]) -> dict[str, Any]:
        return await node.ainvoke(state)

    @entrypoint(checkpointer=InMemorySaver())
    async def chat(messages: list[Any]) -> bool:
        state = {"messages": messages, **await remember({"messages": messages})}
        was_asked = gate.asked.is_set()
        state["messages"] = [*messages, AIMessage("Yes. " * 320, id="answer")]
        await behind.ainvoke(state)
        return was_asked

    assert await chat.ainvoke(turns(40), thread()) is False
    assert gate.asked.wait(20)
    gate.open.set()
    await memory.aclose()


@pytest.mark.parametrize("is_graph", [False, True])
def test_a_task_is_no_sub_graph(is_graph):
    """What a task of a task remembers is the thread's."""
    heard = Heard()
    node = MemoryNode(memory_of(callbacks=[heard]))

    @task
    def inner(state: Any) -> None:
        node.invoke(state)

    @task
    def outer(state: Any) -> None:
        inner(state).result()

    @entrypoint(checkpointer=InMemorySaver())
    def chat(state: Any) -> None:
        outer(state).result()

    def asks(state: MessagesState) -> dict[str, Any]:
        outer({"messages": state["messages"]}).result()
        return {}

    builder = StateGraph(MessagesState).add_node("asks", asks).add_edge(START, "asks")
    graph = builder.compile(checkpointer=InMemorySaver()) if is_graph else chat
    graph.invoke({"messages": QUESTIONS[:1]}, thread())
    assert [(event.session, event.thread) for event in heard.events] == [("t", "t")]
