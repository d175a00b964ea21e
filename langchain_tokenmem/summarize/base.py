"""Interface of summarizers: request, result and protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from langchain_core.messages import BaseMessage


@dataclass(frozen=True)
class SummaryRequest:
    """Request to a summarizer.

    Attributes:
        messages: The messages to fold in, oldest first, never empty.
        max_tokens: Most tokens, by `count_text`, that the answer may have.
        count_text: Counts the tokens of a text.
        prior: Text of the running summary so far; its facts are carried forward.
        instruction: What the caller asks of this one summary.
        sent: The main request as the model has last seen it, for summarizers that reuse its
            cached prefix; `messages` stand in it, and newer ones behind them.
    """

    messages: Sequence[BaseMessage]
    max_tokens: int
    count_text: Callable[[str], int]
    prior: str | None = None
    instruction: str | None = None
    sent: Sequence[BaseMessage] = ()


@dataclass(frozen=True)
class Summary:
    """Result of a summarizer.

    Attributes:
        text: The new running summary.
        model: Who wrote it: a model's name, or `extractive`.
        prompt_version: Version of the prompt or rules.
        calls: Model calls that it took, failed ones included.
        input_tokens: Tokens that the model reports as read.
        output_tokens: Tokens that the model reports as written.
        cost: What the model reports as its price; None where it reports none.
        failures: Why attempts were refused, in order.
    """

    text: str
    model: str
    prompt_version: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    failures: tuple[str, ...] = ()


@runtime_checkable
class Summarizer(Protocol):
    """Folds messages and an earlier summary into one text within a token limit."""

    @property
    def is_quick(self) -> bool:
        """True where a summary is cheap enough to be made inside a turn."""

    def wants(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether a batch is worth a summary while the budget does not force one."""

    def summarize(self, request: SummaryRequest) -> Summary:
        """Return the new running summary.

        Raises:
            SummaryError: When there is none, not even a fallback.
        """

    async def asummarize(self, request: SummaryRequest) -> Summary:
        """Do the same as `summarize` without blocking the event loop."""
