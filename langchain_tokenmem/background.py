"""Background threads: one job for each key at a time, awaited at the end of the process.

A fork takes the memory of a process along, and not its threads. In the child a job of the parent is
over, and a lock that one of its threads held is free.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import os
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

_LOCKS: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


class ForkSafeLock:
    """A lock that is free in the child of a fork, whichever thread of the parent held it."""

    def __init__(self) -> None:
        self.renew()
        self._held = self._lock
        _LOCKS.add(self)

    def renew(self) -> None:
        """Take a new lock; whoever holds the one before lets go of that."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        lock = self._lock
        lock.acquire()
        self._held = lock

    def __exit__(self, *_error: object) -> None:
        self._held.release()


def _renew_locks() -> None:
    for lock in list(_LOCKS):
        lock.renew()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_renew_locks)


@dataclass
class BackgroundJob:
    """A job that runs in a thread of its own.

    Attributes:
        thread: The thread; None until it is started.
        future: Ends with the job; it never fails.
        started: Time of its start, by `time.monotonic`, in seconds.
        again: Whether the work is to be done once more when it ends.
    """

    thread: threading.Thread | None = None
    future: Future[None] = field(default_factory=Future)
    started: float = field(default_factory=time.monotonic)
    again: bool = False

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs; in the child of a fork it does not."""
        return self.thread is not None and self.thread.is_alive()


class BackgroundRunner:
    """Runs jobs in daemon threads, of each key one at a time.

    Daemon threads, because a service that never answers must not keep a process alive; whoever
    owns a runner waits for it at the end of the process, with a bound (`wait_at_exit`).

    Args:
        name: Name of the threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: dict[Hashable, BackgroundJob] = {}
        self._lock = ForkSafeLock()

    def start(
        self, key: Hashable, work: Callable[[], None], *, again: bool = False
    ) -> Future[None]:
        """Start a job, or return the one that runs for this key already.

        Args:
            key: Names the job.
            work: The job; it deals with its own errors.
            again: Where a job runs for this key, have its work done once more behind it.
        """
        with self._lock:
            job = self._alive(key)
            if job is not None:
                job.again = job.again or again
                return job.future
            context = contextvars.copy_context()  # the caller's tracing and counters go along
            job = self._jobs[key] = BackgroundJob()
            job.thread = threading.Thread(
                target=context.run, args=(self._run, key, job, work), name=self._name, daemon=True
            )
            job.thread.start()
        return job.future

    def _run(self, key: Hashable, job: BackgroundJob, work: Callable[[], None]) -> None:
        try:
            is_wanted = True
            while is_wanted:
                work()
                with self._lock:
                    is_wanted, job.again = job.again, False
                    if not is_wanted:
                        self._forget(key, job)
        finally:  # also after a panic of a library, which is no Exception: somebody may wait
            self.give_up(key, job)
            job.future.set_result(None)

    def _forget(self, key: Hashable, job: BackgroundJob) -> None:
        if self._jobs.get(key) is job:
            del self._jobs[key]

    def _alive(self, key: Hashable) -> BackgroundJob | None:
        """Return the job of a key; a fork takes the runner along, and not its threads."""
        job = self._jobs.get(key)
        return job if job is not None and job.is_alive else None

    def job(self, key: Hashable) -> BackgroundJob | None:
        """Return the job that runs for a key, if one does."""
        with self._lock:
            return self._alive(key)

    def give_up(self, key: Hashable, job: BackgroundJob) -> None:
        """Let another job start for a key whose job does not end."""
        with self._lock:
            self._forget(key, job)

    def jobs(self) -> list[BackgroundJob]:
        """Return the jobs that run now."""
        with self._lock:
            return [job for job in self._jobs.values() if job.is_alive]


def in_time(call: Callable[[], T], seconds: float, name: str) -> T:
    """Return what a call returns, which has no time limit of its own that would hold.

    Args:
        call: Goes on in a thread of its own when the time is over.
        seconds: How long it is waited for.
        name: Name of the thread.

    Raises:
        TimeoutError: When it takes longer.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001  it is raised again by `result`
            answer.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return answer.result(seconds)


def wait_for(future: Future[None], seconds: float) -> bool:
    """Wait for a job, at most so many seconds; return whether it has ended."""
    with contextlib.suppress(FutureTimeoutError):
        future.result(max(0.0, seconds))
    return future.done()


def wait_at_exit(wait: Callable[[], object]) -> None:
    """Call a method at the end of the process, as long as its object lives.

    Args:
        wait: The bound method.
    """
    owner, reference = wait.__self__, weakref.WeakMethod(wait)  # type: ignore[attr-defined]

    def call() -> None:
        alive = reference()
        if alive is not None:
            alive()

    atexit.register(call)
    weakref.finalize(owner, atexit.unregister, call)
