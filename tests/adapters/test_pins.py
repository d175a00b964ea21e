"""Pins of histories, graphs and agents: with views, summaries, restarts, forks, parallel tools."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from langchain_tokenmem import (
    MemoryMessagesState,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.graphs import pin_update
from tests.adapters.agents.test_middleware import agent_of, call, memory_of, thread


@pytest.fixture
def store():
    with TranscriptStore("sqlite://") as store:
        yield store


def history_on(store, **options):
    given = {"user_id": "ann", "memory": memory_of(4_000), **options}
    return TokenMemoryChatHistory("s1", store=store, **given)


def test_a_pinned_text_of_a_history_stands_in_the_first_human_message_from_the_next_view_on(store):
    history = history_on(store)
    history.add_user_message("hi")
    assert [message.type for message in history.messages] == ["human"]
    pin = history.pin("Answer in French.")
    (only,) = history.messages
    assert (only.type, only.text.startswith("hi")) == ("human", True)
    assert "Answer in French." in only.text
    assert history.pins() == [pin]
    assert history.usage().parts["pinned"] > 10
    assert history.full_history()[0].content == "hi"


def test_any_stored_message_can_be_pinned_and_unpinned_by_its_number(store):
    history = history_on(store)
    history.add_messages([HumanMessage("My order is 4711."), AIMessage("Noted.")])
    pin = history.pin(1)
    assert pin["text"] == "user: My order is 4711."
    assert f"(message {pin['source']}) user: My order is 4711." in history.messages[0].text
    assert history.unpin(1)
    assert not history.unpin(1)
    assert history.messages[0].content == "My order is 4711."
    with pytest.raises(ConfigurationError, match="no message 3"):
        history.pin(3)


def test_pinning_twice_is_pinning_once_and_unpinning_goes_by_id_or_text(store):
    history = history_on(store)
    assert history.pin("a") == history.pin("a")
    other = history.pin("b")
    assert len(history.pins()) == 2
    assert history.unpin("a")
    assert history.unpin(other["id"])
    assert history.pins() == []
    assert not history.unpin("a")


def test_what_before_store_takes_out_is_not_pinned(store):
    def redacted(messages):
        return [m.model_copy(update={"content": m.text.replace("4711", "[?]")}) for m in messages]

    history = history_on(store, memory=memory_of(4_000, before_store=redacted))
    assert history.pin("Card 4711.")["text"] == "Card [?]."
    assert history.unpin("Card 4711.")
    history.add_user_message("My card is 4711.")
    assert history.pin(1)["text"] == "user: My card is [?]."


def test_pins_of_another_user_cannot_be_had(store):
    history_on(store).add_user_message("hi")
    other = history_on(store, user_id="bob")
    for use in (other.pins, lambda: other.pin("x"), lambda: other.unpin("x")):
        with pytest.raises(ScopeError):
            use()


def test_async_pins_are_the_same(store):
    history = history_on(store)

    async def use():
        pin = await history.apin("a")
        assert await history.apins() == [pin]
        assert await history.aunpin("a")
        assert await history.apins() == []

    asyncio.run(use())


def pin_calls(*texts):
    calls = [
        {"name": "pin_context", "args": {"text": text}, "id": f"p{n}"}
        for n, text in enumerate(texts)
    ]
    return AIMessage("I pin.", tool_calls=calls)


def test_parallel_tool_calls_of_one_step_may_both_pin():
    middleware = TokenMemoryMiddleware(memory_of(), agent_tools={"pin_context"})
    _, agent = agent_of([pin_calls("one", "two"), AIMessage("Done.")], middleware)
    agent.invoke({"messages": "Go."}, thread())
    pins = agent.get_state(thread()).values["token_memory_pins"]
    assert sorted(pin["text"] for pin in pins.values()) == ["one", "two"]


def graph_with(memory, pinning):
    builder = StateGraph(MemoryMessagesState)
    seen = []

    def model(state: MemoryMessagesState) -> dict:
        seen.append(memory_input(state, memory))
        return {"messages": [AIMessage("Done.")]}

    builder.add_node("rules", pinning)
    builder.add_node("model", model)
    builder.add_edge(START, "rules")
    builder.add_edge("rules", memory_nodes(builder, memory))
    return seen, builder.compile(checkpointer=InMemorySaver())


def test_a_command_pins_from_the_next_view_on_and_unpins():
    updates = [pin_update("Answer in French."), {}, pin_update("Answer in French.", unpin=True)]
    seen, graph = graph_with(memory_of(), lambda _: Command(update=updates.pop(0)))
    for _ in range(3):
        graph.invoke({"messages": [HumanMessage("hi")]}, thread())
    texts = ["Answer in French." in str(request[0].content) for request in seen]
    assert texts == [True, True, False]


def test_a_pin_written_behind_the_memorys_node_stands_in_the_models_next_view():
    memory, seen = memory_of(), []
    builder = StateGraph(MemoryMessagesState)

    def model(state: MemoryMessagesState) -> dict:
        seen.append(memory_input(state, memory))
        return {"messages": [AIMessage("Done.")]}

    def pinning(state: MemoryMessagesState) -> dict:
        return pin_update("Answer in French.", unpin=len(state["messages"]) > 1)

    builder.add_node("rules", pinning)
    builder.add_node("model", model)
    builder.add_edge(START, memory_nodes(builder, memory, before="rules"))
    builder.add_edge("rules", "model")
    graph = builder.compile(checkpointer=InMemorySaver())
    for _ in range(2):
        graph.invoke({"messages": [HumanMessage("hi")]}, thread())
    first, second = seen
    assert "Answer in French." in first[0].text
    assert "Answer in French." not in str(second)


def test_two_memories_of_one_graph_show_the_same_pins():
    """Pins are the conversation's: one channel, whatever the memories are called."""
    memories = {name: memory_of() for name in ("planner", "writer")}
    seen = {name: [] for name in memories}
    builder = StateGraph(MemoryMessagesState)

    def model(name):
        def call_model(state: MemoryMessagesState) -> dict:
            seen[name].append(memory_input(state, memories[name], name=name))
            return {"messages": [AIMessage("Done.")]}

        return call_model

    updates = [pin_update("rule"), pin_update("rule", unpin=True)]
    builder.add_node("rules", lambda _: updates.pop(0))
    builder.add_edge(START, "rules")
    before = "rules"
    for name, memory in memories.items():
        builder.add_node(f"{name}_model", model(name))
        entry = memory_nodes(builder, memory, before=f"{name}_model", name=name)
        builder.add_edge(before, entry)
        before = f"{name}_model"
    graph = builder.compile(checkpointer=InMemorySaver())
    for _ in range(2):
        graph.invoke({"messages": [HumanMessage("hi")]}, thread())
    shown = {n: ["rule" in str(request[0].content) for request in seen[n]] for n in memories}
    assert shown == {"planner": [True, False], "writer": [True, False]}


def test_the_pin_tool_lists_and_unpins_in_an_agent():
    middleware = TokenMemoryMiddleware(memory_of(), agent_tools={"pin_context"})
    script = [
        pin_calls("rule"),
        call(1, "pin_context", action="list"),
        call(2, "pin_context", action="unpin", text="rule"),
        call(3, "pin_context", action="list"),
        call(4, "pin_context", action="unpin", text="rule"),
        AIMessage("Done."),
    ]
    _, agent = agent_of(script, middleware)
    result = agent.invoke({"messages": "Go."}, thread())
    given = [message.content for message in result["messages"] if message.type == "tool"]
    assert given[0].startswith("Pinned pin_")
    assert given[1].startswith("- rule [pin_")
    assert given[2].startswith("Unpinned pin_")
    assert given[3:] == ["Nothing is pinned.", 'There is no pin "rule".']
