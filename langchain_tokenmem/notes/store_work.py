"""Work on a `BaseStore` as generators, so that sync and async callers share every decision.

A generator yields a batch of operations and takes its results; `run` and `arun` do the batches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from langchain_tokenmem.background import in_own_thread

T = TypeVar("T")

StoreWork = Generator[list[Any], list[Any], T]
"""Yields operations of a `BaseStore`, of our own stores `ChangedItemsOp` too; takes the results."""


def run(work: StoreWork[T], batch: Callable[[list[Any]], list[Any]]) -> T:
    """Do the batches that a generator asks for, and return what it returns."""
    is_done, asked = _step(work, None)
    while not is_done:
        is_done, asked = _step(work, batch(asked) if asked else [])
    return asked  # type: ignore[no-any-return]  # the last one is the result


async def arun(work: StoreWork[T], abatch: Callable[[list[Any]], Awaitable[list[Any]]]) -> T:
    """Do the same as `run` without blocking the event loop: notes are read in a thread of ours."""
    is_done, asked = await in_own_thread(_step, work, None)
    while not is_done:
        results = await abatch(asked) if asked else []
        is_done, asked = await in_own_thread(_step, work, results)
    return asked  # type: ignore[no-any-return]  # the last one is the result


def _step(work: StoreWork[Any], results: list[Any] | None) -> tuple[bool, Any]:
    """Advance a generator; return whether it has ended, and its result or the next batch."""
    try:
        return False, next(work) if results is None else work.send(results)
    except StopIteration as end:
        return True, end.value
