"""The one summarizing model of `price.py`: a script that cites lines of its prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import PrivateAttr

from langchain_tokenmem.cli.measures import ReferenceCounter, find_literals, plain, plain_text

SUMMARY_TOKENS = 300

PIECE = 200
"""Characters of a cited line at most; a longer one is cited in pieces."""

HEADING = "## Done"
"""A heading makes the cited lines notes for systems that refuse an answer without one."""

TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "act", "parameters": {}}}]
"""Tools of every request. Schemas stand before everything else, so a summarizer that does not
send them shares nothing with the main request."""

_WORDS = re.compile(r"(?:at most|under|no more than) (\d+) words", re.IGNORECASE)
_TOKENS_PER_WORD = 1 / 0.6


@dataclass(frozen=True)
class SummaryCall:
    """A call of the summarizing model.

    Attributes:
        prompt: What it read.
        text: What it wrote.
        with_tools: Whether the agent's tools stood in the request.
    """

    prompt: list[BaseMessage]
    text: str
    with_tools: bool


class CitingModel(BaseChatModel):
    """Writes the lines of its prompt that have the most literals, in their order.

    300 tokens, or as many as the last "at most n words" of the prompt allows.

    Args:
        counter: Counts what it writes.
        profile: Says what its window is, as `{"max_input_tokens": n}`.
    """

    counter: Any
    _calls: list[SummaryCall] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "citing"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Return the model with tools in its requests."""
        return self.bind(tools=list(tools), **kwargs)

    def take_calls(self) -> list[SummaryCall]:
        """Return the calls since the last time."""
        taken, self._calls = self._calls, []
        return taken

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002  # the interface of chat models
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        text = cite([plain_text(message) for message in messages], self.counter)
        self._calls.append(SummaryCall(list(messages), text, kwargs.get("tools") == TOOLS))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def cite(texts: Sequence[str], counter: ReferenceCounter) -> str:
    """Return the lines of texts with the most literals, `SUMMARY_TOKENS` or what the last asks for.

    Example:
        >>> cite(["The file is src/app.py.", "Hello."], ReferenceCounter(len))
        '## Done\\n- The file is src/app.py.'
    """
    asked = _WORDS.findall(texts[-1]) if texts else []
    most = int(int(asked[-1]) * _TOKENS_PER_WORD) if asked else SUMMARY_TOKENS
    lines = dict.fromkeys(
        piece.strip() for text in texts for line in text.split("\n") for piece in pieces_of(line)
    )
    ranked = sorted(enumerate(lines), key=lambda one: -_literal_count(one[1]))
    left = min(most, SUMMARY_TOKENS) - counter.text(HEADING)
    chosen: list[tuple[int, str]] = []
    for place, line in ranked:
        size = counter.text(f"\n- {line}") + 1
        if not _literal_count(line) or size > left:
            break
        chosen.append((place, line))
        left -= size
    return "\n".join([HEADING, *(f"- {line}" for _, line in sorted(chosen))])


def pieces_of(line: str) -> list[str]:
    """Return a line in pieces of at most `PIECE` characters, cut at spaces where it has some."""
    found = []
    while len(line) > PIECE:
        end = line.rfind(" ", PIECE // 2, PIECE) + 1 or PIECE
        found.append(line[:end])
        line = line[end:]
    return [*found, line]


@cache
def _literal_count(line: str) -> int:
    return len(find_literals(plain(line)))
