"""Background summaries: threads of our own, one job for each conversation, awaited at exit."""

from __future__ import annotations

import atexit
import contextvars
import logging
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass

from langchain_tokenmem.errors import ConfigurationError, TokenMemoryError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Running:
    future: Future[None]
    started: float


def checked_seconds(name: str, value: float) -> float:
    """Return a time that can be waited.

    Raises:
        ConfigurationError: When it is no number, or less than nothing.
    """
    if not isinstance(value, (int, float)) or not value >= 0:
        raise ConfigurationError(f"{name} is {value!r}; it is a time in seconds, 0 or more.")
    return value


class BackgroundSummarizer:
    """Runs jobs in threads of its own, never on an event loop; of each key one at a time.

    Daemon threads, because a provider that never answers must not keep a process alive; at the
    end of the process they are awaited like everywhere else, with the same bound.

    Args:
        timeout_s: Seconds after which a job is given up: another may start, and the process may
            end without it.
        on_timeout: Called for each job that is given up.

    Raises:
        ConfigurationError: When `timeout_s` is no time.
    """

    def __init__(self, timeout_s: float, on_timeout: Callable[[], None]) -> None:
        self.timeout_s = checked_seconds("summary_timeout_s", timeout_s)
        self._on_timeout = on_timeout
        self._running: dict[Hashable, _Running] = {}
        self._lock = threading.Lock()
        _at_exit(self)

    def start(self, key: Hashable, work: Callable[[], None]) -> Future[None]:
        """Start a job, or return the one that runs for this key already."""
        with self._lock:
            known = self._running.get(key)
            if known is not None and not self._is_overdue(known):
                return known.future
            future: Future[None] = Future()
            self._running[key] = _Running(future, time.monotonic())
        context = contextvars.copy_context()  # tracing and usage counters of the caller go along
        threading.Thread(
            target=context.run,
            args=(self._run, key, future, work),
            name="tokenmem-summary",
            daemon=True,
        ).start()
        return future

    def _is_overdue(self, job: _Running) -> bool:
        if job.future.done() or time.monotonic() - job.started < self.timeout_s:
            return False
        logger.warning("A summary has taken over %s s; it is given up.", self.timeout_s)
        self._on_timeout()
        return True

    def _run(self, key: Hashable, future: Future[None], work: Callable[[], None]) -> None:
        try:
            work()
        except TokenMemoryError as error:
            logger.warning("A summary in the background failed: %s", error)
        except Exception:  # a thread has nobody above it to tell
            logger.exception("A summary in the background failed; the history is as it was.")
        finally:
            with self._lock:
                known = self._running.get(key)
                if known is not None and known.future is future:
                    del self._running[key]
            future.set_result(None)

    def running(self, key: Hashable) -> Future[None] | None:
        """Return the job that runs for a key, if one does."""
        with self._lock:
            known = self._running.get(key)
            return known.future if known is not None else None

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for every job that runs now, and return whether all have ended.

        Args:
            seconds: How long at most; default: until each is overdue.
        """
        with self._lock:
            jobs = list(self._running.values())
        begun = time.monotonic()
        all_ended = True
        for job in jobs:
            end = job.started + self.timeout_s
            bound = min(end, begun + seconds) if seconds is not None else end
            try:
                job.future.result(max(0.0, bound - time.monotonic()))
            except FutureTimeoutError:
                logger.warning("A summary did not end in time; it is dropped.")
                all_ended = False
        return all_ended


def _at_exit(jobs: BackgroundSummarizer) -> None:
    reference = weakref.ref(jobs)

    def wait() -> None:
        alive = reference()
        if alive is not None:
            alive.wait()

    atexit.register(wait)
    weakref.finalize(jobs, atexit.unregister, wait)
