"""`explain` shows the list that the model was sent."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool

from langchain_tokenmem import TokenMemory
from tests.contract.chats import ByHand, Chat, Talker, Way, long_turns, texts
from tests.golden.recordings import ROOT, Recording, recorded_agent


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


@pytest.mark.parametrize("way", ["middleware"], indirect=True)
async def test_the_recipe_of_the_docs_shows_what_was_sent(way: Way):
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    (recipe,) = [
        code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if ".explain(" in code
    ]
    chat = way.chat(TokenMemory(2_000, background=False))
    for question in long_turns(30):
        await chat.ask(question)
    known: Any = chat
    names = {
        "agent": known.graph,
        "config": chat.config,
        "memory": chat.memory,
        "model": chat.model,
    }
    exec(recipe, names)  # noqa: S102
    told: Any = names["explanation"]
    assert "<conversation_summary" in texts(chat.requests[-1])
    assert [plain(m) for m in told.messages] == [plain(m) for m in chat.requests[-1]]


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

    def made(tool: dict[str, Any]) -> StructuredTool:
        described = tool["function"]

        def answer(**args: Any) -> str:
            return queued[json.dumps([described["name"], args], sort_keys=True)].pop(0)

        return StructuredTool(
            name=described["name"],
            description=described["description"],
            args_schema=described["parameters"],
            func=answer,
        )

    return [*map(made, recording.tools)]
