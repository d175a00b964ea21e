"""`explain` shows the list that the model was sent."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware, ModelRequest, dynamic_prompt
from langchain_core.messages import AIMessage, BaseMessage, message_to_dict
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import Recall, TokenMemory, TokenMemoryMiddleware, TranscriptStore
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.graphs import aexplain_call, explain_call
from tests.contract.chats import (
    ByHand,
    Chat,
    Talker,
    Way,
    agent_of,
    calling,
    in_thread,
    long_turns,
    ways,
)

T1 = in_thread()


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: " + "seen " * 80


def working(request: list[BaseMessage]) -> AIMessage | str:
    """Look at a place for every question."""
    call = calling("look", f"c{len(request)}", place=request[-1].text[:20])
    return "Noted." if request[-1].type == "tool" else call


def as_dicts(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    return [*map(message_to_dict, messages)]


async def test_explain_shows_what_the_model_was_sent_in_every_turn(way: Way):
    memory = TokenMemory(1_600, background=False)
    around: dict[str, Any] = {"system": "You are a clerk.", "tools": [look]}
    chat = way.chat(memory, model=Talker(answer=working), **around)
    for question in long_turns(5, words=120):
        sent = await chat.last(question)
        told = memory.for_model(chat.model).explain(chat.said()[:-1], state_of(chat), **around)
        plain = [[(m.type, m.content, m.id) for m in one[1:]] for one in (told.messages, sent)]
        assert plain[0] == plain[1]
    assert len(sent) < len(chat.said()), "something was folded"


@pytest.mark.slow
@ways("middleware", "node", "nodes", both=True)
async def test_every_call_is_explained_from_its_checkpoints(way: Way):
    """Nothing is left in the process but the checkpoints."""
    chat = way.chat(
        lambda _: TokenMemory(1_600),
        model=Talker(answer=working),
        system="You are a clerk.",
        tools=[look],
        saver=InMemorySaver(),
    )
    await chat.talk(8, words=80)
    sent = [*chat.requests]
    later: Any = chat.reopened()
    explain, aexplain = explain_call, aexplain_call
    if way.name == "middleware":
        middleware = TokenMemoryMiddleware(later.memory)
        explain, aexplain = middleware.explain, middleware.aexplain
    changes = 0
    for number, request in enumerate(sent, 1):
        given: Any = (later.graph, chat.config)
        told = (
            await aexplain(*given, call=number) if chat.is_async else explain(*given, call=number)
        )
        assert as_dicts(told.messages) == as_dicts(request), number
        assert (told.session, told.call) == (chat.setting.thread, number)
        changes += told.change is not None
    assert told.hidden.summarized
    assert 0 < changes < len(sent) == 16
    assert len(chat.requests) == len(sent), "the model was not called"
    if way.name != "middleware":
        with pytest.raises(ConfigurationError, match="is not one of them"):
            explain_call(later.graph, chat.config, call=len(sent) + 1)
        with pytest.raises(ConfigurationError, match="'other'"):
            explain_call(later.graph, chat.config, name="other")


@pytest.mark.slow
def test_what_other_middleware_adds_is_explained_too():
    @dynamic_prompt
    def prompt(request: ModelRequest) -> str:
        return f"There are {len(request.state['messages'])} messages."

    model, wide = Talker(), TokenMemoryMiddleware(TokenMemory(1_500), name="wide")
    narrow = TokenMemoryMiddleware(TokenMemory(1_200), name="narrow")
    agent = agent_of(prompt, wide, narrow, model=model)
    for question in long_turns(20):
        agent.invoke({"messages": question}, T1)
    for number, request in enumerate([*model.requests], 1):
        told = narrow.explain(agent, T1, call=number)
        assert as_dicts(told.messages) == as_dicts(request), number
    assert told.hidden.summarized
    assert len(model.requests) == 20
    assert {*agent.get_state(T1).values["token_memory"]} == {"wide", "narrow"}
    counts = [narrow.memory.count(request).tokens for request in model.requests]
    assert max(counts) <= narrow.memory.budget.limit
    with pytest.raises(ConfigurationError, match="no memory named 'other'"):
        TokenMemoryMiddleware(name="other").explain(agent, T1)


def test_without_its_memory_or_thread_a_call_is_not_explained_and_no_model_is_called():
    model, middleware = Talker(), TokenMemoryMiddleware(TokenMemory(8_000))
    agent = agent_of(middleware, model=model)
    agent.invoke({"messages": "Where is it?"}, T1)
    other = TokenMemoryMiddleware(name="other")
    unlike: Any = create_agent(model, checkpointer=agent.checkpointer)
    renamed: Any = create_agent(model, middleware=[other], checkpointer=agent.checkpointer)
    for given, memory in ((unlike, middleware), (renamed, middleware), (agent, other)):
        with pytest.raises(ConfigurationError, match="no memory named"):
            memory.explain(given, T1)
    with pytest.raises(ConfigurationError, match="check its thread_id"):
        middleware.explain(agent, in_thread("typo"))
    with pytest.raises(ConfigurationError, match="The config names no thread: pass"):
        middleware.explain(agent, {})
    with pytest.raises(ConfigurationError, match="no checkpointer: build it with checkpointer="):
        middleware.explain(create_agent(model, middleware=[middleware]), T1)
    assert len(model.requests) == 1


@pytest.mark.slow
def test_what_recall_brought_is_told_with_its_scores():
    with TranscriptStore("sqlite://") as store:
        memory = TokenMemory(1_500, recall=Recall(store))
        middleware = TokenMemoryMiddleware(memory, store=store)
        agent = agent_of(middleware)
        for question in [*long_turns(20), "What was said about parcel P-7003?"]:
            agent.invoke({"messages": question}, T1)
        told = middleware.explain(agent, T1)
    block = told.recalled[-1]
    assert block.messages
    assert {*block.scores} == {*block.messages}
    assert all(0 < score <= 2 for score in block.scores.values())
    assert f"recalled (scores {max(block.scores.values())} to " in str(told)
    assert max(map(len, str(told).splitlines())) <= 80


def test_a_tool_explains_the_thread_that_it_names_and_not_its_own():
    middleware = TokenMemoryMiddleware(TokenMemory(8_000))
    agent = agent_of(middleware)
    agent.invoke({"messages": "Where is it?"}, T1)
    inside = RunnableLambda(lambda _: middleware.explain(agent, T1))
    assert inside.invoke(0, in_thread("support")).session == "t1"


def test_neither_a_greeting_nor_an_answer_of_other_middleware_is_a_call_of_the_model():
    model, middleware = Talker(), TokenMemoryMiddleware(TokenMemory(8_000))
    limit: Any = ModelCallLimitMiddleware(thread_limit=1, exit_behavior="end")
    agent = agent_of(limit, middleware, model=model)
    for said in ([("ai", "How can I help?"), ("human", "Where is it?")], [("human", "And now?")]):
        agent.invoke({"messages": said}, T1)
    (request,) = model.requests
    for number in (None, 2):
        told = middleware.explain(agent, T1, call=number)
        assert (told.call, as_dicts(told.messages)) == (2, as_dicts(request))
    for number in (1, 3):
        with pytest.raises(ConfigurationError, match=f"Reply {number} of the thread was not writ"):
            middleware.explain(agent, T1, call=number)


def test_a_call_without_a_checkpoint_behind_it_is_an_error():
    middleware = TokenMemoryMiddleware(TokenMemory(1_500))
    agent = agent_of(middleware, model=Talker(answer=working), tools=[look])
    agent.invoke({"messages": "Look."}, T1, durability="exit")
    assert len(middleware.explain(agent, T1).messages) == 3
    with pytest.raises(ConfigurationError, match=r"right after call 1\. Retention \(keep_last"):
        middleware.explain(agent, T1, call=1)


def state_of(chat: Chat) -> Any:
    """Return the memory's state where the integration keeps it."""
    if isinstance(chat, ByHand):
        return json.loads(chat._kept[0])
    if not chat.is_graph:
        return chat.store.state(chat.setting.thread).state
    values = chat.graph.get_state(chat.config).values  # type: ignore[attr-defined]
    return values.get("memory") or values.get("token_memory", {}).get("TokenMemoryMiddleware")
