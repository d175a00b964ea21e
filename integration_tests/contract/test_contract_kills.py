"""Processes are killed in the middle of a turn: what was acknowledged is there, and it goes on."""

import asyncio
import random

import pytest
from langchain_core.messages import HumanMessage
from processes import Fork

from langchain_tokenmem import TokenBudget, TokenMemory
from tests.contract.chats import Chat, Way

KILLS = 3
LEAST_ACKNOWLEDGED = 5
MOST_QUESTIONS = 200


def chat_on(name: str, url: str) -> Chat:
    """Return the conversation that all processes of a test hold, one after the other."""
    memory = TokenMemory(TokenBudget(context_window=2_000))
    return Way(name, is_async=False, url=url).chat(memory)


def question(number: int) -> HumanMessage:
    return HumanMessage(f"Question {number}. " + "word " * 80, id=f"q{number}")


def talk(name: str, url: str, first: int) -> None:
    """Ask questions, and print the number of each that was answered."""

    async def ask() -> None:
        chat = chat_on(name, url)
        for number in range(first, first + MOST_QUESTIONS):
            await chat.ask(question(number))
            # Printed only after the turn has ended: this is what "acknowledged" means.
            print(number, flush=True)

    asyncio.run(ask())


def one_kill(way: str, url: str, first: int, after: int) -> list[int]:
    """Let a process talk, kill it after some answers, and return all that it has acknowledged."""
    process = Fork(talk, way, url, first)
    heard = [process.stdout.readline() for _ in range(after)]
    acknowledged = [*map(int, process.killed(*heard))]
    assert after <= len(acknowledged) < MOST_QUESTIONS, "it was not killed while it talked"
    return acknowledged


@pytest.mark.parametrize("way", ["chain", "history", "middleware"])
async def test_killed_processes_take_no_acknowledged_turn_along(way: str, url: str):
    chosen = random.Random(way)
    acknowledged: list[int] = []
    first = 0
    for _ in range(KILLS):
        acknowledged += one_kill(way, url, first, chosen.randint(LEAST_ACKNOWLEDGED, 14))
        first = acknowledged[-1] + 10  # beyond the question that it was killed with

    chat = chat_on(way, url)
    (request,) = await chat.ask(question(first))
    assert request[-1].text.rstrip().endswith(question(first).text.rstrip())
    assert chat.memory.count(request).tokens <= chat.memory.budget.limit
    said = chat.said()
    rows = chat.store.rows("t1")
    assert chat.store.state("t1").state or chat.is_graph, "the conversation was folded"
    chat.store.close()

    assert len(acknowledged) >= KILLS * LEAST_ACKNOWLEDGED
    assert [row.seq for row in rows] == [*range(1, len(rows) + 1)]
    for messages in (said, [row.message for row in rows]):
        places = {message.id: n for n, message in enumerate(messages)}
        assert len(places) == len(messages), "a message is there twice"
        for number in [*acknowledged, first]:
            place = places[f"q{number}"]
            assert messages[place].text == question(number).text
            assert messages[place + 1].text == "Noted."
        if way == "chain":  # it stores a question with its answer
            assert [message.type for message in messages] == ["human", "ai"] * (len(messages) // 2)
