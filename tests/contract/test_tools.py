"""A tool of the memory does what it says, or says that it cannot."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage

from langchain_tokenmem import TokenBudget, TokenMemory, compact_conversation_tool
from tests.contract.chats import CHATS, Talker, Way, long_turns, texts

COMPACT = AIMessage(
    "", tool_calls=[{"name": "compact_conversation", "args": {}, "id": "call-compact"}]
)


def calling_last(count: int) -> Talker:
    """Return a model that answers so many times before it asks for a compaction."""
    return Talker(answer=[*["Noted."] * count, COMPACT, "Done."])


@pytest.mark.parametrize("keywords", [{}, {"name": "mine"}], ids=["default name", "own name"])
@pytest.mark.parametrize(
    "way",
    [(name, is_async) for name, chat in CHATS.items() if chat.is_graph for is_async in (0, 1)],
    indirect=True,
)
async def test_the_tool_compacts_the_conversation_of_the_only_memory(way: Way, keywords):
    memory = TokenMemory(TokenBudget(context_window=8_000), background=False)
    tools = [compact_conversation_tool()]
    chat = way.chat(memory, model=calling_last(4), tools=tools, keywords=keywords)
    for question in long_turns(4, words=900):
        await chat.ask(question)
    before, after = await chat.ask("Make room, please.")
    assert "conversation_summary" not in texts(before)
    assert "conversation_summary" in texts(after)
    assert len(texts(after)) < 0.7 * len(texts(before))


@pytest.mark.parametrize("way", ["by-hand", "history", "chain"], indirect=True)
async def test_outside_of_a_graph_the_tool_says_that_it_does_nothing(way: Way):
    tools = [compact_conversation_tool()]
    chat = way.chat(TokenMemory(4_000), model=calling_last(0), tools=tools)
    assert "Nothing was compacted" in texts(await chat.last("Make room, please."))


def test_in_a_graph_without_a_memory_the_tool_says_that_it_does_nothing():
    model = calling_last(0)
    agent = create_agent(model, [compact_conversation_tool()])
    agent.invoke({"messages": "Make room, please."})
    assert "Nothing was compacted" in texts(model.requests[-1])
