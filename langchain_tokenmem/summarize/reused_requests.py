"""Reuse of the main request for a summary: what is sent again, and whether it is cheaper.

A provider's cache is hit by a request that begins as an earlier one did: the same tools, settings
and messages. So the recorded request is sent again with one instruction behind it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langchain_tokenmem.core.chat_models import model_name, unwrap_model
from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.core.profiles import provider_of
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.prompts import render_message

CACHED_PRICE = 0.1
"""Price of a cached input token, relative to a new one; as `benchmarks/price.py` counts."""

SMALLEST_CACHE = 1_024
"""Tokens from which providers keep a prefix (OpenAI, Anthropic: "Prompt caching")."""

FRAME_TOKENS = 8
"""Tokens of role and separators around a message."""


def complete_groups(sent: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return a request up to its last complete group.

    A group is complete when each of its tool calls has its result: without them no provider takes
    a message behind it.
    """
    answered = {one.tool_call_id for one in sent if isinstance(one, ToolMessage)}
    for place, message in enumerate(sent):
        if isinstance(message, AIMessage):
            calls = [call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)]
            if not answered.issuperset(calls):
                return list(sent[:place])
    return list(sent)


def not_whole_in(sent: Sequence[BaseMessage], request: SummaryRequest) -> list[BaseMessage]:
    """Return the messages of a request for a summary that a main request does not hold whole."""
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
    that do not stand whole in it). Price of the plain one: 1 x (rules + log + batch). What is
    written costs the same in both. A prefix under 1,024 tokens, and one whose answers
    report that nothing was read from or written to a cache, is priced at 1.

    Args:
        request: The request for the summary.
        reused: The recorded request with the instruction behind it.
        plain: The messages of the plain request.
    """
    *prefix, order = reused
    shared = tokens_of(prefix, request.count_text) + tool_tokens(request)
    is_kept = shared >= SMALLEST_CACHE and _reports_cache(prefix)
    price = (CACHED_PRICE if is_kept else 1.0) * shared + tokens_of([order], request.count_text)
    return price < tokens_of(plain, request.count_text)


def tokens_of(messages: Sequence[BaseMessage], count_text: Callable[[str], int]) -> int:
    """Return the tokens of messages as a summarizer reads them."""
    return sum(FRAME_TOKENS + count_text(render_message(message)) for message in messages)


def tool_tokens(request: SummaryRequest) -> int:
    """Return the tokens of the main request's tools, roughly: those of their schemas as JSON."""
    # Imported here: it pulls in Pydantic's v1 and v2 machinery, and most callers have no tools.
    from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: PLC0415

    def schema_of(tool: Any) -> Any:
        try:
            return convert_to_openai_tool(tool)
        except (ValueError, TypeError, KeyError, AttributeError):
            return tool  # a provider's built-in tool

    schemas = [json.dumps(schema_of(tool), default=str) for tool in request.tools]
    return sum(map(request.count_text, schemas))


def _reports_cache(prefix: Sequence[BaseMessage]) -> bool:
    """Return False where answers report on caches, and none was read from or written to one.

    The first answer of a conversation is not asked: nothing was cached before it.
    """
    answers = [message for message in prefix if isinstance(message, AIMessage)][1:]
    reports = [_cache_report(answer) for answer in answers]
    told = [report for report in reports if report is not None]
    return any(told) or not told


def _cache_report(answer: AIMessage) -> bool | None:
    """Return whether a call read from a cache or wrote to one; None where it does not say."""
    details = answer.usage_metadata and answer.usage_metadata.get("input_token_details")
    if not details or not ("cache_read" in details or "cache_creation" in details):
        return None
    return bool(details.get("cache_read") or details.get("cache_creation"))
