"""Requests whose reasoning is bound to their prefix: whether the next one still begins with it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.bound_reasoning import has_bound_reasoning
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.provider_format import limit_cache_marks
from langchain_tokenmem.state import MemoryState, Sent
from langchain_tokenmem.tokens.cache import request_digest


def sent_request(
    messages: Sequence[BaseMessage], tools: Sequence[Any] | None, unbound_to: str | None
) -> Sent:
    """Return what the state keeps of a request.

    Args:
        messages: Its messages, system text included.
        tools: Its tools.
        unbound_to: Id of the newest message when the prefix last changed; None before any change.
    """
    unmarked = limit_cache_marks(messages, 0)  # such marks move from request to request
    digest = request_digest(unmarked, tools).hex()
    return {"digest": digest, "count": len(messages), "unbound_to": unbound_to}


def is_continued(
    sent: Sent | None, messages: Sequence[BaseMessage], tools: Sequence[Any] | None
) -> bool:
    """Return whether a request begins with the one before it, tools included."""
    if sent is None or len(messages) < sent["count"]:
        return False
    return sent_request(messages[: sent["count"]], tools, None)["digest"] == sent["digest"]


def is_untouched(context: ContextParts, state: MemoryState) -> bool:
    """Return whether a conversation begins with bound reasoning, and nothing was decided yet.

    It comes from elsewhere: requests without any answer are known.
    """
    is_new = "sent" not in state and state["summary"] is None and not state["cuts"]
    return is_new and any(map(has_bound_reasoning, answers_in(context)[:1]))


def answers_in(context: ContextParts) -> list[AIMessage]:
    """Return the model's messages in a conversation, oldest first."""
    return [
        message
        for group in chain(context.kept, context.tail)
        for message in group.source.messages
        if isinstance(message, AIMessage)
    ]


def with_sent(state: MemoryState, sent: Sent | None) -> MemoryState:
    """Return a state with another newest request, None for none; itself if it has this one."""
    if state.get("sent") == sent:
        return state
    state = state.copy()
    state.pop("sent", None)
    return {**state, "sent": sent} if sent else state
