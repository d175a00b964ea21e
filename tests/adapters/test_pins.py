"""Pins of histories, graphs and agents, and the place of pins beside a prompt's system text."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langchain_tokenmem import (
    MemoryMessagesState,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.graphs import pin_update
from langchain_tokenmem.types import RequestRules
from tests.adapters.integrations import agent_of, answers, call, thread
from tests.contract.chats import Way, pin
from tests.fakes import memory_of, replacing
from tests.providers import CHECKS, StrictModel

RULE = "Answer in French."


def history_on(store, **keywords):
    return TokenMemoryChatHistory("s", store=store, memory=memory_of(4_000, **keywords))


# Histories


def test_any_stored_message_can_be_pinned_and_unpinned_by_its_number(store):
    history = history_on(store)
    history.add_messages([HumanMessage("My order is 4711."), AIMessage("Noted.")])
    pin = history.pin(1)
    assert f"(message {pin['source']}) user: My order is 4711." in history.messages[0].text
    assert history.usage().parts["pinned"] > 10
    assert [history.unpin(1), history.unpin(1)] == [True, False]
    assert history.messages[0].content == "My order is 4711."
    with pytest.raises(ConfigurationError, match="no message 3"):
        history.pin(3)


async def test_pinning_twice_is_pinning_once_and_unpinning_goes_by_id_or_text(store):
    history = history_on(store)
    pins = [await history.apin("a"), history.pin("b"), history.pin("a")]
    assert await history.apins() == history.pins() == pins[:2]
    assert await history.aunpin("a")
    assert history.unpin(pins[1]["id"])
    assert not history.unpin("a")
    assert history.pins() == []


def test_what_before_store_takes_out_is_not_pinned(store):
    history = history_on(store, before_store=replacing("[?]", "4711"))
    assert history.pin("Card 4711.")["text"] == "Card [?]."
    assert history.unpin("Card 4711.")
    history.add_user_message("My card is 4711.")
    assert history.pin(1)["text"] == "user: My card is [?]."


# Beside a system text that the memory sees, or (around a history) does not see


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(CHECKS))
@pytest.mark.parametrize("name", ["history", "chain", "middleware", "node"])
async def test_beside_a_prompts_system_message_pins_are_no_second_one(name, family):
    memory = memory_of(8_000, request=RequestRules(legality=family))
    way = Way(name, is_async=False, url="sqlite://")
    chat = way.chat(memory, model=StrictModel(family=family), system="You sell tea.")
    await chat.ask("tea?")
    pin(chat, RULE)
    for said in ("coffee?", "milk?"):
        request = await chat.last(said)
        assert [message.type for message in request].count("system") == 1
        place = next(n for n, message in enumerate(request) if RULE in message.text)
        assert place == (1 if name == "history" else 0)
    chat.store.close()


# Graphs and agents


@pytest.mark.parametrize("behind", [False, True], ids=["before the memory's node", "behind it"])
def test_an_update_pins_from_the_next_view_on_and_unpins_and_follows_forks(behind):
    memory, seen, pins = memory_of(), [], []

    def model(state: MemoryMessagesState) -> dict:
        seen.append(memory_input(state, memory))
        return {"messages": [AIMessage("Done.")]}

    builder = StateGraph(MemoryMessagesState)
    builder.add_node("rules", lambda _: pins[-1]).add_node("model", model)
    entry = memory_nodes(builder, memory, before="rules" if behind else "model")
    builder.add_edge(START, entry if behind else "rules")
    builder.add_edge("rules", "model" if behind else entry)
    graph = builder.compile(checkpointer=InMemorySaver())

    def say(update, config=None):
        pins.append(update)
        graph.invoke({"messages": [HumanMessage("hi")]}, config or thread())
        return [word for word in ("one", "two", "three") if f"- {word}" in seen[-1][0].text]

    assert say(pin_update("one")) == ["one"]
    fork = graph.get_state(thread()).config
    assert say(pin_update("two")) == ["one", "two"]
    assert say({}) == ["one", "two"]
    assert say(pin_update("one", unpin=True)) == ["two"]
    assert say(pin_update("three"), fork) == ["one", "three"]


def test_the_pin_tool_pins_in_parallel_lists_and_unpins():
    tools = [{"name": "pin_context", "args": {"text": t}, "id": t} for t in ("rule", "law")]
    actions = [("list", ""), ("unpin", "rule"), ("unpin", "law"), ("list", ""), ("unpin", "rule")]
    calls = [call(n, "pin_context", action=a, text=t) for n, (a, t) in enumerate(actions)]
    script = [AIMessage("I pin.", tool_calls=tools), *calls, AIMessage("Done.")]
    middleware = TokenMemoryMiddleware(memory_of(), agent_tools={"pin_context"})
    _, agent = agent_of(script, middleware)
    *pinned, listed, unpinned, _, nothing, none = answers(
        agent.invoke({"messages": "Go."}, thread())
    )
    assert all(answer.startswith("Pinned pin_") for answer in pinned)
    assert sorted(line.partition(" [")[0] for line in listed.splitlines()) == ["- law", "- rule"]
    assert unpinned.startswith("Unpinned pin_")
    assert [nothing, none] == ["Nothing is pinned.", 'There is no pin "rule".']
