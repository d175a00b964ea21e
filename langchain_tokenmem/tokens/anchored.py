"""`AnchoredCounter`: an estimating counter, corrected by what the provider has reported."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from operator import mul
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.anchoring import Factors, TokensByKind, sum_by_kind
from langchain_tokenmem.core.budget import REPLY_TOKENS
from langchain_tokenmem.tokens.base import Method, TokenCount, TokenCounter
from langchain_tokenmem.tokens.cache import CountCache, message_key
from langchain_tokenmem.tokens.content import message_tokens

ANCHORED_ACCURACY = 0.03
"""Relative error of the next request after three replies (docs/counting.md)."""

# Share of the ASCII characters that are neither letters, blanks nor the marks of sentences: prose
# has about 3 %, Markdown and logs 8 %, code and JSON 15 to 30 %.
_PROSE_MARKS, _DATA_MARKS = 0.05, 0.15
_PLAIN = bytes(range(65, 91)) + bytes(range(97, 123)) + b" \n\t\r.,'"
# A character beyond ASCII is about one token, a character of ASCII a quarter.
_SCRIPT_WEIGHT = 4
_RESULT_TYPES = ("tool", "function")


def text_by_kind(text: str, tokens: float) -> TokensByKind:
    """Return the tokens of a text, divided among the kinds by its characters."""
    plain = text.encode("ascii", "ignore")
    beyond = _SCRIPT_WEIGHT * (len(text) - len(plain))
    whole = len(plain) + beyond
    if not whole:
        return TokensByKind(prose=tokens)
    marks = len(plain.translate(None, _PLAIN)) / (len(plain) or 1)
    share = min(1.0, max(0.0, (marks - _PROSE_MARKS) / (_DATA_MARKS - _PROSE_MARKS)))
    ascii_tokens = tokens * len(plain) / whole
    data = share * ascii_tokens
    return TokensByKind(ascii_tokens - data, data, tokens - ascii_tokens)


def _call_tokens(message: BaseMessage) -> TokensByKind:
    """Return the characters of the tool calls of a message by kind, valid or not."""
    fields = {key: vars(message).get(key) for key in ("tool_calls", "invalid_tool_calls")}
    if not any(fields.values()):
        return TokensByKind()
    texts: list[str] = []

    def gather(text: str) -> int:
        texts.append(text)
        return 0

    message_tokens(AIMessage.model_construct(content="", **fields), gather)
    return sum_by_kind(text_by_kind(text, len(text)) for text in texts)


class KindCounter:
    """Divides the counts of another counter among the kinds of content.

    Args:
        counter: The counter.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self.counter = counter
        self._messages = CountCache()

    def message(self, message: BaseMessage) -> TokensByKind:
        """Return the tokens of a message by kind; their sum is the counter's own count."""
        try:
            key = message_key(message)
        except Exception:  # noqa: BLE001  # anything can stand in a block: no key, counted each time
            key = None
        known: TokensByKind | None = None if key is None else self._messages.get(key)
        if known is None:
            known = self._divided(message)
            if key is not None:
                self._messages.put(key, known)
        return known

    def _divided(self, message: BaseMessage) -> TokensByKind:
        """Divide by characters: the texts are not tokenized a second time."""
        total = self.counter.message(message)
        texts: list[str] = []

        def gather(text: str) -> int:
            texts.append(text)
            return len(text)

        try:
            other = message_tokens(message, gather)
            calls = _call_tokens(message)
        except Exception:  # noqa: BLE001  # what cannot be read is counted, as a whole
            return TokensByKind(other=total)
        characters = sum(map(len, texts))
        if not characters:
            return TokensByKind(other=total)
        other = min(other - characters, total)
        scale = (total - other) / characters
        prose, data, scripts, *_ = sum_by_kind(text_by_kind(text, len(text)) for text in texts)
        tool_prose, tool_data = min(prose, calls.prose), min(data, calls.data)
        if message.type in _RESULT_TYPES:
            tool_prose, tool_data = prose, data
        parts = (prose - tool_prose, data - tool_data, scripts, tool_prose, tool_data)
        return TokensByKind._make([*(part * scale for part in parts), other])


def kind_counter(counter: TokenCounter) -> KindCounter:
    """Return the one `KindCounter` of a counter, so that its cache is shared."""
    found: KindCounter = _kind_counter(counter)
    return found


_kind_counter: Any = functools.lru_cache(maxsize=64)(KindCounter)


class AnchoredCounter:
    """Counts as an estimating counter does, times a factor per kind of content.

    Args:
        kinds: Divides the counts of the estimating counter.
        factors: The factors.
    """

    def __init__(self, kinds: KindCounter, factors: Factors) -> None:
        self._kinds = kinds
        self._factors = factors
        self.id = f"{kinds.counter.id}/" + "/".join(f"{factor:g}" for factor in factors)
        self.method: Method = "anchored"

    def text(self, text: str) -> int:
        """Return the tokens of a bare text."""
        tokens = self._kinds.counter.text(text)
        *parts, _ = text_by_kind(text, tokens)
        return math.ceil(float(sum(map(mul, parts, self._factors))))

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of one message with its frame."""
        return self._factors.tokens(self._kinds.message(message))

    def tools(self, tools: Sequence[Any] | None) -> int:
        """Return the tokens of tool schemas; 0 for none."""
        return round(self._factors.tools * self._kinds.counter.tools(tools))

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of a whole request."""
        total = REPLY_TOKENS + self.tools(tools) + sum(map(self.message, messages))
        return TokenCount(total, "anchored", ANCHORED_ACCURACY)


@functools.lru_cache(maxsize=256)
def anchored_counter(kinds: KindCounter, factors: Factors) -> AnchoredCounter:
    """Return the one counter for a base counter and factors."""
    return AnchoredCounter(kinds, factors)
