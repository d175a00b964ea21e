"""Async integrations never block the event loop."""

from __future__ import annotations

import subprocess
import sys

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.language_models import FakeListChatModel

from langchain_tokenmem import (
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
    with_token_memory,
)


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store:
        yield store


@pytest.mark.slow
async def test_an_async_chain_does_not_block_the_event_loop(store):
    memory = TokenMemory(TokenBudget(context_window=1_000))
    chain = with_token_memory(FakeListChatModel(responses=["An answer. " * 9]), memory, store)
    config = {"configurable": {"session_id": "s"}}
    with blockbuster_ctx():
        for number in range(30):
            await chain.ainvoke(f"Question {number} about order {4711 + number}.", config)
        history = TokenMemoryChatHistory("s", memory=memory, store=store)
        assert len(await history.afull_history()) == 60
        assert (await history.ausage()).input_tokens <= memory.budget.limit
        await history.acompact()
    assert store.state("s").state["summary"]


FIRST_CALL = """
import asyncio
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_tokenmem import TokenMemoryMiddleware

async def main():
    model = FakeListChatModel(responses=["hello"])
    agent = create_agent(model, middleware=[TokenMemoryMiddleware()])
    with blockbuster_ctx():
        print((await agent.ainvoke({"messages": "hi"}))["messages"][-1].content)

asyncio.run(main())
"""


@pytest.mark.slow
def test_the_first_async_call_of_an_agent_loads_the_vocabulary_off_the_loop():
    done = subprocess.run(  # noqa: S603  # our own words
        [sys.executable, "-c", FIRST_CALL], check=False, capture_output=True, text=True
    )
    assert done.stdout.strip() == "hello", done.stderr
