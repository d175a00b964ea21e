"""Tools of the memory do what they say, and name a message as it can be opened."""

from __future__ import annotations

import re
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage

from langchain_tokenmem import Recall, TokenMemory, memory_tools, read_message_tool
from tests.contract.chats import Chat, Way, long_turns, texts

GRAPHS = pytest.mark.parametrize("way", ["middleware", "node", "nodes"], indirect=True)


def reading(way: Way, *, stored: bool = False, window: int = 2_000) -> Chat:
    """Return a conversation of an agent that can search its history and read messages again."""
    store = way.store()
    recall = Recall(store) if stored else None
    memory = TokenMemory(window, recall=recall, recall_scope="session", background=False)
    found = memory_tools(include={"history_search"}, recall=recall)
    return way.chat(memory, store=store, tools=[read_message_tool(), *found])


async def used(chat: Chat, name: str, **arguments: Any) -> str:
    """Let the model call a tool, and return the tool's answer."""
    call = {"name": name, "args": arguments, "id": f"call-{len(chat.requests)}"}
    chat.model.answer = [AIMessage("", tool_calls=[call]), "Noted."]
    newest = await chat.last("Use the tool.")
    return next(m.text for m in reversed(newest) if m.type == "tool")


@GRAPHS
@pytest.mark.parametrize("stored", [False, True])
async def test_what_a_search_names_a_message_by_opens_that_message(way: Way, stored):
    chat = reading(way, stored=stored)
    await chat.ask([SystemMessage("A note of the system."), HumanMessage("Hello.")])
    for question in long_turns(12):
        await chat.ask(question)
    for by in ("regex", "words"):
        found = await used(chat, "history_search", pattern="P-7003", by=by)
        (line,) = [line for line in found.splitlines() if "user: Question 3 " in line]
        assert "Question 3 " in await used(chat, "read_message", id=line.split()[0], limit=40)


@GRAPHS
async def test_the_summary_and_a_marker_name_messages_that_can_be_read(way: Way):
    chat = reading(way)
    for question in long_turns(12):
        await chat.ask(question)
    await chat.ask("The long one. " + "row of a table " * 2_000)
    request = texts(chat.requests[-1])
    (named,) = re.findall(r"full text: message (\S+) \.\.\.", request)
    assert "The long one." in await used(chat, "read_message", id=named, limit=40)
    ends = re.findall(r'<conversation_summary messages="([^-"]+)-([^"]+)"', request)
    assert ends
    said = [m.text[:30] for m in chat.said()]
    for name in [name for pair in ends for name in pair]:
        read = await used(chat, "read_message", id=name, limit=30)
        assert read.partition("\n")[2] in said


@GRAPHS
async def test_a_name_stays_that_of_its_message_when_others_are_removed(way: Way):
    chat = reading(way)
    for question in long_turns(3):
        await chat.ask(question)
    before = await used(chat, "history_search", pattern="Question 2 ")
    first = str(chat.said()[0].id)
    await chat.ask(RemoveMessage(id=first))
    assert await used(chat, "history_search", pattern="Question 2 ") == before
    assert "Question 2 " in await used(chat, "read_message", id=before.split()[0], limit=40)
