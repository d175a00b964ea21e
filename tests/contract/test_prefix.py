"""Between two changes of its prefix each request begins with the one before, byte for byte."""

from __future__ import annotations

from itertools import pairwise

from langchain_tokenmem import TokenBudget, TokenMemory
from tests.contract.chats import Way, long_turns

WINDOW = 2_000
TURNS = 24


async def test_most_requests_begin_with_the_one_before(way: Way):
    memory = TokenMemory(TokenBudget(context_window=WINDOW), background=False)
    chat = way.chat(memory, system="You are a clerk.")
    for question in long_turns(TURNS):
        await chat.ask(question)
    requests = [[m.model_dump(exclude={"id"}) for m in request] for request in chat.requests]
    pairs = list(pairwise(requests))
    kept = sum(after[: len(before)] == before for before, after in pairs)
    assert len(requests) == TURNS
    assert kept < len(pairs), "the window is small: the prefix has to change sometimes"
    assert kept >= 0.7 * len(pairs)
