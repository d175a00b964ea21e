"""Wraps sync methods as async ones that run in a thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from langchain_tokenmem.background import in_own_thread

Given = ParamSpec("Given")
Result = TypeVar("Result")


def in_thread(
    method: Callable[Concatenate[Any, Given], Result],
) -> Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]]:
    """Return an async method that does the work of a sync one in a thread."""

    async def wrapper(self: Any, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        # By its name: a subclass may have a sync one of its own.
        return await in_own_thread(getattr(self, method.__name__), *args, **kwargs)

    wrapper.__name__ = f"a{method.__name__}"
    wrapper.__wrapped__ = method  # type: ignore[attr-defined]  # inspect.signature follows it
    wrapper.__doc__ = f"Do the same as `{method.__name__}` without blocking the event loop."
    return wrapper
