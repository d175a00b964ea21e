"""Interface of token counters, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.argument_checks import checked_parts

Method = Literal["exact", "provider", "corrected", "estimate"]


@dataclass(frozen=True)
class TokenCount:
    """A token count with its method and accuracy.

    Attributes:
        tokens: The count.
        method: `exact` (the model's own vocabulary), `provider` (counted by the provider),
            `corrected` (an estimate, corrected by reported usage) or `estimate`.
        accuracy: Documented relative error of the method as a fraction: 0.0 for exact text.
    """

    tokens: int
    method: Method
    accuracy: float

    @property
    def is_estimate(self) -> bool:
        """Whether it is an estimate, corrected or not."""
        return self.method in {"corrected", "estimate"}

    def __int__(self) -> int:
        return self.tokens


class TokenCounter(Protocol):
    """Counts the tokens of texts, messages and tool schemas.

    `count(messages, tools=t)` is the sum of `message(m)` over `messages`, plus `tools(t)`, plus a
    constant for the reply's priming, so that callers can add and subtract messages. Only the
    `count` of a `ProviderCounter` asks a provider.

    Example:
        >>> from langchain_tokenmem.counting import TokenCounter, counter_for
        >>> counter: TokenCounter = counter_for("gpt-4o")
        >>> counter.text("hello")
        1
    """

    @property
    def id(self) -> str:
        """Name of the vocabulary and rules; part of every cache key."""

    @property
    def method(self) -> Method:
        """Method of its counts of messages: see `TokenCount`."""

    def text(self, text: str) -> int:
        """Return the tokens of a text."""

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of one message with its frame."""

    def tools(self, tools: Sequence[Any] | None) -> int:
        """Return the tokens of tool schemas; 0 for none."""

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of a whole request."""


def checked_counter(counter: TokenCounter | None) -> TokenCounter | None:
    """Return a counter of the application if it has the methods of one, or None for None.

    Raises:
        ConfigurationError: When a method is missing.
    """
    if counter is None:
        return None
    line = 'TokenMemory(counter=counter_for("gpt-4o")), or a class like TokenCounter'
    return checked_parts(counter, ("text", "message", "tools"), "counter", line)
