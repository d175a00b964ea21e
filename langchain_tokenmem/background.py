"""Background threads: one job per key at a time, awaited at the end of the process.

A fork copies the memory of a process, but not its threads. In the child the parent's jobs, even
waiting ones, are over, and a lock held by one of its threads is free.

This module also has what calls to services share: timeouts, a circuit breaker, closing on exit.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterator
from concurrent.futures import CancelledError as FutureCancelledError
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

Given = ParamSpec("Given")
T = TypeVar("T")
R = TypeVar("R")

_PAUSE_S = 60.0
"""Seconds during which a hanging service is not called."""


class _Renewable(Protocol):
    """Something that the child of a fork cannot use in the parent's state."""

    def renew(self) -> None:
        """Reset it, in the child."""


_RENEWED: weakref.WeakSet[_Renewable] = weakref.WeakSet()


class ForkSafeLock:
    """A lock that is free in the child of a fork, whichever thread of the parent held it."""

    def __init__(self) -> None:
        self.renew()
        self._held = self._lock
        _RENEWED.add(self)

    def renew(self) -> None:
        """Replace the lock; a holder of the previous one releases that."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        lock = self._lock
        lock.acquire()
        self._held = lock

    def __exit__(self, *_error: object) -> None:
        self._held.release()


def renew_after_fork(each: _Renewable) -> None:
    """Renew an object in the child of a fork, if it still exists."""
    _RENEWED.add(each)


def _renew_all() -> None:
    for each in list(_RENEWED):
        each.renew()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_renew_all)


_DEADLINE: ContextVar[float] = ContextVar("tokenmem_deadline", default=math.inf)


@contextlib.contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Limit the total time of all waits inside: for a service, a lock, a summary."""
    token = _DEADLINE.set(min(_DEADLINE.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left(most: float = math.inf) -> float:
    """Return how long a wait may take: the rest of `waiting_at_most`, at most `most`."""
    return max(0.0, min(most, _DEADLINE.get() - time.monotonic()))


def in_new_thread(call: Callable[[], T], name: str) -> Future[T]:
    """Start a call in its own daemon thread, in the context of the caller."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # otherwise a cancelled waiter would cancel it
    context = contextvars.copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001  it is raised again by `result`
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


async def in_own_thread(call: Callable[Given, T], *args: Given.args, **kwargs: Given.kwargs) -> T:
    """Return what a call returns, without blocking the event loop.

    Each call has its own thread, not one from a pool: a database, a store or a function of the
    application may hang, and then it must not hold up others.
    """
    return await asyncio.wrap_future(in_new_thread(partial(call, *args, **kwargs), "tokenmem"))


async def at_once(call: Callable[..., T], *args: Any) -> T:
    """Return the result of a call; a coroutine that never waits."""
    return call(*args)


def completed(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that awaits nothing but calls made `at_once`."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise RuntimeError("The coroutine waits for the event loop.")


async def with_calls_on_loop(
    acall: Callable[Given, Coroutine[Any, Any, T]], work: Callable[[Callable[Given, T]], R]
) -> R:
    """Run `work` in a thread, and its calls on this event loop; return its result.

    If the caller is cancelled, so are the calls, and `work` ends at its next one.
    """
    loop = asyncio.get_running_loop()
    begun: list[Future[T]] = []
    is_over = threading.Event()

    def call(*args: Given.args, **kwargs: Given.kwargs) -> T:
        if is_over.is_set():
            raise asyncio.CancelledError
        begun.append(asyncio.run_coroutine_threadsafe(acall(*args, **kwargs), loop))
        if is_over.is_set():  # the caller was cancelled before it could see this call
            begun[-1].cancel()
        try:
            return begun[-1].result()
        except FutureCancelledError:  # an Exception would look like an error of the call
            raise asyncio.CancelledError from None

    try:
        return await in_own_thread(work, call)
    finally:
        is_over.set()
        for one in begun:
            one.cancel()


class TimedCalls:
    """Calls of a service that may hang, each in its own thread, with a timeout.

    A thread cannot be stopped. If the last three calls that timed out still hang, further ones fail
    at once, for a minute: neither turns nor threads pile up behind a dead service.

    Args:
        name: Name of the threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._late: deque[tuple[float, Future[Any]]] = deque(maxlen=3)

    def run(self, call: Callable[[], T], seconds: float = math.inf) -> T:
        """Return what a call returns.

        Args:
            call: The call; it continues in its thread after a timeout.
            seconds: How long to wait for it, within `waiting_at_most`.

        Raises:
            TimeoutError: When it takes longer, or earlier calls hang.
        """
        now, late = time.monotonic(), tuple(self._late)
        if len(late) == self._late.maxlen and not any(
            job.done() or now - given_up > _PAUSE_S for given_up, job in late
        ):
            raise TimeoutError(f"the last {len(late)} calls have not ended yet")
        limit = seconds_left(seconds)
        if limit == math.inf:
            return call()
        future = in_new_thread(call, self._name)
        try:
            return future.result(limit)
        except TimeoutError:
            if future.done():  # its own error, or a result at the last moment
                return future.result()
            self._late.append((time.monotonic(), future))
            raise TimeoutError(f"no answer within {limit:.3g} s") from None


@dataclass
class BackgroundJob:
    """A job that runs in its own thread, or waits for its turn.

    Attributes:
        run: The job, in the context of its requester.
        thread: The thread; None until it is started.
        future: Ends with the job; it never fails.
        started: Time of its start, by `time.monotonic`, in seconds; None until then.
        again: Whether to run the work once more when it ends.
        given_up: Called if it is given up.
        label: Name of what it is for, in the log.
        is_given_up: Whether it is: then its end counts for nothing.
    """

    run: Callable[[], None] = lambda: None
    thread: threading.Thread | None = None
    future: Future[None] = field(default_factory=Future)
    started: float | None = None
    again: bool = False
    given_up: Callable[[], None] = lambda: None
    label: str = ""
    is_given_up: bool = False

    def is_overdue(self, timeout_s: float) -> bool:
        """Return whether it was started at least `timeout_s` seconds ago."""
        return self.started is not None and time.monotonic() - self.started >= timeout_s


_JOB: ContextVar[BackgroundJob | None] = ContextVar("tokenmem_job", default=None)


def is_given_up() -> bool:
    """Return whether this code runs in a job that was given up."""
    job = _JOB.get()
    return job is not None and job.is_given_up


class BackgroundRunner:
    """Runs jobs in daemon threads, one at a time per key.

    Daemon threads, because a service that never answers must not keep a process alive; the owner of
    a runner waits for it at the end of the process, with a timeout (`wait_at_exit`).

    Args:
        name: Name of the threads.
        most: Maximum jobs that run at once, while others wait; None for any number.
    """

    def __init__(self, name: str, most: int | None = None) -> None:
        self._name = name
        self._most = most
        self._lock = ForkSafeLock()
        self.renew()
        _RENEWED.add(self)

    def renew(self) -> None:
        """Forget all jobs: none of them runs in the child of a fork."""
        self._jobs: dict[Hashable, BackgroundJob] = {}
        self._waiting: deque[BackgroundJob] = deque()
        self._running: list[BackgroundJob] = []

    def start(
        self,
        key: Hashable,
        work: Callable[[], None],
        *,
        again: bool = False,
        given_up: Callable[[], None] = lambda: None,
        label: str = "",
    ) -> Future[None]:
        """Start a job, or return the one already running or waiting for this key.

        Args:
            key: Key of the job.
            work: The job; it handles its own errors.
            again: If a job is running for this key, run its work once more after it.
            given_up: Called if `give_up_overdue` gives it up.
            label: Name of what it is for, in the log.
        """
        with self._lock:
            job = self._jobs.get(key)
            if job is not None:
                job.again = job.again or again
                return job.future
            context = contextvars.copy_context()  # keeps the caller's tracing and counters
            context.run(_DEADLINE.set, math.inf)  # but a job ends without its caller
            job = self._jobs[key] = BackgroundJob(given_up=given_up, label=label)
            context.run(_JOB.set, job)
            job.run = partial(context.run, self._run, key, job, work)
            self._waiting.append(job)
            self._start_waiting()
        return job.future

    def _start_waiting(self) -> None:
        """Start the jobs whose turn it is; the caller holds the lock."""
        while self._waiting and (self._most is None or len(self._running) < self._most):
            job = self._waiting.popleft()
            self._running.append(job)
            job.started = time.monotonic()
            job.thread = threading.Thread(target=job.run, name=self._name, daemon=True)
            job.thread.start()

    def _run(self, key: Hashable, job: BackgroundJob, work: Callable[[], None]) -> None:
        try:
            is_wanted = True
            while is_wanted:
                work()
                with self._lock:
                    is_wanted, job.again = job.again, False
                    if not is_wanted:
                        self._forget(key, job)
        finally:  # even after a library's panic, which is not an Exception: a caller may wait
            with self._lock:
                self._forget(key, job)
            job.future.set_result(None)

    def _forget(self, key: Hashable, job: BackgroundJob) -> None:
        """Let other jobs start in the place of one; the caller holds the lock."""
        if self._jobs.get(key) is job:
            del self._jobs[key]
        if job in self._running:
            self._running.remove(job)
        self._start_waiting()

    def job(self, key: Hashable) -> BackgroundJob | None:
        """Return the job running or waiting for a key, if there is one."""
        with self._lock:
            return self._jobs.get(key)

    def give_up_overdue(self, key: Hashable, timeout_s: float) -> int:
        """Give up jobs older than `timeout_s` seconds that block one for a key.

        Returns:
            How many there were: the one for this key, and others if the maximum is running.
        """
        with self._lock:
            is_full = self._most is not None and len(self._running) >= self._most
            found = [
                (name, job)
                for name, job in self._jobs.items()
                if (is_full or name == key) and job.is_overdue(timeout_s)
            ]
            for name, job in found:
                self._forget(name, job)
        for _, job in found:
            job.is_given_up = True
            job.given_up()
        return len(found)

    def jobs(self) -> list[BackgroundJob]:
        """Return the jobs that are running or waiting."""
        with self._lock:
            return list(self._jobs.values())


def wait_for(future: Future[None], seconds: float) -> bool:
    """Wait for a job, at most `seconds`; return whether it has ended."""
    with contextlib.suppress(FutureTimeoutError):
        future.result(max(0.0, seconds))
    return future.done()


def wait_at_exit(wait: Callable[[], object]) -> None:
    """Call a method at the end of the process, if its object still exists.

    Args:
        wait: The bound method.
    """
    owner, method = wait.__self__, wait.__func__  # type: ignore[attr-defined]
    # A WeakMethod that is freed together with its object may print an "Exception ignored".
    reference = weakref.ref(owner)

    def call() -> None:
        alive = reference()
        if alive is not None:
            method(alive)

    atexit.register(call)
    # Otherwise it may run at exit before `call`, if no library created one earlier.
    weakref.finalize(owner, atexit.unregister, call).atexit = False


def in_thread(
    method: Callable[Concatenate[Any, Given], T],
) -> Callable[Concatenate[Any, Given], Coroutine[Any, Any, T]]:
    """Return an async method that does the work of a sync one in a thread."""

    async def wrapper(self: Any, /, *args: Given.args, **kwargs: Given.kwargs) -> T:
        # Looked up by name, because a subclass may override the sync method.
        return await in_own_thread(getattr(self, method.__name__), *args, **kwargs)

    wrapper.__name__ = f"a{method.__name__}"
    wrapper.__wrapped__ = method  # type: ignore[attr-defined]  # inspect.signature follows it
    wrapper.__doc__ = f"Do the same as `{method.__name__}` without blocking the event loop."
    return wrapper


class CircuitBreaker:
    """Opens after a number of failures in a row, and closes again after a while.

    Written here because libraries for this use their own clock and wrap a call, while here the
    answer decides whether an attempt has failed, or it ends after its caller.

    Args:
        attempts: Failures in a row that open it.
        cool_down_s: Seconds that it stays open.
        clock: Returns monotonic seconds.
    """

    def __init__(self, attempts: int, cool_down_s: float, clock: Callable[[], float]) -> None:
        self.attempts = attempts
        self.cool_down_s = cool_down_s
        self._clock = clock
        self._lock = ForkSafeLock()
        self._failures = 0
        self._opened_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether no attempt should be made."""
        with self._lock:
            if self._opened_at is None:
                return False
            if self._clock() - self._opened_at < self.cool_down_s:
                return True
            self._opened_at, self._failures = None, 0
            return False

    def failed(self) -> None:
        """Record a failed attempt, unless it was given up, and so counted, before."""
        if is_given_up():
            return
        with self._lock:
            self._failures += 1
            if self._failures >= self.attempts:
                self._opened_at = self._clock()

    def succeeded(self) -> None:
        """Record a successful attempt, unless it was given up before."""
        if is_given_up():
            return
        with self._lock:
            self._failures, self._opened_at = 0, None


class Closeable:
    """Sync and async context manager for an object with `close` and `aclose`."""

    close: Any
    aclose: Any

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()
