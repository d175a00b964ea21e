"""`CorrectedCounter`: an estimating counter, times what the provider has reported per estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.budget import REPLY_TOKENS
from langchain_tokenmem.tokens.base import Method, TokenCount, TokenCounter

CORRECTED_ACCURACY = 0.06
"""Relative error of 95 of 100 requests after three replies (docs/counting.md)."""


class CorrectedCounter:
    """Counts as an estimating counter does, times a ratio.

    Args:
        counter: The estimating counter.
        ratio: Tokens that the provider has reported per estimated token.
    """

    def __init__(self, counter: TokenCounter, ratio: float) -> None:
        self._counter = counter
        self._ratio = ratio
        self.id = f"{counter.id}/{ratio:g}"
        self.method: Method = "corrected"

    def text(self, text: str) -> int:
        """Return the tokens of a bare text."""
        return math.ceil(self._ratio * self._counter.text(text))

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of one message with its frame."""
        return round(self._ratio * self._counter.message(message))

    def tools(self, tools: Sequence[Any] | None) -> int:
        """Return the tokens of tool schemas; 0 for none."""
        return round(self._ratio * self._counter.tools(tools))

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of a whole request."""
        total = REPLY_TOKENS + self.tools(tools) + sum(map(self.message, messages))
        return TokenCount(total, self.method, CORRECTED_ACCURACY)
