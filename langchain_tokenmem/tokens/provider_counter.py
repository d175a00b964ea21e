"""`ProviderCounter`: asks the provider of a model how many tokens a whole request has.

A question takes a request to the provider, so few are asked: none twice for the same content, three
at once at most, in threads of their own, and none for a while after three have failed. Whoever
waits for an answer waits two seconds at most and has the estimate then.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from cachetools import TTLCache
from langchain_core.messages import BaseMessage

from langchain_tokenmem.background import (
    BackgroundRunner,
    CircuitBreaker,
    ForkSafeLock,
    in_thread,
    wait_for,
)
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.tokens.cache import request_digest
from langchain_tokenmem.tokens.count_endpoints import PROVIDER_ACCURACY, count_endpoint
from langchain_tokenmem.tokens.counters import Method, TokenCount
from langchain_tokenmem.tokens.resolve import counter_for

logger = logging.getLogger(__name__)

MOST_REQUESTS = 3
"""Requests to a provider at once."""

TIMEOUT_S = 2.0
"""Seconds that a call takes at most, the wait for its turn included."""

WAITED = 0.95
"""Share of them in which it waits; the rest is for the estimate."""

KEPT_ANSWERS = 1_000
KEPT_SECONDS = 300.0
"""Answers that are kept, the most recently used ones, and for how long."""

FAILURES = 3
COOL_DOWN_S = 60.0
"""After so many failures in a row nothing is asked for so many seconds."""


@dataclass(frozen=True)
class CountJob:
    """A question to a provider that a call waits for.

    Attributes:
        key: Names the request.
        job: Ends when the answer is there, or none comes.
        until: Time at which the call goes on without it, by `time.monotonic`, in seconds.
    """

    key: bytes
    job: Future[None]
    until: float


class ProviderCounter:
    """Counts whole requests by the model's provider, and everything else by estimate.

    As a memory's counter it asks the provider when the estimate of a request is near `compact_at`,
    `summarize_at` or the limit, at most once per turn, and uses the estimate if no answer comes in
    time. The parts of the request are scaled so that their sum is the provider's count.

    If there is nothing to ask, `counter_for(model)` counts: OpenAI's models, classes without an
    endpoint, models with fallbacks.

    Args:
        model: A chat model, also inside bindings.
        timeout_s: Seconds that a call waits, at most.
        clock: Monotonic clock, in seconds.

    Raises:
        ConfigurationError: When `timeout_s` is not above 0, or the model is only a name.

    Example:
        >>> memory = TokenMemory(TokenBudget.for_model(model), counter=ProviderCounter(model))
    """

    def __init__(
        self,
        model: Any,
        *,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if model is None or isinstance(model, str):
            raise ConfigurationError(
                f"ProviderCounter takes the chat model that is called, not {model!r}: its own "
                f"client asks. counter_for({model!r}) counts by a name."
            )
        if not isinstance(timeout_s, (int, float)) or not timeout_s > 0:
            raise ConfigurationError(
                f"timeout_s is {timeout_s!r}; it is a time in seconds, over 0."
            )
        self._local = counter_for(model)
        self._endpoint = None if self._local.method == "exact" else count_endpoint(model)
        self._wait_s = WAITED * timeout_s
        self._breaker = CircuitBreaker(FAILURES, COOL_DOWN_S, clock)
        self._runner = BackgroundRunner("tokenmem-count", MOST_REQUESTS)
        # None stands for a request that was asked for without an answer.
        self._answers: TTLCache[bytes, int | None] = TTLCache(KEPT_ANSWERS, KEPT_SECONDS, clock)
        self._lock = ForkSafeLock()

    def __repr__(self) -> str:
        return f"<ProviderCounter asks {getattr(self._endpoint, 'provider', 'nobody')}>"

    @property
    def id(self) -> str:
        """Name of the vocabulary and rules; part of every cache key."""
        return self._local.id

    @property
    def method(self) -> Method:
        """Method of its counts of messages: `exact` or `estimate`."""
        return self._local.method

    @property
    def asks(self) -> bool:
        """Whether there is a provider to ask."""
        return bool(self._endpoint)

    def text(self, text: str) -> int:
        """Return the tokens of a text, without asking."""
        return self._local.text(text)

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of one message with its frame, without asking."""
        return self._local.message(message)

    def tools(self, tools: Sequence[Any] | None) -> int:
        """Return the tokens of tool schemas, 0 for none, without asking."""
        return self._local.tools(tools)

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of a whole request, as the provider counts it.

        It waits at most `timeout_s`. On an event loop it does not ask: use `acount`.

        Args:
            messages: The request, its system message included.
            tools: Its tools.

        Returns:
            The provider's count, or the estimate, for which `is_estimate` is true.
        """
        started = None if _running_loop() else self.start(messages, tools)
        if started is not None:
            wait_for(started.job, started.until - time.monotonic())
        return self._result(messages, tools, started)

    acount = in_thread(count)

    def start(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> CountJob | None:
        """Start asking for a request, and return the job to wait for.

        Args:
            messages: The request.
            tools: Its tools.

        Returns:
            The job, or None if the answer is known, did not come before, or is not to be asked for
            now. Pass it to `settle` after the wait.
        """
        until = time.monotonic() + self._wait_s
        if self._endpoint is None or not self._endpoint.can_count(messages):
            return None
        key = self._key(messages, tools)
        with self._lock:
            if key in self._answers:
                return None
        if self._breaker.is_open or self._is_stuck():
            return None
        work = functools.partial(self._ask, key, tuple(messages), tools, until)
        return CountJob(key, self._runner.start(key, work), until)

    def settle(self, started: CountJob) -> None:
        """Note whether an answer came in time; otherwise it is not asked for again."""
        with self._lock:
            if started.key in self._answers:
                return
            self._answers[started.key] = None
        job = self._runner.job(started.key)
        # One that has only waited for its turn says nothing about the provider.
        if job is not None and job.is_overdue(self._wait_s / 2):
            self._fail(f"no answer in {self._wait_s:g} s")

    def known(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int | None:
        """Return the known count of a request by the provider, or None."""
        if self._endpoint is None:
            return None
        key = self._key(messages, tools)
        with self._lock:
            tokens: int | None = self._answers.get(key)
        return tokens

    def _result(
        self,
        messages: Sequence[BaseMessage],
        tools: Sequence[Any] | None,
        started: CountJob | None,
    ) -> TokenCount:
        if started is not None:
            self.settle(started)
        tokens = self.known(messages, tools)
        count = self._local.count(messages, tools=tools)
        if tokens is None or self._endpoint is None:
            return count
        estimated = 0 if self._endpoint.counts_tools else self._local.tools(tools)
        accuracy = max(PROVIDER_ACCURACY, count.accuracy * estimated / tokens)
        return TokenCount(tokens, "provider", accuracy)

    def _is_stuck(self) -> bool:
        """Return whether all places are taken by requests that do not end."""
        jobs = self._runner.jobs()
        return sum(job.is_overdue(self._wait_s) for job in jobs) >= MOST_REQUESTS

    def _ask(
        self,
        key: bytes,
        messages: Sequence[BaseMessage],
        tools: Sequence[Any] | None,
        until: float,
    ) -> None:
        """Ask the provider, and keep its answer; the work of a job."""
        began = time.monotonic()
        if self._endpoint is None or began >= until or self._breaker.is_open:
            return  # nobody waits any more, or others have failed meanwhile
        with self._lock:
            if key in self._answers:
                return  # answered between another caller's look and its start of this job
        try:
            tokens = self._endpoint.tokens(messages, tools, self._wait_s)
        except Exception as error:  # noqa: BLE001  # libraries of providers raise anything
            with self._lock:
                self._answers.setdefault(key, None)
            self._fail(f"{type(error).__name__}: {error}"[:200])
            return
        if not self._endpoint.counts_tools:
            tokens += self._local.tools(tools)
        with self._lock:
            self._answers[key] = tokens
        if time.monotonic() - began < self._wait_s:
            self._breaker.succeeded()

    def _fail(self, why: str) -> None:
        self._breaker.failed()
        _report_failure(repr(self), why)

    def _key(self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None) -> bytes:
        names = (self._endpoint.provider, self._endpoint.model) if self._endpoint else ()
        return request_digest(messages, tools, *names)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


@functools.lru_cache(maxsize=64)
def _report_failure(counter: str, why: str) -> None:
    logger.warning("Tokens are estimated, %s got no count: %s", counter, why)
