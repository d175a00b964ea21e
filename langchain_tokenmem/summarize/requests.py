"""Requests to a summarizing model: prompts that fit its window, and the reused main request.

A provider's cache is hit by a request that begins as an earlier one did: the same tools, settings
and messages. So the recorded request can be sent again with one instruction after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem.core.budget import EXACT_MARGIN
from langchain_tokenmem.core.chat_models import model_name, unwrap_model
from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.core.profiles import COMMON, LegalityProfile, provider_of
from langchain_tokenmem.core.provider_format import fit_list
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.prompts import (
    SummaryPrompts,
    escape_fences,
    fill_template,
    render_message,
)

USERS_LANGUAGE = "the language of the user's messages"

MOST_WORDS = 400

_WORDS_PER_TOKEN = 0.6

_REQUEST_TOKENS = 64
"""Tokens of roles and separators around the two messages of a request."""

_WINDOW_MARGIN = 0.05
"""Part of the summarizer's window that is left free: its tokens are counted with the memory's
counter, which may not be its own."""

_BEGINNING = 80
"""Characters of a message by which the instruction after a main request names it."""

_NO_PRIOR = "none"


@dataclass(frozen=True)
class PromptBuilder:
    """Writes the requests of a summarizer.

    Attributes:
        prompts: Their templates.
        language: Language of the notes.
        window: Context window of the model, in tokens.
        profile: What the model's provider requires of a list of messages.
    """

    prompts: SummaryPrompts
    language: str
    window: int
    profile: LegalityProfile = COMMON

    def prompt(
        self, request: SummaryRequest, step: str, transcript: str, target: int
    ) -> list[BaseMessage]:
        """Return the messages of one call.

        Args:
            request: The job.
            step: `update`, `leaf`, `part`, `merge`, `condense` or `reuse`.
            transcript: The text to read; `reuse` reads the main request.
            target: Tokens that the notes should have.
        """
        if step == "reuse":
            return self.reused(request, target)
        reads_notes = step in {"part", "merge", "condense"}
        template = self.prompts.condense if reads_notes else self.prompts.update
        order = fill_template(template, **_values(request, target), transcript=transcript)
        return [SystemMessage(self._rules(request, target)), HumanMessage(order)]

    def reused(self, request: SummaryRequest, target: int) -> list[BaseMessage]:
        """Return the main request up to its last complete group, followed by one instruction.

        Messages that are not whole in it are quoted verbatim in the instruction.
        """
        sent = complete_groups(request.sent)
        missing = "\n\n".join(map(render_message, not_whole_in(sent, request)))
        order = fill_template(
            self.prompts.reuse,
            **_values(request, target),
            rules=self._rules(request, target),
            first=_beginning(request.messages[0]),
            last=_beginning(request.messages[-1]),
            verbatim=fill_template(self.prompts.verbatim, transcript=missing) if missing else "",
        )
        return fit_list([*sent, HumanMessage(order)], self.profile)

    def room(self, request: SummaryRequest) -> int:
        """Return the tokens that a transcript may have in one request."""
        steps = ("condense",) if request.condenses else ("update", "condense")
        prompts = [self.prompt(request, step, "", request.max_tokens) for step in steps]
        fixed = max(sum(request.count_text(text_of(m)) for m in empty) for empty in prompts)
        free = int(self.window * (1 - _WINDOW_MARGIN)) - request.max_tokens
        return free - fixed - _REQUEST_TOKENS

    def whole(self, request: SummaryRequest) -> list[BaseMessage]:
        """Return the plain request, as if it had no parts."""
        transcript = "\n\n".join(map(render_message, request.messages))
        return self.prompt(request, "update", transcript, request.max_tokens)

    def within_window(self, request: SummaryRequest, most_tokens: int) -> SummaryRequest:
        """Return the request with earlier notes, and room for new ones, of at most so many tokens.

        Of longer notes the newest lines are kept: they are context, and are not repeated.
        """
        request = replace(request, max_tokens=min(request.max_tokens, most_tokens))
        if not request.prior or request.count_text(request.prior) <= most_tokens:
            return request
        lines = request.prior.split("\n")
        while lines and request.count_text("\n".join(lines)) > most_tokens:
            del lines[: max(1, len(lines) // 10)]
        return replace(request, prior="\n".join(lines) or None)

    def fits(
        self, request: SummaryRequest, messages: Sequence[BaseMessage], *, reuses: bool = False
    ) -> bool:
        """Return whether messages and the answer to them fit the model's window.

        Args:
            request: The request for the summary.
            messages: The messages of the call, or those after the main request.
            reuses: Whether they come after the main request. The memory has counted that one for
                this same model, so less of the window is left free.
        """
        tokens = tokens_of(messages, request.count_text) + min(request.max_tokens, self.window)
        if reuses:
            return request.sent_tokens + tokens <= self.window * (1 - EXACT_MARGIN)
        return tokens <= self.window * (1 - _WINDOW_MARGIN)

    def corrected(
        self, messages: Sequence[BaseMessage], answer: str, unknown: Sequence[str]
    ) -> list[BaseMessage]:
        """Return a request with its answer, and an instruction that names unknown literals."""
        named = escape_fences(", ".join(json.dumps(one, ensure_ascii=False) for one in unknown))
        order = fill_template(self.prompts.correct, unknown=named)
        return [*messages, AIMessage(answer), HumanMessage(order)]

    def _rules(self, request: SummaryRequest, target: int) -> str:
        rules = self.prompts.rules(request.sections)
        return fill_template(rules, language=self.language, words=_words(target))


def _values(request: SummaryRequest, target: int) -> dict[str, str | int]:
    asked = f"For this time, the application asks: {request.instruction}\n"
    return {
        "prior": escape_fences(request.prior or _NO_PRIOR),
        "instruction": asked if request.instruction else "",
        "words": _words(target),
    }


def _words(target: int) -> int:
    return max(10, min(MOST_WORDS, int(target * _WORDS_PER_TOKEN)))


def _beginning(message: BaseMessage) -> str:
    """Return how a message begins, in quotes, to name a place in an existing request."""
    return json.dumps(render_message(message)[:_BEGINNING], ensure_ascii=False)


# --- the reused main request

CACHED_PRICE = 0.1
"""Price of a cached input token, relative to a new one; as `benchmarks/price.py` counts."""

SMALLEST_CACHE = 1_024
"""Tokens from which providers keep a prefix (OpenAI, Anthropic: "Prompt caching")."""

FRAME_TOKENS = 8
"""Tokens of role and separators around a message."""


def complete_groups(sent: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return a request up to its last complete group.

    A group is complete when each of its tool calls has its result: without them no provider accepts
    a message after it.
    """
    answered = {one.tool_call_id for one in sent if isinstance(one, ToolMessage)}
    for place, message in enumerate(sent):
        if isinstance(message, AIMessage):
            calls = [call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)]
            if not answered.issuperset(calls):
                return list(sent[:place])
    return list(sent)


def not_whole_in(sent: Sequence[BaseMessage], request: SummaryRequest) -> list[BaseMessage]:
    """Return the messages of a request for a summary that are not whole in a main request."""
    by_id = {message.id: message for message in sent if message.id}
    rendered = set(map(render_message, sent))

    def is_whole(message: BaseMessage) -> bool:
        if render_message(message) in rendered:
            return True
        shown = by_id.get(message.id or "")
        if shown is None or text_of(message) not in text_of(shown):
            return False
        return _calls(message) == _calls(shown)

    return [message for message in request.messages if not is_whole(message)]


def _calls(message: BaseMessage) -> list[Any]:
    return list(message.tool_calls) if isinstance(message, AIMessage) else []


def is_same_model(own: Any, called: Any) -> bool:
    """Return whether two models share a provider's cache: one object, or one name and provider."""
    first, second = unwrap_model(own), unwrap_model(called)
    if first is second:
        return True
    name = model_name(first)
    if isinstance(second, str):
        return name is not None and name == second.rpartition(":")[2]
    same_name = name is not None and name == model_name(second)
    return same_name and provider_of(first) == provider_of(second)


def is_cheaper_reused(
    request: SummaryRequest, reused: Sequence[BaseMessage], plain: Sequence[BaseMessage]
) -> bool:
    """Return whether the reused request costs less than the plain one, under prompt caching.

    Price of the reused one: 0.1 x (tools + recorded request) + 1 x (instruction, with the messages
    that are not whole in it). Price of the plain one: 1 x (rules + log + batch). The output costs
    the same in both. A prefix under 1,024 tokens, and one whose answers report that nothing was
    read from or written to a cache, is priced at 1.

    Args:
        request: The request for the summary.
        reused: The recorded request with the instruction after it.
        plain: The messages of the plain request.
    """
    *prefix, order = reused
    is_kept = request.sent_tokens >= SMALLEST_CACHE and _reports_cache(prefix)
    shared = (CACHED_PRICE if is_kept else 1.0) * request.sent_tokens
    price = shared + tokens_of([order], request.count_text)
    return price < tokens_of(plain, request.count_text)


def tokens_of(messages: Sequence[BaseMessage], count_text: Callable[[str], int]) -> int:
    """Return the tokens of messages as a summarizer reads them."""
    return sum(FRAME_TOKENS + count_text(render_message(message)) for message in messages)


def _reports_cache(prefix: Sequence[BaseMessage]) -> bool:
    """Return False if answers report on caches, and none was read from or written to one.

    The first answer of a conversation does not count: nothing was cached before it.
    """
    answers = [message for message in prefix if isinstance(message, AIMessage)][1:]
    reports = [_cache_report(answer) for answer in answers]
    known = [report for report in reports if report is not None]
    return any(known) or not known


def _cache_report(answer: AIMessage) -> bool | None:
    """Return whether a call read from a cache or wrote to one; None if it does not say."""
    details = answer.usage_metadata and answer.usage_metadata.get("input_token_details")
    if not details or not ("cache_read" in details or "cache_creation" in details):
        return None
    return bool(details.get("cache_read") or details.get("cache_creation"))
