"""What a summarizer is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from langchain_core.messages import BaseMessage


@dataclass(frozen=True)
class SummaryRequest:
    """One order to a summarizer.

    Attributes:
        messages: The messages to fold in, oldest first, never empty.
        prior: Text of the running summary so far; its facts are carried forward.
        instruction: What the caller asks of this one summary.
        max_tokens: Most tokens, by `count_text`, that the answer may have.
        count_text: Counts the tokens of a text.
    """

    messages: Sequence[BaseMessage]
    max_tokens: int
    count_text: Callable[[str], int]
    prior: str | None = None
    instruction: str | None = None


class Summarizer(Protocol):
    """Folds messages and an earlier summary into one text within a token limit."""

    @property
    def name(self) -> str:
        """Who writes: a model's name, or `extractive`."""

    @property
    def prompt_version(self) -> str:
        """Version of the prompt or rules."""

    def summarize(self, request: SummaryRequest) -> str:
        """Return the new running summary."""

    async def asummarize(self, request: SummaryRequest) -> str:
        """Return the new running summary, without blocking the event loop."""
