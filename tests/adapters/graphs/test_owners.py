"""Threads of graphs and agents belong to the user who began them, whatever the checkpointer."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tokenmem import (
    CompactNode,
    MemoryNode,
    Recall,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptRetriever,
    TranscriptStore,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.state import load_state, new_state
from tests.adapters.graphs.test_nodes import config, memory_of
from tests.summarize.models import Scripted


def node_graph(memory: TokenMemory, saver: Any, **keywords: Any) -> Any:
    def call_model(state: MessagesState) -> dict:
        return {"messages": [AIMessage(f"{len(memory_input(state, memory))} messages")]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", call_model)
    builder.add_edge(START, memory_nodes(builder, memory, **keywords))
    return builder.compile(checkpointer=saver)


def three_nodes(memory: TokenMemory, saver: Any, **keywords: Any) -> Any:
    return node_graph(memory, saver, split=True, **keywords)


def agent(memory: TokenMemory, saver: Any, **keywords: Any) -> Any:
    middleware = [TokenMemoryMiddleware(memory, **keywords)]
    model = Scripted(answer=lambda _messages: "Yes.")
    return create_agent(model, middleware=middleware, checkpointer=saver)


@pytest.fixture(params=[node_graph, three_nodes, agent])
def make(request):
    return request.param


@pytest.fixture(params=["InMemorySaver", "TokenMemorySaver"])
def saver(request):
    with TranscriptStore("sqlite://") as store:
        yield InMemorySaver() if request.param == "InMemorySaver" else TokenMemorySaver(store)


@pytest.mark.slow
def test_another_user_on_a_thread_that_has_one_is_refused(make, saver):
    graph = make(memory_of(), saver)
    graph.invoke({"messages": "My code is 4711."}, config(user_id="u"))
    with pytest.raises(ScopeError, match="belongs to another user than 'v'"):
        graph.invoke({"messages": "What is the code?"}, config(user_id="v"))
    # Its owner, a run that names nobody, and another thread go on.
    graph.invoke({"messages": "What is the code?"}, config(user_id="u"))
    graph.invoke({"messages": "What is the code?"}, config())
    graph.invoke({"messages": "Hello."}, config("mine", user_id="v"))


async def test_another_user_is_refused_by_async_calls_too(make, saver):
    graph = make(memory_of(), saver)
    await graph.ainvoke({"messages": "My code is 4711."}, config(user_id="u"))
    with pytest.raises(ScopeError, match="belongs to another user"):
        await graph.ainvoke({"messages": "What is the code?"}, config(user_id="v"))


@pytest.mark.slow
def test_a_thread_that_nobody_has_named_goes_to_the_first_user(make, saver):
    graph = make(memory_of(), saver)
    graph.invoke({"messages": "Hello."}, config())
    graph.invoke({"messages": "Hello, I am u."}, config(user_id="u"))
    with pytest.raises(ScopeError, match="belongs to another user"):
        graph.invoke({"messages": "Hello, I am v."}, config(user_id="v"))


@pytest.mark.slow
def test_shared_threads_take_every_user(make, saver):
    graph = make(memory_of(), saver, shared_threads=True)
    for user in ("u", "v", None, "u"):
        graph.invoke({"messages": f"I am {user}."}, config(user_id=user))
    assert len(graph.get_state(config()).values["messages"]) == 8


def test_a_fork_belongs_to_the_owner_of_its_thread(make):
    graph = make(memory_of(), InMemorySaver())
    graph.invoke({"messages": "My code is 4711."}, config(user_id="u"))
    early = graph.get_state(config()).config["configurable"]
    graph.invoke({"messages": "Go on."}, config(user_id="u"))
    with pytest.raises(ScopeError, match="belongs to another user"):
        graph.invoke({"messages": "The code?"}, {"configurable": {**early, "user_id": "v"}})


@pytest.mark.slow
def test_the_owner_stays_when_a_summary_of_the_background_is_taken():
    memory = TokenMemory(
        memory_of().budget, counter=memory_of().engine.counter, summarizer=Scripted()
    )
    graph = node_graph(memory, InMemorySaver())
    for number in range(20):
        graph.invoke({"messages": f"Question {number}? " * 30}, config(user_id="u"))
        memory.close()
    held = graph.get_state(config()).values["memory"]
    assert held["summary"]
    assert held["owner"] == "u"


def test_a_state_from_before_owners_loads():
    assert load_state(new_state()).get("owner") is None
    update = MemoryNode(memory_of()).invoke(
        {"messages": [HumanMessage("hi")], "memory": new_state()}, config(user_id="u")
    )
    assert update["memory"]["owner"] == "u"


@pytest.mark.parametrize("user", ["", "  ", 7, "u\x1fv", "u\nv", "u\x00", "u\x85"])
def test_users_that_cannot_be_named_so_are_refused(make, user):
    graph = make(memory_of(), InMemorySaver())
    with pytest.raises(ScopeError, match="user_id"):
        graph.invoke({"messages": "Hello."}, config(user_id=user))


BAD = ["a\x1fb", "a\x00b", "a\nb", "\x7fa", "a\x9f"]


@pytest.mark.parametrize("bad", BAD)
def test_ids_with_control_characters_are_refused_by_every_integration(bad, make):
    with TranscriptStore("sqlite://") as store:
        hello = {"messages": "Hello."}
        with pytest.raises(ScopeError, match=r"thread_id .* control character"):
            make(memory_of(), InMemorySaver()).invoke(hello, config(bad))
        with pytest.raises(ScopeError, match=r"thread_id .* control character"):
            make(memory_of(), TokenMemorySaver(store)).invoke(hello, config(bad))
        with pytest.raises(ScopeError, match=r"thread_id .* control character"):
            CompactNode(memory_of(), archive=store).invoke(
                {"messages": [HumanMessage("hi")]}, config(bad)
            )
        model = Scripted(answer=lambda _messages: "Yes.")
        chain = with_token_memory(model, memory_of(), store)
        for ids in ({"session_id": bad}, {"session_id": "s", "user_id": bad}):
            with pytest.raises(ScopeError, match="control character"):
                chain.invoke("Hello.", {"configurable": ids})
            with pytest.raises(ScopeError, match="control character"):
                TokenMemoryChatHistory(store=store, **ids)
            with pytest.raises(ScopeError, match="control character"):
                TranscriptRetriever(recall=Recall(store), **ids).invoke("Hello?")
        with pytest.raises(ScopeError, match=r"user_id .* control character"):
            TokenMemorySaver(store).put(
                config(user_id=bad, checkpoint_ns=""),
                {"id": "1"},
                {},
                {},  # type: ignore[arg-type]
            )
        assert model.requests == []
        assert store.sessions() == []
