"""`GuardedCounter`: a counter of the application that can fail without failing the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.argument_checks import checked_parts
from langchain_tokenmem.tokens.base import Method, TokenCount, TokenCounter
from langchain_tokenmem.tokens.counters import (
    EstimateCounter,
    TiktokenCounter,
    is_interruption,
)
from langchain_tokenmem.tokens.provider_counter import ProviderCounter
from langchain_tokenmem.tokens.resolve import counter_for

_T = TypeVar("_T")


class GuardedCounter:
    """Counts with a counter of the application, and by estimate where that one raises.

    From its first failure on its counts are estimates, as a whole: what was and what was not
    counted by the application's own counter is no longer told apart.

    Args:
        counter: The application's counter.
        fallback: Counts where it raises.
        warn: Takes a warning; the same one is to be logged once.
    """

    def __init__(
        self, counter: TokenCounter, fallback: TokenCounter, warn: Callable[[str], None]
    ) -> None:
        self.counter = counter
        self._fallback = fallback
        self._warn = warn
        self._has_failed = False

    @property
    def id(self) -> str:
        """Names vocabulary and rules of the application's counter."""
        return self._try(lambda: str(self.counter.id), lambda: "custom")

    @property
    def method(self) -> Method:
        """Method of the application's counter; `estimate` once it has failed."""
        return "estimate" if self._has_failed else self._try(lambda: self.counter.method, _estimate)

    def text(self, text: str) -> int:
        """Return the tokens of a bare text."""
        return self._count(lambda counter: counter.text(text))

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of one message with its frame."""
        return self._count(lambda counter: counter.message(message))

    def tools(self, tools: Sequence[Any] | None) -> int:
        """Return the tokens of tool schemas; 0 for none."""
        return self._count(lambda counter: counter.tools(tools))

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of a whole request."""
        return self._try(
            lambda: self.counter.count(messages, tools=tools),
            lambda: self._fallback.count(messages, tools=tools),
        )

    def _count(self, count: Callable[[TokenCounter], int]) -> int:
        return self._try(lambda: _checked(count(self.counter)), lambda: count(self._fallback))

    def _try(self, compute: Callable[[], _T], guess: Callable[[], _T]) -> _T:
        try:
            return compute()
        except BaseException as error:
            if is_interruption(error):
                raise
            self._has_failed = True
            self._warn(
                f"The counter {type(self.counter).__name__} failed, {type(error).__name__}: "
                f"{error}"[:300]
                + ". Tokens are estimated from o200k_base."
            )
        return guess()


_NEVER_RAISE = (TiktokenCounter, EstimateCounter, ProviderCounter, GuardedCounter)


def guarded(counter: TokenCounter | None, warn: Callable[[str], None]) -> TokenCounter | None:
    """Return a counter of the application, guarded; one of this package as it is."""
    if counter is None or isinstance(counter, _NEVER_RAISE):
        return counter
    line = 'TokenMemory(counter=counter_for("gpt-4o")), or a class like TokenCounter'
    checked_parts(counter, ("text", "message", "tools"), "counter", line)
    return GuardedCounter(counter, counter_for(None), warn)


def _estimate() -> Method:
    return "estimate"


def _checked(tokens: Any) -> int:
    """Return a count; raise for what is none."""
    if not isinstance(tokens, int) or tokens < 0:
        raise TypeError(f"it counted {tokens!r} tokens")
    return tokens
