"""Async twins of sync methods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

Given = ParamSpec("Given")
Owner = TypeVar("Owner")
Result = TypeVar("Result")


def in_thread(
    method: Callable[Concatenate[Owner, Given], Result],
) -> Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Result]]:
    """Return the async twin of a method: the same work in a thread, off the event loop."""

    async def twin(self: Owner, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    twin.__name__ = f"a{method.__name__}"
    twin.__wrapped__ = method  # type: ignore[attr-defined]  # inspect.signature follows it
    twin.__doc__ = f"Do the same as `{method.__name__}` without blocking the event loop."
    return twin
