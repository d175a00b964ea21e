"""Every integration counts for the model that is called, within that model's window."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware

from langchain_tokenmem import TokenBudget, TokenMemory, TokenMemoryMiddleware
from tests.adapters.integrations import turns
from tests.providers import StrictModel

LARGE = TokenBudget(context_window=8_000)
SMALL = 2_000


def tokens(request) -> int:
    return TokenMemory(LARGE).count(request).tokens


@pytest.mark.slow
def test_a_fallback_model_with_a_smaller_window_gets_a_request_that_fits():
    first = StrictModel(family="openai", script=[RuntimeError("down")])
    small = StrictModel(family="openai", profile={"max_input_tokens": SMALL})
    middleware = [ModelFallbackMiddleware(small), TokenMemoryMiddleware(TokenMemory(LARGE))]
    create_agent(first, middleware=middleware).invoke({"messages": turns(90)[:-1]})
    assert tokens(first.seen[0]) > SMALL
    assert tokens(small.seen[0]) <= SMALL
