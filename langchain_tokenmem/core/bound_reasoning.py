"""Reasoning that is valid only behind the prefix that it was produced with.

From Claude Fable 5.1 on Anthropic refuses a signed `thinking` block where the system text, the
tools or any message before it has changed since (HTTP 400). After such a change the reasoning of
all earlier messages is left out; what is produced afterwards is valid again.
"""

from __future__ import annotations

import re
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.messages import is_reasoning_block
from langchain_tokenmem.core.repair import RepairedGroup, says_nothing

REASONING_KWARGS = frozenset({"reasoning", "reasoning_content", "reasoning_details"})

_UNBOUND = re.compile(r"claude-(?:instant|v?[1-4]\b|[a-z]+-(?:[34]\b|preview|5(?![-.]\d(?!\d))))")
"""Names of Claude models older than the rule: up to 4.x, and 5 without a minor version."""


def binds_reasoning(model: str) -> bool:
    """Return whether the reasoning of a model is bound to its prefix, by the model's name.

    Example:
        >>> [binds_reasoning(name) for name in ("claude-fable-5-1", "claude-opus-5", "gpt-5")]
        [True, False, False]
    """
    return "claude" in model.lower() and not _UNBOUND.search(model.lower())


def has_bound_reasoning(message: BaseMessage) -> bool:
    """Return whether a message holds reasoning that is bound to its prefix.

    The message's own model decides. Where it is not named, signed thinking counts as bound.
    """
    if not isinstance(message, AIMessage):
        return False
    content, extras = message.content, message.additional_kwargs
    if isinstance(content, str) and not extras:
        return False
    blocks = [*filter(is_reasoning_block, content)] if isinstance(content, list) else []
    metadata = message.response_metadata
    model = str(metadata.get("model_name") or metadata.get("model") or "")
    if "claude" in model.lower():
        return binds_reasoning(model) and bool(blocks or REASONING_KWARGS & extras.keys())
    is_google = str(metadata.get("model_provider")).startswith("google")
    return not is_google and any(map(_is_signed, blocks))


def _is_signed(block: Any) -> bool:
    nested = block.get("reasoning_content")  # as Bedrock writes it
    held = [block, nested if isinstance(nested, dict) else {}]
    return block.get("type") == "redacted_thinking" or any(
        part.get("signature") or part.get("redacted_content") for part in held
    )


def without_reasoning(message: AIMessage) -> AIMessage:
    """Return a message without any reasoning; the same object where it has none."""
    extras = message.additional_kwargs
    kept = {key: value for key, value in extras.items() if key not in REASONING_KWARGS}
    content: Any = message.content
    if isinstance(content, list):
        content = [block for block in content if not is_reasoning_block(block)] or ""
    if content == message.content and len(kept) == len(extras):
        return message
    return message.model_copy(update={"content": content, "additional_kwargs": kept})


def without_bound_reasoning(
    groups: tuple[RepairedGroup, ...], last: str | None
) -> tuple[RepairedGroup, ...]:
    """Return groups without the bound reasoning of messages up to `last`.

    Args:
        groups: Groups of a conversation, oldest first.
        last: Id of the last message whose reasoning is left out. Where no group holds it, it is
            covered by the summary, and all groups are newer.
    """
    holding = (at + 1 for at, group in enumerate(groups) if _holds(group, last))
    end = max(holding, default=0)
    return (*map(_without_bound, groups[:end]), *groups[end:]) if end else groups


def _holds(group: RepairedGroup, key: str | None) -> bool:
    return any(message.id == key for message in group.source.messages)


def _without_bound(group: RepairedGroup) -> RepairedGroup:
    shown = [
        without_reasoning(message)
        if isinstance(message, AIMessage) and has_bound_reasoning(message)
        else message
        for message in group.messages
    ]
    return group.showing([message for message in shown if not says_nothing(message)])
