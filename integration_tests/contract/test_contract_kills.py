"""Processes are killed in the middle of a turn: what was acknowledged is there, and it goes on."""

from __future__ import annotations

import random

import contract_worker
import pytest
from contract_worker import MOST_QUESTIONS, chat_on, question
from processes import Fork

KILLS = 3
LEAST_ACKNOWLEDGED = 5


def one_kill(way: str, url: str, first: int, after: int) -> list[int]:
    """Let a worker talk, kill it after some answers, and return all that it has acknowledged."""
    worker = Fork(contract_worker.__file__, way, url, first)
    heard = [worker.stdout.readline() for _ in range(after)]
    worker.kill()
    rest, errors = worker.communicate(timeout=60)
    assert "" not in heard, f"the worker died before it was killed: {errors}"
    lines = [*heard, *(line for line in rest.splitlines(keepends=True) if line.endswith("\n"))]
    acknowledged = [int(line) for line in lines]
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
