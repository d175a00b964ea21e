"""Interface of token counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from langchain_core.messages import BaseMessage

Method = Literal["exact", "estimate", "provider"]


@dataclass(frozen=True)
class TokenCount:
    """A token count with its method and accuracy.

    Attributes:
        tokens: The count.
        method: `exact` (the model's own vocabulary), `estimate` (no vocabulary) or `provider`
            (asked of the provider).
        accuracy: Documented relative error of the method as a fraction: 0.0 for exact text.
        cached: True when every message came from the cache.
        latency: Seconds spent counting.
    """

    tokens: int
    method: Method
    accuracy: float
    cached: bool
    latency: float

    def __int__(self) -> int:
        return self.tokens


class TokenCounter(Protocol):
    """Counts the tokens of texts, messages and tool schemas. Never raises, never fetches.

    `count(messages, tools=t)` is always the sum of `message(m)` over `messages`, plus `tools(t)`,
    plus a constant for the reply's priming, so that callers can add and subtract messages.
    """

    @property
    def id(self) -> str:
        """Names vocabulary and rules; part of every cache key."""

    @property
    def method(self) -> Method:
        """Method of this counter: `exact`, `estimate` or `provider`."""

    def text(self, text: str) -> int:
        """Return the tokens of a bare text."""

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of one message with its frame."""

    def tools(self, tools: Sequence[Any] | None) -> int:
        """Return the tokens of tool schemas; 0 for none."""

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of a whole request."""
