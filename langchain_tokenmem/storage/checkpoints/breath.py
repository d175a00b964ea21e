"""Long work off the event loop, in stretches, so that the loop is not held up for their sum."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

AT_A_STRETCH = 200
"""Messages worked on before other threads get their turn: less than a millisecond."""

Given = ParamSpec("Given")
Result = TypeVar("Result")

_beside_a_loop: ContextVar[bool] = ContextVar("tokenmem_beside_a_loop", default=False)


def breathe() -> None:
    """Let an event loop run that would otherwise wait for Python's switch interval.

    It takes some 80 microseconds, so that nothing is done where no loop waits.
    """
    if _beside_a_loop.get():
        time.sleep(0)


async def off_the_loop(
    call: Callable[Given, Result], /, *given: Given.args, **options: Given.kwargs
) -> Result:
    """Return what a call returns that is made in a thread and pauses for the event loop."""

    def made() -> Result:
        _beside_a_loop.set(True)  # in the copy of the context that the thread has
        return call(*given, **options)

    return await asyncio.to_thread(made)
