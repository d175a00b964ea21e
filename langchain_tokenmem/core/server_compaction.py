"""Compaction by the provider: blocks in which its server has summarized what stands before them.

Such a block goes back unchanged, and what stands before the newest one need not be sent. A block
that can be read (Anthropic's) is folded together with the messages that it stands for. One that is
encrypted (OpenAI's) says nothing to a summarizer, so it stays in view until a newer one comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.repair import RepairedGroup


def after_compaction(context: ContextParts) -> ContextParts:
    """Return the context without what stands before the newest compaction block.

    Required messages stay: the first request, the newest human message, pinned ones.
    """
    found = _newest(context.tail) or _newest(context.kept)
    if found is None:
        return context
    place, message, is_readable = found
    context = replace(context, compaction=None if is_readable else message.id)
    if message.id not in {m.id for group in context.tail for m in group.messages}:
        return context
    before = (g if context.is_required(g) else g.showing(()) for g in context.tail[:place])
    return replace(context, tail=(*before, *context.tail[place:]))


def _newest(groups: Sequence[RepairedGroup]) -> tuple[int, BaseMessage, bool] | None:
    """Return the place of the newest block, its message, and whether the block can be read."""
    with_blocks = [
        (place, message)
        for place, group in enumerate(groups)
        for message in group.messages
        if isinstance(message, AIMessage) and isinstance(message.content, list)
    ]
    for place, message in reversed(with_blocks):
        for block in filter(_is_compaction, reversed(message.content)):
            return place, message, bool(_held(block).get("content"))
    return None


def _is_compaction(block: Any) -> bool:
    """Return whether a block stands for messages; one without content is a failed attempt."""
    held = _held(block)
    is_one = held.get("type") == "compaction"
    return is_one and bool(held.get("content") or held.get("encrypted_content"))


def _held(block: Any) -> dict[str, Any]:
    """Return a block as its provider writes it; LangChain's v1 form wraps it."""
    held = block.get("value", block) if isinstance(block, dict) else {}
    return held if isinstance(held, dict) else {}
