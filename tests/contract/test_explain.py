"""`explain` shows the list that the model was sent."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, dynamic_prompt
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    message_to_dict,
)
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tokenmem import Recall, TokenMemory, TokenMemoryMiddleware, TranscriptStore
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.graphs import aexplain_call, explain_call
from tests.contract.chats import ByHand, Chat, Talker, Way, long_turns
from tests.golden.recordings import Recording, recorded_agent


@pytest.mark.slow
async def test_explain_shows_what_a_recorded_agent_was_sent_in_every_turn(way: Way):
    recording = recorded_agent()
    said = recording.messages[:36]  # its first five turns
    answers = [m for m in said if isinstance(m, AIMessage)]
    memory = TokenMemory(5_000, background=False)
    chat = way.chat(
        memory,
        model=Talker(answer=list(answers)),
        system=recording.system,
        tools=replayed_tools(recording),
    )
    for question in said:
        if isinstance(question, HumanMessage):
            await chat.ask(question)
            told = memory.for_model(chat.model).explain(
                chat.said()[:-1],
                state_of(chat),
                system=recording.system,
                tools=list(chat.setting.tools),
            )
            sent = chat.requests[-1]
            assert [plain(m) for m in told.messages] == [plain(m) for m in sent]
    assert len(chat.requests) == len(answers)
    assert len(chat.requests[-1]) < len(chat.said()), "something was folded"


CHECKPOINTED = [(name, is_async) for name in ("middleware", "node") for is_async in (False, True)]


@pytest.mark.slow
@pytest.mark.parametrize("way", [*CHECKPOINTED, ("nodes", False)], indirect=True)
async def test_every_call_of_a_recorded_agent_is_explained_from_its_checkpoints(way: Way):
    """Nothing is left in the process but the checkpoints."""
    recording = recorded_agent()
    answers = [m for m in recording.messages if isinstance(m, AIMessage)]
    chat = way.chat(
        lambda _: TokenMemory(5_000),
        model=Talker(answer=list(answers)),
        system=recording.system,
        tools=replayed_tools(recording),
        saver=InMemorySaver(),
    )
    for question in recording.messages:
        if isinstance(question, HumanMessage):
            await chat.ask(question)
    sent = [*chat.requests]
    assert len(sent) == len(answers)

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
        assert [*map(message_to_dict, told.messages)] == [*map(message_to_dict, request)], number
        assert (told.session, told.call) == (chat.setting.thread, number)
        changes += told.change is not None
    assert told.hidden.summarized
    assert 0 < changes < len(sent)
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
    agent = create_agent(model, middleware=[prompt, wide, narrow], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t1"}}
    for question in long_turns(20):
        agent.invoke({"messages": question}, config)
    for number, request in enumerate([*model.requests], 1):
        told = narrow.explain(agent, config, call=number)
        assert [*map(message_to_dict, told.messages)] == [*map(message_to_dict, request)], number
    assert told.hidden.summarized
    assert len(model.requests) == 20
    with pytest.raises(ConfigurationError, match="no memory named 'other'"):
        TokenMemoryMiddleware(name="other").explain(agent, config)


def test_without_its_memory_a_call_is_not_explained_and_no_model_is_called():
    model, middleware = Talker(), TokenMemoryMiddleware(TokenMemory(8_000))
    agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t1"}}
    agent.invoke({"messages": "Where is it?"}, config)
    other = TokenMemoryMiddleware(name="other")
    unlike: Any = create_agent(model, checkpointer=agent.checkpointer)
    renamed: Any = create_agent(model, middleware=[other], checkpointer=agent.checkpointer)
    for given, memory in ((unlike, middleware), (renamed, middleware), (agent, other)):
        with pytest.raises(ConfigurationError, match="no memory named"):
            memory.explain(given, config)
    with pytest.raises(ConfigurationError, match="check its thread_id"):
        middleware.explain(agent, {"configurable": {"thread_id": "typo"}})
    assert len(model.requests) == 1


@pytest.mark.slow
def test_what_recall_brought_is_told_with_its_scores():
    with TranscriptStore("sqlite://") as store:
        memory = TokenMemory(1_500, recall=Recall(store))
        middleware = TokenMemoryMiddleware(memory, store=store)
        agent = create_agent(Talker(), middleware=[middleware], checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "t1"}}
        for question in [*long_turns(20), "What was said about parcel P-7003?"]:
            agent.invoke({"messages": question}, config)
        told = middleware.explain(agent, config)
    block = told.recalled[-1]
    assert block.messages
    assert {*block.scores} == {*block.messages}
    assert all(0 < score <= 2 for score in block.scores.values())
    assert f"recalled (scores {max(block.scores.values())} to " in str(told)
    assert max(map(len, str(told).splitlines())) <= 80


def test_a_tool_explains_the_thread_that_it_names_and_not_its_own():
    middleware = TokenMemoryMiddleware(TokenMemory(8_000))
    agent = create_agent(Talker(), middleware=[middleware], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t1"}}
    agent.invoke({"messages": "Where is it?"}, config)
    inside = RunnableLambda(lambda _: middleware.explain(agent, config))
    assert inside.invoke(0, {"configurable": {"thread_id": "support"}}).session == "t1"


def test_a_call_without_a_checkpoint_behind_it_is_an_error():
    @tool
    def look() -> str:
        """Look."""
        return "Seen."

    calls = [AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1"}]), AIMessage("Ok.")]
    middleware = TokenMemoryMiddleware(TokenMemory(1_500))
    model = Talker(answer=calls)
    agent = create_agent(model, [look], middleware=[middleware], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t1"}}
    agent.invoke({"messages": "Look."}, config, durability="exit")
    assert len(middleware.explain(agent, config).messages) == 3
    with pytest.raises(ConfigurationError, match=r"right after call 1\. Retention \(keep_last"):
        middleware.explain(agent, config, call=1)


def plain(message: BaseMessage) -> tuple[Any, ...]:
    calls = getattr(message, "tool_calls", None)
    return message.type, message.content, calls, getattr(message, "tool_call_id", None)


def state_of(chat: Chat) -> Any:
    """Return the memory's state where the integration keeps it."""
    if isinstance(chat, ByHand):
        return json.loads(chat._kept[0])
    if not chat.is_graph:
        return chat.store.state(chat.setting.thread).state
    values = chat.graph.get_state(chat.config).values  # type: ignore[attr-defined]
    return values.get("memory") or values.get("token_memory", {}).get("TokenMemoryMiddleware")


def replayed_tools(recording: Recording) -> list[StructuredTool]:
    """Return the recording's tools; they answer as they did."""
    results = {m.tool_call_id: m.text for m in recording.messages if isinstance(m, ToolMessage)}
    queued: dict[str, list[str]] = defaultdict(list)
    for message in recording.messages:
        for call in getattr(message, "tool_calls", ()):
            key = json.dumps([call["name"], call["args"]], sort_keys=True)
            queued[key].append(results[call["id"]])

    def made(schema: dict[str, Any]) -> StructuredTool:
        described = schema["function"]

        def answer(**args: Any) -> str:
            return queued[json.dumps([described["name"], args], sort_keys=True)].pop(0)

        return StructuredTool(
            name=described["name"],
            description=described["description"],
            args_schema=described["parameters"],
            func=answer,
        )

    return [*map(made, recording.tools)]
