"""What is bound to the model at the end of a chain: part of its request like any message."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.runnables import Runnable, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase

from langchain_tokenmem.memory import TokenMemory


def bound_kwarg(runnable: Runnable[Any, Any], name: str) -> Any:
    """Return a keyword that is bound to the model at the end of a chain, such as its tools."""
    if isinstance(runnable, RunnableBindingBase):
        return runnable.kwargs.get(name) or bound_kwarg(runnable.bound, name)
    if isinstance(runnable, RunnableSequence):
        found = (bound_kwarg(step, name) for step in reversed(runnable.steps))
        return next((value for value in found if value), None)
    return None


def format_tokens(runnable: Runnable[Any, Any], memory: TokenMemory) -> int:
    """Return the tokens of the form of answer that is bound to a chain's model."""
    response_format = bound_kwarg(runnable, "response_format")
    if not response_format:
        return 0
    counter = memory.counter_of(memory.budget)
    return counter.text(json.dumps(response_format, default=str))
