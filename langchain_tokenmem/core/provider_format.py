"""Conversion of messages into the form that one provider accepts.

There are two steps. `fit_message` changes single messages (reasoning of another provider, server
ids) once, when a conversation is parsed. `fit_list` changes neighbours in the list that is shown,
because folding makes new neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem.core.messages import (
    Role,
    is_blank_block,
    is_reasoning_block,
    role_of,
    text_of,
)
from langchain_tokenmem.core.profiles import LegalityProfile

BRIDGE_TEXT = "[No message was recorded here.]"
"""Text between two messages that a provider does not accept as neighbours."""

CONTINUE_MESSAGE = HumanMessage("[Please go on.]", id="tm-closing")
"""Last message where the assistant spoke last and the provider asks for an input."""

BLANK_TEXT = "[empty message]"
"""Text of a human message without content where a provider refuses it."""

_REASONING_KWARGS = frozenset({"reasoning", "reasoning_content", "reasoning_details"})
_SERVER_IDS = ("rs_", "msg_", "fc_", "resp_", "ws_", "ci_", "mcp_")


def fit_message(message: BaseMessage, profile: LegalityProfile) -> BaseMessage:
    """Return a message without the parts that the provider refuses; the same object if none.

    Reasoning goes whole or stays whole: never a part of it.
    """
    if profile.refuses_blank:
        message = _without_blanks(message)
    if not isinstance(message, AIMessage):
        return message
    fitted = message
    if profile.drops_foreign_reasoning and _is_foreign(message, profile):
        fitted = _without_reasoning(fitted)
    if profile.pairs_reasoning:
        fitted = _without_last_reasoning(fitted)
    if profile.strips_server_ids:
        fitted = _without_server_ids(fitted)
    return fitted


def _without_blanks(message: BaseMessage) -> BaseMessage:
    """Return the message without blank text blocks; a human one never without any text."""
    content: Any = message.content
    if isinstance(content, list):
        content = [block for block in content if not is_blank_block(block)]
    if role_of(message) == "human" and not text_of(message).strip():
        content = BLANK_TEXT
    elif content == message.content:
        return message
    return message.model_copy(update={"content": content or ""})


def _is_foreign(message: AIMessage, profile: LegalityProfile) -> bool:
    provider = message.response_metadata.get("model_provider")
    return (
        isinstance(provider, str)
        and bool(profile.providers)
        and not provider.startswith(profile.providers)
    )


def _without_reasoning(message: AIMessage) -> AIMessage:
    extras = message.additional_kwargs
    kept = {key: value for key, value in extras.items() if key not in _REASONING_KWARGS}
    content: Any = message.content
    if isinstance(content, list):
        content = [block for block in content if not is_reasoning_block(block)] or ""
    if content == message.content and len(kept) == len(extras):
        return message
    return message.model_copy(update={"content": content, "additional_kwargs": kept})


def _without_last_reasoning(message: AIMessage) -> AIMessage:
    content: Any = message.content
    if isinstance(content, str) or message.tool_calls or message.invalid_tool_calls:
        return message
    end = len(content)
    while end and is_reasoning_block(content[end - 1]):
        end -= 1
    return message if end == len(content) else message.model_copy(update={"content": content[:end]})


def _without_server_ids(message: AIMessage) -> AIMessage:
    content: Any = message.content
    if isinstance(content, list):
        blocks = [_without_id(block) for block in content]
        content = [block for block in blocks if block is not None] or ""
    metadata = {key: value for key, value in message.response_metadata.items() if key != "id"}
    if content == message.content and metadata == message.response_metadata:
        return message
    return message.model_copy(update={"content": content, "response_metadata": metadata})


def _without_id(block: Any) -> Any:
    """Return a block without its server id; None for reasoning that is nothing else."""
    if not isinstance(block, dict) or not str(block.get("id") or "").startswith(_SERVER_IDS):
        return block
    if is_reasoning_block(block) and not block.get("encrypted_content"):
        return None
    return {key: value for key, value in block.items() if key != "id"}


def fit_list(messages: Sequence[BaseMessage], profile: LegalityProfile) -> list[BaseMessage]:
    r"""Return the messages after the system text in the form that the profile asks for.

    Example:
        >>> from langchain_tokenmem.core.profiles import profile_named
        >>> two = [HumanMessage("One.", id="a"), HumanMessage("Two.", id="b")]
        >>> [message.content for message in fit_list(two, profile_named("strict"))]
        ['One.\n\nTwo.']
    """
    if not profile.shapes:
        return list(messages)
    body: list[BaseMessage] = []
    for message in messages:
        role = role_of(message)
        before = role_of(body[-1]) if body else None
        if profile.alternates and role == before and role in {"human", "ai"}:
            if _is_mergeable(body[-1], message):
                body[-1] = _merged(body[-1], message)
                continue
            body.append(_bridge("ai" if role == "human" else "human", message))
        elif profile.answers_results and before == "tool" and role == "human":
            body.append(_bridge("ai", message))
        body.append(message)
    if profile.ends_with_input and body and role_of(body[-1]) == "ai":
        body.append(CONTINUE_MESSAGE)
    return body


def _bridge(role: Role, before: BaseMessage) -> BaseMessage:
    kind = AIMessage if role == "ai" else HumanMessage
    return kind(BRIDGE_TEXT, id=f"{before.id}~bridge")


def _is_mergeable(first: BaseMessage, second: BaseMessage) -> bool:
    """Return whether two contents add up without rewriting either: texts, or lists of blocks."""
    return type(first.content) is type(second.content) and type(first) is type(second)


def _merged(first: BaseMessage, second: BaseMessage) -> BaseMessage:
    """Return two neighbours of one role as one, under the id of the newer."""
    content: Any
    if isinstance(first.content, str):
        content = "\n\n".join(part for part in (first.content, str(second.content)) if part)
    else:
        content = [*first.content, *second.content]
    extras = {**first.additional_kwargs, **second.additional_kwargs}
    update = {"content": content, "additional_kwargs": extras}
    return second.model_copy(update=update)
