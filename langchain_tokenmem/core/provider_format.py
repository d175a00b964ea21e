"""Conversion of messages into the form that one provider accepts.

There are two steps. `fit_message` changes single messages (reasoning of another provider, server
ids) once, when a conversation is parsed. `fit_list` changes neighbours in the list that is shown,
because folding makes new neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem.core.block_types import blocks_of
from langchain_tokenmem.core.bound_reasoning import without_reasoning
from langchain_tokenmem.core.messages import (
    Role,
    is_blank_block,
    is_reasoning_block,
    marked,
    role_of,
    text_of,
)
from langchain_tokenmem.core.profiles import LegalityProfile
from langchain_tokenmem.core.provider_blocks import as_plain_message, fit_blocks

BRIDGE_TEXT = "[No message was recorded here.]"
"""Text between two messages that a provider does not accept as neighbours."""

CONTINUE_MESSAGE = HumanMessage("[Please go on.]", id="tm-closing")
"""Last message where the assistant spoke last and the provider asks for an input."""

BLANK_TEXT = "[empty message]"
"""Text of a human message without content where a provider refuses it."""

_CACHE_MARK = "cache_control"
_SERVER_IDS = ("rs_", "msg_", "fc_", "resp_", "ws_", "ci_", "mcp_")


def fit_message(
    message: BaseMessage, profile: LegalityProfile, warnings: list[str] | None = None
) -> BaseMessage:
    """Return a message without the parts that the provider refuses; the same object if none.

    Reasoning goes whole or stays whole: never a part of it.

    Args:
        message: A message as the application wrote it.
        profile: Requirements of the provider.
        warnings: Are told of blocks that are shown as text.
    """
    fitted = message
    if profile.blocks is not None:
        plain = as_plain_message(message)
        fitted, kinds = fit_blocks(plain, profile.blocks, is_own=_is_own(plain, profile))
        if kinds and warnings is not None:
            named = ", ".join(dict.fromkeys(kinds))
            warnings.append(f"Message {message.id} holds {named}; shown as text to this provider.")
    if profile.refuses_blank:
        fitted = _without_blanks(fitted)
    if not isinstance(fitted, AIMessage):
        return fitted
    if profile.drops_foreign_reasoning and _is_own(fitted, profile) is False:
        fitted = without_reasoning(fitted)
    if profile.pairs_reasoning:
        fitted = _without_last_reasoning(fitted)
    if profile.strips_server_ids:
        fitted = _without_server_ids(fitted)
    return fitted


def _without_blanks(message: BaseMessage) -> BaseMessage:
    """Return the message without blank texts; a human one never without any text."""
    content: Any = message.content
    if isinstance(content, list):
        content = [block for block in content if not is_blank_block(block)]
    elif role_of(message) == "ai" and not content.strip():
        content = ""
    if role_of(message) == "human" and not text_of(message).strip():
        content = BLANK_TEXT
    elif content == message.content:
        return message
    return message.model_copy(update={"content": content or ""})


def _is_own(message: BaseMessage, profile: LegalityProfile) -> bool | None:
    """Return whether the provider's own model wrote a message; None where it does not say."""
    provider = message.response_metadata.get("model_provider")
    if not isinstance(provider, str) or not profile.providers:
        return None
    return provider.startswith(profile.providers)


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
    """Return whether two contents add up without rewriting either.

    Two texts do, two lists of blocks, and of people a text and a list, too; blocks of an assistant
    have an order of their own.
    """
    if type(first) is not type(second):
        return False
    kinds = {type(first.content), type(second.content)}
    writers = {m.response_metadata.get("model_provider") for m in (first, second)}
    return kinds == {str} or (len(writers) == 1 and (kinds == {list} or role_of(first) == "human"))


def _merged(first: BaseMessage, second: BaseMessage) -> BaseMessage:
    """Return two neighbours of one role as one, under the id of the newer."""
    content: Any
    if isinstance(first.content, str) and isinstance(second.content, str):
        content = "\n\n".join(part for part in (first.content, second.content) if part)
    else:
        content = [*blocks_of(first.content), *blocks_of(second.content)]
    extras = {**first.additional_kwargs, **second.additional_kwargs}
    update = {"content": content, "additional_kwargs": extras}
    return marked(second.model_copy(update=update), cut=True)  # no words of the newer one


def limit_cache_marks(messages: Sequence[BaseMessage], most: int | None) -> list[BaseMessage]:
    """Return the messages with at most so many `cache_control` marks; the newest stay."""
    if most is None:
        return list(messages)
    left = most
    limited: list[BaseMessage] = []
    for message in reversed(messages):
        content: Any = message.content
        if isinstance(content, list) and any(map(_is_marked, content)):
            blocks = []
            for block in reversed(content):
                if _is_marked(block) and left <= 0:
                    block = {k: v for k, v in block.items() if k != _CACHE_MARK}  # noqa: PLW2901
                elif _is_marked(block):
                    left -= 1
                blocks.append(block)
            content = blocks[::-1]
        same = content == message.content
        limited.append(message if same else message.model_copy(update={"content": content}))
    return limited[::-1]


def _is_marked(block: Any) -> bool:
    return isinstance(block, dict) and _CACHE_MARK in block
