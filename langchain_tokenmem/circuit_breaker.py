"""Circuit breaker: a service that keeps failing is not called for a while."""

from __future__ import annotations

from collections.abc import Callable

from langchain_tokenmem.background import ForkSafeLock


class CircuitBreaker:
    """Opens after so many failures in a row, and closes again after a while.

    Written here because the libraries for it read a clock of their own and wrap a call, while
    attempts here are steps of a generator that knows no call, or end behind their caller's back.

    Args:
        attempts: Failures in a row that open it.
        cool_down_s: Seconds that it stays open.
        clock: Gives seconds that only grow.
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
        """True while no attempt should be made."""
        with self._lock:
            if self._opened_at is None:
                return False
            if self._clock() - self._opened_at < self.cool_down_s:
                return True
            self._opened_at, self._failures = None, 0
            return False

    def failed(self) -> None:
        """Note a failed attempt."""
        with self._lock:
            self._failures += 1
            if self._failures >= self.attempts:
                self._opened_at = self._clock()

    def succeeded(self) -> None:
        """Note a good one."""
        with self._lock:
            self._failures, self._opened_at = 0, None
