"""Every integration counts for the model that is called, within that model's window."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware

from langchain_tokenmem import TokenBudget, TokenMemory, TokenMemoryMiddleware
from tests.adapters.integrations import turns
from tests.contract.chats import Talker, Way
from tests.providers import StrictModel

LARGE = TokenBudget(context_window=8_000)
SMALL = 2_000


def tokens(request) -> int:
    return TokenMemory(LARGE).count(request).tokens


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chain", "middleware", "node", "nodes"])
async def test_an_explicit_budget_does_not_go_beyond_the_called_models_window(store, name):
    model = Talker(profile={"max_input_tokens": SMALL})
    keywords = {"model": model} if name in {"node", "nodes"} else {}
    way = Way(name, is_async=False, url="sqlite://")
    chat = way.chat(TokenMemory(LARGE), model=model, store=store, keywords=keywords)
    request = await chat.last([*turns(90), *turns(1, 90)[:1]])
    assert 600 < tokens(request) <= SMALL - SMALL // 10


@pytest.mark.slow
def test_a_fallback_model_with_a_smaller_window_gets_a_request_that_fits():
    first = StrictModel(family="openai", script=[RuntimeError("down")])
    small = StrictModel(family="openai", profile={"max_input_tokens": SMALL})
    middleware = [ModelFallbackMiddleware(small), TokenMemoryMiddleware(TokenMemory(LARGE))]
    create_agent(first, middleware=middleware).invoke({"messages": turns(90)[:-1]})
    assert tokens(first.seen[0]) > SMALL
    assert tokens(small.seen[0]) <= SMALL
