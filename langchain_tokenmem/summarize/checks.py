"""Validation of a model's answer: anything that is no summary is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.errors import SummaryError
from langchain_tokenmem.summarize.base import SummaryRequest

MIN_CHARACTERS = 20
"""A shorter message, or answer to a batch worth summarizing, says nothing."""

_WORTH = 2_000
"""Characters from which a batch must not shrink to nearly nothing."""

_CUT_OFF = frozenset({"length", "max_tokens", "model_length", "max_output_tokens"})
_APOSTROPHE = "['\u2019]"
_CHAT = re.compile(
    r"^\s*(?:(?:assistant|ai|user|human)\s*:"
    rf"|(?:i|i{_APOSTROPHE}(?:m|ll|ve|d)|let me|let{_APOSTROPHE}s|you{_APOSTROPHE}re welcome"
    r"|sure|of course|okay|ok|great|certainly|absolutely|thanks?|sorry|hello|hi|yes|no)\b)",
    re.IGNORECASE,
)


def check_answer(answer: BaseMessage, request: SummaryRequest, sections: Sequence[str]) -> str:
    """Return the text of an answer that is a summary.

    Args:
        answer: The answer of the model.
        request: The request for the summary.
        sections: Headings of which one makes notes of any text; empty for free form.

    Raises:
        SummaryError: When it is blank, too short, over the limit, cut off, a tool call, or the
            continuation of the chat.
    """
    if isinstance(answer, AIMessage) and (answer.tool_calls or answer.invalid_tool_calls):
        raise SummaryError("the answer is a tool call")
    metadata = answer.response_metadata
    for key in ("finish_reason", "stop_reason", "done_reason"):
        if str(metadata.get(key, "")).lower() in _CUT_OFF:
            raise SummaryError(f"the answer was cut off ({key} {metadata[key]})")
    text = text_of(answer).strip()
    if not re.search(r"\w", text):
        raise SummaryError("the answer is blank")
    total = sum(len(text_of(message)) for message in request.messages)
    if len(text) < MIN_CHARACTERS and total > _WORTH:
        raise SummaryError(f"the answer is too short: {text!r}")
    lines = {line.strip(" #*:_-").lower() for line in text.splitlines()}
    if sections and lines.isdisjoint(map(str.lower, sections)) and _CHAT.match(text):
        raise SummaryError(f"the answer continues the chat: {text[:60]!r}")
    tokens = request.count_text(text)
    if tokens > request.max_tokens:
        raise SummaryError(f"the answer has {tokens:,} tokens, {request.max_tokens:,} are allowed")
    return text
