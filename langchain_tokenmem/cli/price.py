"""Price of requests under prompt caching: tokens, common beginnings, what is sent again.

A provider's prompt cache gives the beginning that a request shares with the one before. Of the
call i: R(i) is its request, H(i) the history before it, t(.) tokens, s(i) the tokens of the common
beginning of R(i-1) and R(i). Then

- **price** = sum[0.1 s(i) + t(R(i)) - s(i)] / sum[0.1 t(H(i-1)) + t(H(i)) - t(H(i-1))], relative to
  sending all of the history each time;
- **sent again** = sum[t(R(i)) - s(i) - (t(H(i)) - t(H(i-1)))], each at least 0, as a share of
  sum[t(H(i)) - t(H(i-1))]: tokens at full price that are not new.

A tenth for what the cache gives is the factor of Anthropic's price list.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_tokenmem.cli.literals import holds, said
from langchain_tokenmem.cli.reference_counter import ReferenceCounter, calls_of

CACHED = 0.1
"""Price of a token of the common beginning; every other token of a request costs 1."""


def price(tokens: int, shared: int, *, write: float = 1.0) -> float:
    """Return the price of a request, in tokens at full price.

    Args:
        tokens: Tokens of the request.
        shared: Those of them with which the request before began, too.
        write: Price of every other token.

    Example:
        >>> price(1_000, 900)
        190.0
    """
    return CACHED * shared + write * (tokens - shared)


def sent_again(tokens: int, shared: int, new: int) -> int:
    """Return how many tokens a request pays in full although they are not new.

    Args:
        tokens: Tokens of the request.
        shared: Those of them with which the request before began, too.
        new: Tokens of the history since the request before.
    """
    return max(0, tokens - shared - new)


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message as a provider is sent it.

    Attributes:
        frame: Everything but its content: role, name, calls.
        blocks: Its content, text by text.
        tokens: Its tokens.
        said: Its words, for the search of literals.
    """

    frame: str
    blocks: tuple[str, ...]
    tokens: int
    said: str


class MessageTexts:
    """Texts and token counts of messages, each worked out once.

    Args:
        counter: Counts tokens; the same one for all recordings.
    """

    def __init__(self, counter: ReferenceCounter) -> None:
        self.counter = counter
        # The message is kept beside its texts: an id may be given again otherwise.
        self._sent: dict[int, tuple[BaseMessage, SentMessage]] = {}
        self._holds: dict[str, dict[str, bool]] = {}

    def sent(self, message: BaseMessage) -> SentMessage:
        """Return a message as a provider is sent it."""
        known = self._sent.get(id(message))
        if known is None:
            answers = message.tool_call_id if isinstance(message, ToolMessage) else None
            frame = json.dumps([message.type, message.name, answers, calls_of(message)])
            content = [message.content] if isinstance(message.content, str) else message.content
            blocks = tuple(map(_text_of_block, content))
            tokens = self.counter.message(message)
            known = message, SentMessage(frame, blocks, tokens, said(message))
            self._sent[id(message)] = known
        return known[1]

    def tokens(self, messages: Iterable[BaseMessage]) -> int:
        """Return the tokens of messages."""
        return sum(self.sent(message).tokens for message in messages)

    def holds(self, text: str, literal: str) -> bool:
        """Return whether a text holds a literal as whole words."""
        known = self._holds.setdefault(text, {})
        if literal not in known:
            known[literal] = holds(text, literal)
        return known[literal]

    def any_holds(self, texts: Iterable[str], literal: str) -> bool:
        """Return whether one of the texts holds a literal."""
        return any(self.holds(text, literal) for text in texts)

    def shared(
        self, before: Sequence[BaseMessage], after: Sequence[BaseMessage]
    ) -> tuple[int, int, bool]:
        """Return the common beginning of two requests.

        Returns:
            Its tokens, its tokens in whole blocks, and whether it is all of the former request.
        """
        total = 0
        for old, new in zip(map(self.sent, before), map(self.sent, after), strict=False):
            if (old.frame, old.blocks) != (new.frame, new.blocks):
                loose, whole = self._shared_inside(old, new)
                return total + loose, total + whole, False
            total += new.tokens
        return total, total, len(before) <= len(after)

    def _shared_inside(self, old: SentMessage, new: SentMessage) -> tuple[int, int]:
        whole = 0
        if old.frame != new.frame:
            return 0, 0
        for one, other in zip(old.blocks, new.blocks, strict=False):
            if one != other:
                # Characters are wanted here, not folders.
                common = os.path.commonprefix([one, other])  # noqa: RUF071
                return whole + self.counter.text(common), whole
            whole += self.counter.text(other)
        return whole, whole

    def newest(self, history: Sequence[BaseMessage], tokens: int) -> list[str]:
        """Return the words of the newest messages; of the one at the border its last part.

        The border is found by that message's own characters per token.
        """
        found: list[str] = []
        for message in map(self.sent, reversed(history)):
            if message.tokens > tokens:
                size = len(message.said)
                return [*found, message.said[size - size * max(tokens, 0) // message.tokens :]]
            tokens -= message.tokens
            found.append(message.said)
        return found


def _text_of_block(block: str | dict[Any, Any]) -> str:
    """Return the text of a content block; of another kind all of it."""
    if isinstance(block, str):
        return block
    return str(block["text"]) if block.get("type") == "text" else json.dumps(block)
