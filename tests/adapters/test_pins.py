"""Pins of histories, graphs and agents, and the place of pins beside a prompt's system text."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langchain_tokenmem import (
    MemoryMessagesState,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.graphs import pin_update
from langchain_tokenmem.types import RequestRules
from tests.adapters.integrations import agent_of, answers, call, session, thread
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


# Beside a system text that the memory sees, or does not see: never two system messages

SYSTEM = SystemMessage("You sell tea.")
PROMPT = ChatPromptTemplate.from_messages(
    [SYSTEM, MessagesPlaceholder("history"), ("human", "{input}")]
)
QUESTIONS = ("tea?", "coffee?", "milk?")


def history_by_hand(memory, model, store):
    history = TokenMemoryChatHistory("s", memory=memory, store=store)
    history.pin(RULE)
    for said in QUESTIONS:
        history.add_user_message(said)
        history.add_message(model.invoke([SYSTEM, *history.messages]))


def chain(memory, model, store):
    TokenMemoryChatHistory("s", memory=memory, store=store).pin(RULE)
    keys = {"input_messages_key": "input", "history_messages_key": "history"}
    made = with_token_memory(PROMPT | model, memory, store, **keys)
    for said in QUESTIONS:
        made.invoke({"input": said}, session())


def graph_of(memory, model, front, **around):
    builder = StateGraph(MemoryMessagesState)

    def call_model(state: MemoryMessagesState) -> dict:
        return {"messages": [model.invoke([*front, *memory_input(state, memory, **around)])]}

    builder.add_node("model", call_model)
    builder.add_edge(START, memory_nodes(builder, memory, before="model", **around))
    return builder.compile(checkpointer=InMemorySaver())


def asked_graph(graph):
    graph.update_state(thread(), pin_update(RULE), as_node="model")
    for said in QUESTIONS:
        graph.invoke({"messages": said}, thread())


def node_with_a_prompt_of_its_own(memory, model, store):
    asked_graph(graph_of(memory, model, [SYSTEM]))


def node_with_system(memory, model, store):
    asked_graph(graph_of(memory, model, [], system=SYSTEM))


def middleware(memory, model, store):
    class Pins(AgentMiddleware):
        def before_agent(self, state, runtime):
            return pin_update(RULE)

    parts = [Pins(), TokenMemoryMiddleware(memory)]
    agent = create_agent(model, [], system_prompt=SYSTEM.text, middleware=parts)
    for said in QUESTIONS:
        agent.invoke({"messages": said})


SEEN = (chain, node_with_system, middleware)
NOT_SEEN = (history_by_hand, node_with_a_prompt_of_its_own)


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(CHECKS))
@pytest.mark.parametrize("use", [*SEEN, *NOT_SEEN])
def test_beside_a_prompts_system_message_pins_are_no_second_one(use, family, store):
    model = StrictModel(family=family)
    use(memory_of(8_000, request=RequestRules(legality=family)), model, store)
    assert len(model.seen) == len(QUESTIONS)
    for request in model.seen:
        assert [message.type for message in request].count("system") == 1
        place = next(n for n, message in enumerate(request) if RULE in message.text)
        assert place == (0 if use in SEEN else 1)
        assert (request[0].text == SYSTEM.text) is (use in NOT_SEEN)


# Graphs and agents


@pytest.mark.parametrize("behind", [False, True], ids=["before the memory's node", "behind it"])
def test_an_update_pins_from_the_next_view_on_and_unpins_and_follows_forks(behind):
    memory, seen, pins = memory_of(), [], []

    def model(state: MemoryMessagesState) -> dict:
        seen.append(memory_input(state, memory))
        return {"messages": [AIMessage("Done.")]}

    builder = StateGraph(MemoryMessagesState)
    builder.add_node("rules", lambda _: pins[-1])
    builder.add_node("model", model)
    if behind:
        builder.add_edge(START, memory_nodes(builder, memory, before="rules"))
        builder.add_edge("rules", "model")
    else:
        builder.add_edge(START, "rules")
        builder.add_edge("rules", memory_nodes(builder, memory))
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
    script = [
        AIMessage("I pin.", tool_calls=tools),
        call(1, "pin_context", action="list"),
        call(2, "pin_context", action="unpin", text="rule"),
        call(3, "pin_context", action="unpin", text="law"),
        call(4, "pin_context", action="list"),
        call(5, "pin_context", action="unpin", text="rule"),
        AIMessage("Done."),
    ]
    middleware = TokenMemoryMiddleware(memory_of(), agent_tools={"pin_context"})
    _, agent = agent_of(script, middleware)
    given = answers(agent.invoke({"messages": "Go."}, thread()))
    listed, unpinned, _, *rest = given[2:]
    assert all(answer.startswith("Pinned pin_") for answer in given[:2])
    assert sorted(line.partition(" [")[0] for line in listed.splitlines()) == ["- law", "- rule"]
    assert unpinned.startswith("Unpinned pin_")
    assert rest == ["Nothing is pinned.", 'There is no pin "rule".']
