"""Every integration counts for the model that is called, within that model's window."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware, wrap_model_call
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langchain_tokenmem import (
    MemoryMessagesState,
    TokenBudget,
    TokenMemory,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.tokens.resolve import counter_for
from tests.providers import StrictModel

WORDS = "The parcel with the two lamps goes to Bonn and not to Cologne. "
SESSION = {"configurable": {"session_id": "s"}}
THREAD = {"configurable": {"thread_id": "t"}, "recursion_limit": 900}


class NamedModel(StrictModel):
    model_name: str = "claude-sonnet-4-5"


def talk() -> list:
    """Return a conversation of 30,000 tokens of o200k."""
    return [
        (HumanMessage if n % 2 == 0 else AIMessage)(f"{n} " + WORDS * 20, id=f"m{n}")
        for n in range(101)
    ]


def tokens_for(model: Any, request: list) -> int:
    return counter_for(model).count(request).tokens


def in_agent(model: Any, memory: TokenMemory) -> None:
    middleware = [TokenMemoryMiddleware(memory)]
    create_agent(model, middleware=middleware).invoke({"messages": talk()})


def in_chain(model: Any, memory: TokenMemory) -> None:
    prompt = ChatPromptTemplate.from_messages([("system", "Be brief."), MessagesPlaceholder("x")])
    with TranscriptStore("sqlite://") as store:
        chain = with_token_memory(prompt | model, memory, store, input_messages_key="x")
        chain.invoke({"x": talk()}, SESSION)


def in_nodes(model: Any, memory: TokenMemory) -> None:
    builder = StateGraph(MemoryMessagesState)
    builder.add_node(
        "model",
        lambda state: {"messages": [model.invoke(memory_input(state, memory, model=model))]},
    )
    builder.add_edge(START, memory_nodes(builder, memory, model=model))
    builder.compile().invoke({"messages": talk()})


WAYS = {"middleware": in_agent, "with_token_memory": in_chain, "memory_nodes": in_nodes}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_an_explicit_budget_does_not_go_beyond_the_called_models_window(way):
    model = NamedModel(family="openai", model_name="gpt-4o", profile={"max_input_tokens": 3_000})
    WAYS[way](model, TokenMemory(TokenBudget(context_window=20_000)))
    assert 1_000 < tokens_for(model, model.seen[-1]) <= 3_000 - 300 - 60


@pytest.mark.slow
def test_a_fallback_model_with_a_smaller_window_gets_a_request_that_fits():
    first = NamedModel(family="openai", script=[RuntimeError("down")])
    small = NamedModel(family="openai", profile={"max_input_tokens": 3_000})
    agent = create_agent(
        first,
        middleware=[
            ModelFallbackMiddleware(small),
            TokenMemoryMiddleware(TokenMemory(TokenBudget(context_window=20_000))),
        ],
    )
    agent.invoke({"messages": talk()})
    assert tokens_for(small, first.seen[0]) > 6_000
    assert tokens_for(small, small.seen[0]) <= 3_000


@pytest.mark.slow
def test_the_budget_of_a_call_and_a_session_stay_within_the_called_models_window():
    model = NamedModel(family="openai", model_name="gpt-4o", profile={"max_input_tokens": 3_000})
    large = TokenBudget(context_window=16_000)
    with TranscriptStore("sqlite://") as store:
        store.add("s", talk()[:-1])
        store.set_budget("s", large)
        chain = with_token_memory(model, TokenMemory(), store)
        chain.invoke("Go on.", SESSION)
        chain.invoke("Go on.", {"configurable": {"session_id": "s", "token_budget": large}})
    assert max(tokens_for(model, request) for request in model.seen) <= 3_000


def routed(models: list, turns: int) -> tuple[TokenMemoryMiddleware, dict]:
    """Run an agent whose router takes the models in turns."""
    count = iter(range(10_000))

    @wrap_model_call
    def route(request, handler):
        return handler(request.override(model=models[next(count) % len(models)]))

    middleware = TokenMemoryMiddleware()
    agent = create_agent(models[0], middleware=[route, middleware], checkpointer=InMemorySaver())
    state: dict = {}
    for turn in range(turns):
        question = HumanMessage(f"{turn}: " + WORDS * 8, id=f"q{turn}")
        state = agent.invoke({"messages": [question]}, THREAD)
        middleware.memory.close()
    return agent.get_state(THREAD).values["token_memory"][middleware.name] | state


class Writer(NamedModel):
    """Answers, and writes a summary where it is asked for one."""

    def _answer(self, messages, kwargs):
        if "<transcript>" in str(messages[-1].content):
            return AIMessage("## Goal\nThe parcel with two lamps goes to Bonn, not to Cologne.")
        return super()._answer(messages, kwargs)


@pytest.mark.slow
def test_a_router_makes_no_more_summaries_than_one_model():
    profile = {"max_input_tokens": 4_000}

    def model(name: str) -> Writer:
        return Writer(family="openai", model_name=name, profile=profile)

    state = routed([model("gpt-4o")], 120)
    again = routed([model("gpt-4o"), model("gpt-4o-mini")], 120)
    assert state["totals"]["summaries"] > 5
    assert again["totals"]["summaries"] <= state["totals"]["summaries"] + 1
