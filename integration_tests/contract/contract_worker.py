"""A process that talks until it is killed, and prints each question that was answered.

Run: python contract_worker.py WAY URL FIRST, where FIRST is the number of its first question.
"""

from __future__ import annotations

import asyncio
import sys

from langchain_core.messages import HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from tests.contract.chats import Chat, Way

MOST_QUESTIONS = 200


def chat_on(name: str, url: str) -> Chat:
    """Return the conversation that all workers of a test hold, one after the other."""
    memory = TokenMemory(TokenBudget(context_window=2_000))
    return Way(name, is_async=False, url=url).chat(memory)


def question(number: int) -> HumanMessage:
    return HumanMessage(f"Question {number}. " + "word " * 80, id=f"q{number}")


async def talk(name: str, url: str, first: int) -> None:
    chat = chat_on(name, url)
    for number in range(first, first + MOST_QUESTIONS):
        await chat.ask(question(number))
        # Printed only after the turn has ended: this is what "acknowledged" means.
        print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(talk(sys.argv[1], sys.argv[2], int(sys.argv[3])))
