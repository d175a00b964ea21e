"""Recorded conversations whose replies report their requests, counted as another provider counts.

The memory counts with o200k and does not know the model. The provider's own count is cl100k, or
o200k with code 15 % dearer: all that tools are called with, valid JSON or not, and answer
(`tools`), or every line that looks like code (`lines`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.cli.replay import RecordedConversation
from langchain_tokenmem.tokens.resolve import counter_for

DEARER = 0.15
_CODE = re.compile(r"```|[{}();=<>\[\]]")
_SIGNS_OF_CODE = 2

Truth = Callable[[BaseMessage], float]
o200k, cl100k = counter_for(None), counter_for("gpt-4")


def tools_dearer(message: BaseMessage) -> float:
    tokens = o200k.message(message)
    if message.type == "tool":
        return (1 + DEARER) * tokens
    return tokens + DEARER * _calls(message)


def lines_dearer(message: BaseMessage) -> float:
    code = (line for line in message.text.splitlines(keepends=True) if _is_code(line))
    return o200k.message(message) + DEARER * (sum(map(o200k.text, code)) + _calls(message))


def _calls(message: BaseMessage) -> int:
    if not isinstance(message, AIMessage) or not (message.tool_calls or message.invalid_tool_calls):
        return 0
    return o200k.message(message) - o200k.text(message.text)


def _is_code(line: str) -> bool:
    return line.startswith(("    ", "\t")) or len(_CODE.findall(line)) >= _SIGNS_OF_CODE


TRUTHS: dict[str, Truth] = {"cl100k": cl100k.message, "tools": tools_dearer, "lines": lines_dearer}


@dataclass(frozen=True)
class Request:
    """One request: how many replies have reported before, what was counted, what is true."""

    replies: int
    counted: int
    true: int

    @property
    def error(self) -> float:
        return (self.counted - self.true) / self.true


def requests(
    recording: RecordedConversation, truth: Truth, window: int, *, reports: bool = True
) -> Iterator[Request]:
    """Play a recording call by call; each reply reports the true tokens of its request."""
    budget = TokenBudget(context_window=window)
    memory = TokenMemory(budget).for_model(FakeListChatModel(responses=["x"]))
    said: list[BaseMessage] = []
    state: Any = None
    replies = 0
    for message in recording.messages:
        if isinstance(message, AIMessage) and any(m.type != "system" for m in said):
            state, view = memory.compact_and_view(said, state)
            true = round(3 + sum(map(truth, view.messages)))
            yield Request(replies, view.usage.input_tokens, true)
            if reports:
                message = _reporting(message, true)  # noqa: PLW2901
                replies += 1
        said.append(message)


def _reporting(message: AIMessage, tokens: int) -> AIMessage:
    usage = {"input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens + 1}
    return message.model_copy(update={"usage_metadata": usage})


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
