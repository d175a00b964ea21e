"""Summaries in the background, one at a time per conversation, each in its own run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from langchain_core.runnables.config import (
    ensure_config,
    get_callback_manager_for_config,
    var_child_runnable_config,
)

from langchain_tokenmem.background import BackgroundJob, BackgroundRunner, wait_at_exit, wait_for
from langchain_tokenmem.core.argument_checks import checked_seconds
from langchain_tokenmem.errors import ConfigurationError, TokenMemoryError
from langchain_tokenmem.events import EventSource, Kind, MemoryEvent
from langchain_tokenmem.summarize.model_call import without_streaming

if TYPE_CHECKING:
    from langchain_tokenmem.memory.engine import Engine

logger = logging.getLogger(__name__)

_STARTED: tuple[Kind, ...] = ("summary", "fold")
"""Events that have a start while a summary is made, the inner one first."""


@dataclass(frozen=True, kw_only=True)
class BackgroundSummaries:
    """Limits of the summaries that are written after the reply.

    Args:
        timeout_s: Seconds after which a summary is given up: another may start, and the process
            may exit without it.
        at_once: Maximum number of concurrent summaries; the others wait for their turn.

    Raises:
        ConfigurationError: When `timeout_s` is not a valid time, or `at_once` is less than 1.

    Example:
        >>> BackgroundSummaries(timeout_s=60).at_once
        8
    """

    timeout_s: float = 120.0
    at_once: int = 8

    def __post_init__(self) -> None:
        checked_seconds("timeout_s", self.timeout_s)
        if type(self.at_once) is not int or self.at_once < 1:
            raise ConfigurationError(
                f"at_once is {self.at_once!r}; it must be a whole number, 1 or more."
            )


class BackgroundSummarizer:
    """Runs summaries in its own threads, never on an event loop, and one at a time per key.

    Args:
        limits: How long a summary may take, and how many may run concurrently.
    """

    def __init__(self, limits: BackgroundSummaries) -> None:
        self.timeout_s = limits.timeout_s
        self._runner = BackgroundRunner("tokenmem-summary", limits.at_once)
        wait_at_exit(self.wait)

    def start(self, key: Hashable, work: Callable[[], None], engine: Engine) -> Future[None]:
        """Start a summary, or return the one in progress for this key.

        Args:
            key: Key of the conversation.
            work: Makes the summary and stores it.
            engine: The engine of the conversation.
        """
        self._runner.give_up_overdue(key, self.timeout_s)
        label = engine.label

        def summarize() -> None:
            try:
                work()
            except TokenMemoryError as error:
                logger.warning("%s: A summary in the background failed: %s", label, error)
            except Exception:  # a thread has no caller to raise it to
                fault = "A summary in the background failed; the history is unchanged."
                logger.exception("%s: %s", label, fault)

        def give_up() -> None:
            fault = f"A summary took more than {self.timeout_s:g} s; it was abandoned."
            logger.warning("%s: %s", label, fault)
            engine.breaker.failed()
            for kind in _STARTED:
                engine.tell("error", MemoryEvent(kind=kind, duration_s=self.timeout_s, error=fault))

        return self._runner.start(key, summarize, given_up=give_up, label=label)

    def running(self, key: Hashable) -> Future[None] | None:
        """Return the summary in progress or waiting for a key, if any."""
        job = self._runner.job(key)
        return None if job is None else job.future

    def extend(self, key: Hashable) -> None:
        """Restart the timeout, because a part of a long summary is done."""
        job = self._runner.job(key)
        if job is not None and job.thread is threading.current_thread():
            job.started = time.monotonic()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for every running or waiting summary, and return whether all have finished.

        Args:
            seconds: Maximum wait; default: `timeout_s`. An overdue summary is not waited for,
                and one still waiting for its turn counts as just started.
        """
        now = time.monotonic()
        end = now + self.timeout_s if seconds is None else now + seconds
        ended = [self._wait_for(job, end, now) for job in self._runner.jobs()]
        return all(ended)

    def _wait_for(self, job: BackgroundJob, end: float, now: float) -> bool:
        bound = self._bound(job, end, now)
        while not wait_for(job.future, bound - time.monotonic()):
            later = self._bound(job, end, now)
            if later <= bound:
                logger.warning("%s: A summary did not end in time; it is dropped.", job.label)
                return False
            bound = later
        return True

    def _bound(self, job: BackgroundJob, end: float, now: float) -> float:
        return min(end, (now if job.started is None else job.started) + self.timeout_s)


@contextmanager
def run_in_background(source: EventSource | None) -> Iterator[None]:
    """Run the body as a separate run, `tokenmem.background`, for tracers and handlers.

    Its metadata names the conversation and, as `tokenmem.run_id`, the run of the call.

    Args:
        source: The conversation; None if unknown.
    """
    with without_streaming():
        config = ensure_config()
        manager = get_callback_manager_for_config(config)
        if not manager.handlers:
            yield
            return
        manager.parent_run_id = None
        known = {key: value for key, value in asdict(source or EventSource()).items() if value}
        manager.add_metadata({f"tokenmem.{key}": value for key, value in known.items()})
        run = manager.on_chain_start(None, known, name="tokenmem.background")
        token = var_child_runnable_config.set({**config, "callbacks": run.get_child()})
        try:
            yield
        except BaseException as error:
            run.on_chain_error(error)
            raise
        else:
            run.on_chain_end({})
        finally:
            var_child_runnable_config.reset(token)
