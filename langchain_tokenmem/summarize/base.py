"""Interface of summarizers: request, result and protocol, and the checks of a written entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.messages import text_of, well_formed
from langchain_tokenmem.errors import SummaryError


@dataclass(frozen=True)
class SummaryRequest:
    """Request for one entry of the running summary.

    The running summary is a log of entries, each written once. An entry is about `messages` alone;
    it does not repeat the entries before it, only what has changed since.

    Attributes:
        messages: The messages to note, as they were said, oldest first, never empty. With
            `condenses`, the entries of the log to merge into one: human messages named
            `earlier_notes`, oldest first.
        max_tokens: Maximum tokens of the answer, by `count_text`.
        count_text: Counts the tokens of a text.
        prior: Text of the entries so far, oldest first: context, not to be repeated.
        instruction: The caller's instruction for this one entry.
        sent: The main request as the model last saw it, up to the last of `messages`, for
            summarizers that reuse its cached prefix.
        sent_tokens: Tokens of `sent` and of its tools, as the memory counts requests.
        condenses: Whether `messages` are entries of the log, to be made into one shorter entry.
        called: The model that the main request is for; None if unknown.
        tools: Tools of the main request, as `bind_tools` takes them.
        settings: Other keywords of the main call, such as `tool_choice`.
        sections: Headings of an entry in the session's mode; empty for those of the summarizer.
    """

    messages: Sequence[BaseMessage]
    max_tokens: int
    count_text: Callable[[str], int]
    prior: str | None = None
    instruction: str | None = None
    sent: Sequence[BaseMessage] = ()
    sent_tokens: int = 0
    condenses: bool = False
    called: Any = None
    tools: Sequence[Any] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    sections: Sequence[str] = ()


@dataclass(frozen=True)
class Summary:
    """Result of a summarizer: the text of one entry.

    Attributes:
        text: The entry, without fences.
        model: Who wrote it: a model's name, or `extractive`.
        prompt_version: Version of the prompt or rules.
        calls: Model calls that it took, failed ones included.
        input_tokens: Tokens that the model reports as read.
        output_tokens: Tokens that the model reports as written.
        cost: Price that the model reports; None if it reports none.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", well_formed(self.text))


@runtime_checkable
class Summarizer(Protocol):
    """Writes the entries of a running summary, each within a token limit."""

    @property
    def is_quick(self) -> bool:
        """True if a summary is cheap enough to be made inside a turn."""

    def wants(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether a batch is worth a summary while the budget does not force one."""

    def summarize(self, request: SummaryRequest) -> Summary:
        """Return the entry for the request's messages.

        Raises:
            SummaryError: When there is no entry, not even from a fallback.
        """

    async def asummarize(self, request: SummaryRequest) -> Summary:
        """Do the same as `summarize` without blocking the event loop."""


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
        sections: Headings; a text with one of them counts as notes; empty for free form.

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
