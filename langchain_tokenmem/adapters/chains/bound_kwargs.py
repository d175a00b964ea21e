"""Keywords that are bound to the model at the end of a chain, such as its tools."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import (
    Runnable,
    RunnableAssign,
    RunnableParallel,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase


def bound_kwarg(runnable: Runnable[Any, Any], name: str) -> Any:
    """Return a keyword that is bound to the model at the end of a chain, such as its tools."""
    if isinstance(runnable, RunnableBindingBase):
        return runnable.kwargs.get(name) or bound_kwarg(runnable.bound, name)
    inner: list[Runnable[Any, Any]] = []
    if isinstance(runnable, RunnableWithFallbacks):
        inner = [runnable.runnable, *runnable.fallbacks]
    elif isinstance(runnable, RunnableParallel):
        inner = list(runnable.steps__.values())
    elif isinstance(runnable, RunnableAssign):
        inner = [runnable.mapper]
    elif isinstance(runnable, RunnableSequence):
        inner = list(reversed(runnable.steps))
    return next((value for one in inner if (value := bound_kwarg(one, name))), None)
