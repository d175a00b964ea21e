"""Token counters: their interface, one with a tiktoken vocabulary, and corrected estimates."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.argument_checks import checked_parts
from langchain_tokenmem.core.budget import REPLY_TOKENS
from langchain_tokenmem.tokens.cache import CountCache, message_key, to_json
from langchain_tokenmem.tokens.content import message_tokens
from langchain_tokenmem.tokens.encodings import count_tokens
from langchain_tokenmem.tokens.media import ImageRule
from langchain_tokenmem.tokens.schemas import FUNCTIONS_END, tool_tokens

if TYPE_CHECKING:
    import tiktoken

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


# Changes whenever a rule of content.py, media.py or schemas.py changes a count.
_RULES = "r2"


class TiktokenCounter:
    """Counts with a tiktoken vocabulary: exact where it is the model's own.

    Messages are counted by the rules of `content`, and each content only once.

    Args:
        encoding: The vocabulary (see `encodings.find_encoding`).
        accuracy: Documented relative error of a text's count as a fraction; 0.0 for exact.
        scale: Factor on every text's count, for models whose vocabulary is coarser.
        image_rule: Formula that counts images.

    Attributes:
        id: Names vocabulary and rules; part of every cache key.
        method: `exact` where the vocabulary is the model's own, else `estimate`.
        accuracy: As given.

    Example:
        >>> counter = TiktokenCounter(find_encoding("o200k_base"))
        >>> counter.count([HumanMessage("hi")]).tokens
        8
    """

    def __init__(
        self,
        encoding: tiktoken.Encoding,
        *,
        accuracy: float = 0.0,
        scale: float = 1.0,
        image_rule: ImageRule = "largest",
    ) -> None:
        factor = f"/x{scale:g}" if scale != 1 else ""
        self.id: Final = f"{encoding.name}/{_RULES}/{image_rule}{factor}"
        self.method: Final[Method] = "estimate" if accuracy else "exact"
        self.accuracy: Final = accuracy
        self._encoding = encoding
        self._scale = scale
        self._image_rule: ImageRule = image_rule
        self._messages = CountCache()
        self._tools = CountCache(512)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.method}>"

    def text(self, text: str) -> int:
        """Return the tokens of a bare text."""
        tokens = count_tokens(self._encoding, text)
        return tokens if self._scale == 1 else math.ceil(tokens * self._scale)

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of one message with its frame."""
        key = message_key(message)
        tokens: int | None = self._messages.get(key)
        if tokens is None:
            tokens = message_tokens(message, self.text, self._image_rule)
            self._messages.put(key, tokens)
        return tokens

    def tools(self, tools: Sequence[Any] | None) -> int:
        """Return the tokens of tool schemas; 0 for none."""
        return FUNCTIONS_END + sum(map(self._tool, tools)) if tools else 0

    def _tool(self, tool: Any) -> int:
        key = _tool_key(tool)
        known: tuple[Any, int] | None = self._tools.get(key)
        if known is None:
            # The tool itself is kept: while it lives, its identity in the key belongs to no other.
            known = (tool, tool_tokens(tool, self.text))
            self._tools.put(key, known)
        return known[1]

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of a whole request.

        Args:
            messages: The messages, in order; may be empty.
            tools: Tools of the request; their schemas are counted.

        Returns:
            The sum of `message(m)`, `tools(tools)` and 3 tokens for the reply's priming.
        """
        tokens = REPLY_TOKENS + self.tools(tools) + sum(map(self.message, messages))
        return TokenCount(tokens, self.method, self.accuracy)


def _tool_key(tool: Any) -> Hashable:
    # Half a second of tracing clients, already there for whoever has tools.
    from langchain_core.tools import BaseTool  # noqa: PLC0415

    if isinstance(tool, dict):
        written = to_json(tool)
        return len(written), hash(written)
    if isinstance(tool, BaseTool):
        return id(tool), tool.name, tool.description, id(tool.args_schema)
    return id(tool)


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
