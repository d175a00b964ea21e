"""While the agent works, lines about what it names come back beside the newest tool result."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.types import Shares
from tests.contract.chats import Talker, Way, texts, ways

LISTED = "\n".join(f"P-700{n} opens with QUOKKA-{4_000 + n}" for n in range(10))
FENCE = "<earlier_lines>"
WAYS = ways("by-hand", "middleware", "node", "nodes", both=True)


@tool
def list_parcels() -> str:
    """List the parcels."""
    return LISTED


@tool
def look_up(parcel: str) -> str:
    """Look a parcel up."""
    return f"{parcel} is on its way. " + "The hall is quiet today. " * 60


def summarized(messages: list[BaseMessage]) -> str:
    """Summarize without a word of what was said."""
    return "- Several things were said."


def memory_of(share: float = 0.05) -> TokenMemory:
    budget = TokenBudget(2_000, shares=Shares(working_recall=share))
    return TokenMemory(budget, summarizer=summarized, background=False)


def working(*parcels: str) -> Talker:
    """Return a model that lists the parcels, and looks some up one by one."""
    calls = [("list_parcels", {}), *(("look_up", {"parcel": one}) for one in parcels)]
    answers: list[Any] = [
        AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{number}"}])
        for number, (name, args) in enumerate(calls)
    ]
    return Talker(answer=[*answers, "Done."])


@pytest.mark.slow
@WAYS
async def test_a_line_about_what_the_agent_names_comes_back_beside_the_newest_result(way: Way):
    model = working(*["P-9999"] * 8, "P-7003")
    chat = way.chat(memory_of(), tools=[list_parcels, look_up], model=model)
    await chat.ask("Look after the parcels.")
    before, request = chat.requests[-2:]
    assert "QUOKKA" not in texts(before), "the listing is folded"
    newest = request[-1]
    assert isinstance(newest, ToolMessage)
    own, _, block = newest.text.partition(f"\n\n{FENCE}\n")
    assert own == look_up.invoke({"parcel": "P-7003"})
    assert "P-7003 opens with QUOKKA-4003" in block
    assert block.endswith("</earlier_lines>")
    assert chat.memory.count(request).tokens <= chat.memory.budget.limit
    said = texts(chat.reopened().said())
    assert FENCE not in said, "what was inserted is never stored"

    again = await chat.last("And then?")
    kept = next(message for message in again if message.id == newest.id)
    assert kept.text == newest.text, "it keeps its place, so that the prefix stays"


@pytest.mark.slow
@WAYS
async def test_no_line_comes_back_where_the_share_is_0(way: Way):
    model = working(*["P-9999"] * 8, "P-7003")
    chat = way.chat(memory_of(share=0), tools=[list_parcels, look_up], model=model)
    await chat.ask("Look after the parcels.")
    assert all(FENCE not in texts(request) for request in chat.requests)
