"""A tool of the memory does what it says, or says that it cannot."""

import re
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage, SystemMessage

from langchain_tokenmem import Recall, TokenMemory, memory_tools
from langchain_tokenmem.tools import compact_conversation_tool, read_message_tool
from tests.contract.chats import Chat, Talker, Way, agent_of, calling, in_thread, texts, ways

COMPACT = calling("compact_conversation")


def calling_last(count: int) -> Talker:
    """Return a model that answers so many times before it asks for a compaction."""
    return Talker(answer=[*["Noted."] * count, COMPACT, "Done."])


@pytest.mark.parametrize("keywords", [{}, {"name": "mine"}], ids=["default name", "own name"])
@ways("middleware", "node", "nodes", both=True)
async def test_the_tool_compacts_the_conversation_of_the_only_memory(way: Way, keywords):
    memory = TokenMemory(4_000, background=False)
    tools = [compact_conversation_tool()]
    chat = way.chat(memory, model=calling_last(4), tools=tools, keywords=keywords)
    await chat.talk(4, words=450)
    before, after = await chat.ask("Make room, please.")
    assert "conversation_summary" not in texts(before)
    assert "conversation_summary" in texts(after)
    assert len(texts(after)) < 0.7 * len(texts(before))


@ways("by-hand", "history", "chain")
async def test_outside_of_a_graph_the_tool_says_that_it_does_nothing(way: Way):
    tools = [compact_conversation_tool()]
    chat = way.chat(TokenMemory(4_000), model=calling_last(0), tools=tools)
    assert "Nothing was compacted" in texts(await chat.last("Make room, please."))


def test_in_a_graph_without_a_memory_the_tool_says_that_it_does_nothing():
    model = calling_last(0)
    agent = agent_of(model=model, tools=[compact_conversation_tool()])
    agent.invoke({"messages": "Make room, please."}, in_thread())
    assert "Nothing was compacted" in texts(model.requests[-1])


GRAPHS = ways("middleware", "node", "nodes")


def reading(way: Way, *, stored: bool = False, window: int = 2_000) -> Chat:
    """Return a conversation of an agent that can search its history and read messages again."""
    store = way.store()
    recall = Recall(store) if stored else None
    memory = TokenMemory(window, recall=recall, background=False)
    found = memory_tools(include={"history_search"}, recall=recall)
    return way.chat(memory, store=store, tools=[read_message_tool(), *found])


async def used(chat: Chat, name: str, **arguments: Any) -> str:
    """Let the model call a tool, and return the tool's answer."""
    call = calling(name, f"call-{len(chat.requests)}", **arguments)
    chat.model.answer = [call, "Noted."]
    newest = await chat.last("Use the tool.")
    return next(m.text for m in reversed(newest) if m.type == "tool")


@pytest.mark.slow
@GRAPHS
@pytest.mark.parametrize("stored", [False, True])
async def test_what_a_search_names_a_message_by_opens_that_message(way: Way, stored):
    chat = reading(way, stored=stored)
    await chat.ask([SystemMessage("A note of the system."), HumanMessage("Hello.")])
    await chat.talk(8)
    for by in ("regex", "words"):
        found = await used(chat, "history_search", pattern="P-7003", by=by)
        (line,) = [line for line in found.splitlines() if "user: Question 3 " in line]
        assert "Question 3 " in await used(chat, "read_message", id=line.split()[0], limit=40)


@pytest.mark.slow
@GRAPHS
async def test_the_summary_and_a_marker_name_messages_that_can_be_read(way: Way):
    chat = reading(way)
    await chat.talk(8)
    await chat.ask("The long one. " + "row of a table " * 2_000)
    request = texts(chat.requests[-1])
    (named,) = re.findall(r"full text: message (\S+) \.\.\.", request)
    assert "The long one." in await used(chat, "read_message", id=f"#{named}", limit=40)
    names = re.findall(r"^\[([0-9a-f]{6})\] (?:User|Assistant): ", request, re.MULTILINE)
    assert names
    said = [m.text[:30] for m in chat.said()]
    for name in names:
        read = await used(chat, "read_message", id=name, limit=30)
        assert read.partition("\n")[2] in said


@pytest.mark.slow
@GRAPHS
async def test_a_name_stays_that_of_its_message_when_others_are_removed(way: Way):
    chat = reading(way)
    await chat.talk(3)
    before = await used(chat, "history_search", pattern="Question 2 ")
    first = str(chat.said()[0].id)
    await chat.ask(RemoveMessage(id=first))
    assert await used(chat, "history_search", pattern="Question 2 ") == before
    assert "Question 2 " in await used(chat, "read_message", id=before.split()[0], limit=40)
