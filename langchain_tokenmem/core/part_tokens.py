"""Tokens of a request, part by part."""

from __future__ import annotations

from dataclasses import replace

from langchain_tokenmem.core.budget import REPLY_TOKENS
from langchain_tokenmem.core.context_parts import ContextParts


def part_tokens(context: ContextParts) -> dict[str, int]:
    """Return the tokens of each part of the request that a context shows."""
    count, groups = context.counter.message, (*context.kept, *context.tail)
    texts, pins = context.memory_texts(), _pin_tokens(context)
    summary = context.added_tokens(texts) if texts else 0
    pinned = sum(context.counter.group_sizes(context.kept, context.cuts).tokens)
    tail = sum(context.counter.group_sizes(context.tail, context.cuts).tokens)
    if context.turns.texts:
        pinned += sum(map(context.turn_tokens, context.kept))
        tail += sum(map(context.turn_tokens, context.tail))
    blocks = sum(map(context.block_tokens, groups)) if context.blocks else 0
    if context.profile.shapes:
        added = sum(map(count, context.body())) - pinned - tail - blocks
        added -= summary if context.summary_role == "human" else 0
        added -= pins if context.pins_role == "human" else 0
    else:
        added = sum(map(count, context.opening()))
    own = count(context.system) if context.system is not None else 0
    return {
        "system": own + context.counter.overhead + REPLY_TOKENS,
        "tools": context.counter.tools,
        "pinned": pinned + pins,
        "summary": summary,
        "memory_block": blocks,
        "tail": tail + added,
    }


def _pin_tokens(context: ContextParts) -> int:
    """Return the tokens that the pins add to the message in which they stand."""
    if not context.pins:
        return 0
    if context.pins_role == "human":
        return replace(context, pins="").added_tokens((context.pins,))
    count, own = context.counter.message, context.system
    pinned = context.pinned_system()
    return (count(pinned) if pinned is not None else 0) - (count(own) if own is not None else 0)
