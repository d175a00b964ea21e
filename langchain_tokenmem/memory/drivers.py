"""The two drivers of the memory's generators: `run` for sync callers, `arun` for async ones.

A generator holds the decisions and the database reads of one operation. It yields what a caller
may have to await: a call of the summarizer, or a job in the background (a summary, a count of the
provider).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Generator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from langchain_tokenmem.background import TimedCalls, in_own_thread, seconds_left, wait_for
from langchain_tokenmem.errors import SummaryError
from langchain_tokenmem.summarize.base import Summarizer, Summary, SummaryRequest
from langchain_tokenmem.summarize.model_call import without_streaming


@dataclass(frozen=True)
class PendingJob:
    """A job in the background that a call waits for: a summary, or a provider's count.

    Attributes:
        job: Ends when its result is there, or could not be made.
        until: Time at which the call goes on without it, by `time.monotonic`, in seconds; the job
            goes on, too.
    """

    job: Future[None]
    until: float

    @property
    def wait_s(self) -> float:
        """Seconds to wait from now on."""
        return max(0.0, self.until - time.monotonic())


T = TypeVar("T")

Work = Generator[SummaryRequest | PendingJob, Summary | None, T]
"""Yields requests to the summarizer and jobs to wait for, and returns its result."""

_Answer = Summary | SummaryError | None


def run(work: Work[T], summarizer: Summarizer, calls: TimedCalls | None = None) -> T:
    """Drive a generator to its end, and return its result.

    Args:
        work: The generator.
        summarizer: Answers its requests.
        calls: Limits how long a summarizer is waited for that may take its time.
    """
    step = _advance(work, None)
    while isinstance(step, SummaryRequest | PendingJob):
        answer: _Answer = None
        if isinstance(step, PendingJob):
            wait_for(step.job, step.wait_s)
        else:
            try:
                with without_streaming():
                    if calls is None or summarizer.is_quick:
                        answer = summarizer.summarize(step)
                    else:
                        answer = calls.run(partial(summarizer.summarize, step))
            except Exception as error:  # noqa: BLE001  # an application's own summarizer may raise
                answer = _as_summary_error(error)
        step = _advance(work, answer)
    return step


async def arun(work: Work[T], summarizer: Summarizer) -> T:
    """Do the same as `run` without blocking the event loop.

    The generator itself runs in a thread of our own: it counts tokens, reads the store and makes
    the view.
    """
    step = await in_own_thread(_advance, work, None)
    while isinstance(step, SummaryRequest | PendingJob):
        answer: _Answer = None
        if isinstance(step, PendingJob):
            await asyncio.wait([asyncio.wrap_future(step.job)], timeout=step.wait_s)
        else:
            try:
                with without_streaming():
                    limit = math.inf if summarizer.is_quick else seconds_left()
                    answer = await asyncio.wait_for(
                        summarizer.asummarize(step), None if limit == math.inf else limit
                    )
            except Exception as error:  # noqa: BLE001  # an application's own summarizer may raise
                answer = _as_summary_error(error)
        step = await in_own_thread(_advance, work, answer)
    return step


def _advance(work: Work[T], answer: _Answer) -> SummaryRequest | PendingJob | T:
    """Hand an answer to a generator; return its next step, or its result."""
    try:
        return work.throw(answer) if isinstance(answer, SummaryError) else work.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


def _as_summary_error(error: Exception) -> SummaryError:
    if isinstance(error, SummaryError):
        return error
    fault = str(error) or "it took too long"  # as of `asyncio.wait_for`
    wrapped = SummaryError(f"The summarizer failed: {type(error).__name__}: {fault}")
    wrapped.__cause__ = error
    return wrapped
