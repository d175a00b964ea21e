"""Tokens of a request, part by part, and size caps: the maximum tokens of a single message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from langchain_tokenmem.core.budget import REPLY_TOKENS, TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts, RequestCounter
from langchain_tokenmem.core.messages import is_pinned
from langchain_tokenmem.core.shortening import apply_cuts, cut_group, cut_to
from langchain_tokenmem.errors import BudgetExceededError


def part_tokens(context: ContextParts) -> dict[str, int]:
    """Return the tokens of each part of a context's request."""
    count, groups = context.counter.message, (*context.kept, *context.tail)
    texts, pins = context.memory_texts(), _pin_tokens(context) if context.pins else 0
    summary = context.added_tokens(texts) if texts else 0
    pinned = sum(context.counter.group_sizes(context.kept, context.cuts).tokens)
    tail = sum(context.counter.group_sizes(context.tail, context.cuts).tokens)
    if context.turns.texts:
        pinned += sum(map(context.turn_tokens, context.kept))
        tail += sum(map(context.turn_tokens, context.tail))
    blocks = sum(map(context.block_tokens, groups)) if context.blocks else 0
    if context.profile.shapes:
        added = sum(map(count, context.body())) - pinned - tail - blocks
        added -= summary if context.rules.summary_role != "system" else 0
        added -= pins if context.pins_in_human else 0
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
    """Return the tokens that the pins add to their message."""
    if context.pins_in_human:
        return replace(context, pins="", pins_in_human=False).added_tokens((context.pins,))
    count, own = context.counter.message, context.system
    pinned = context.pinned_system()
    return (count(pinned) if pinned is not None else 0) - (count(own) if own is not None else 0)


FLOOR_SHARE = 0.125
"""Share of the available tokens that every required message gets, however large the others are: a
short first request then stays verbatim beside a huge tool result."""


_ROUNDS = 4
"""Maximum tries to divide the available tokens between required messages."""


def request_tokens(context: ContextParts) -> int:
    """Return the tokens of a context's request."""
    return sum(part_tokens(context).values())


def available_tokens(context: ContextParts, budget: TokenBudget) -> int:
    """Return the tokens that the fixed parts leave for summary and conversation.

    Raises:
        BudgetExceededError: When they leave none.
    """
    bare = replace(context, summary=None, kept=(), tail=(), left_out=0, todos=None)
    parts = part_tokens(bare)
    room = budget.limit - sum(parts.values())
    if room <= 0:
        raise BudgetExceededError(parts, budget.limit)
    return room


def message_cap(context: ContextParts, budget: TokenBudget) -> tuple[int, RequestCounter]:
    """Return the maximum tokens of a single message, and the counter for them.

    Corrections of counts are ignored: they change, and what is cut must not change with them.
    """
    room = available_tokens(context, budget)
    counter = context.counter
    if counter.estimated is not None:
        counter = counter.estimated
        parts = part_tokens(replace(context, counter=counter, summary=None, kept=(), tail=()))
        room = max(room // 2, budget.limit - sum(parts.values()))
    return int(budget.shares.message * room), counter


def cap_messages(context: ContextParts, budget: TokenBudget) -> ContextParts:
    """Return the context with every single message cut to its share of the available tokens.

    Whether a message is cut depends only on the message and the fixed parts, so it is cut before
    it is first sent, and never later.
    """
    share, counter = message_cap(context, budget)
    cuts = {
        message.id or "": cut_to(message, share, counter.message, context.new_cut)
        for group in (*context.kept, *context.tail)
        for message in group.messages
        if (message.id or "") not in context.cuts and counter.message(message) > share
    }
    return replace(context, cuts={**context.cuts, **cuts}) if cuts else context


def shrink_to_target(
    context: ContextParts,
    budget: TokenBudget,
    key: str | None,
    *,
    aside: int = 0,
    growth: int = 0,
) -> ContextParts:
    """Return the context with a covered message cut by the tokens above the target.

    It keeps at least `shares.pinned` of the limit. A cut only shrinks, and a message that the
    application has pinned stays whole.

    Args:
        context: A context in which everything else is already folded.
        budget: The budget with the target and `shares.pinned`.
        key: Id of the message; None for none.
        aside: Tokens kept free for a summary that is yet to be written.
        growth: Tokens by which that summary may still grow. A cut leaves room for them as well, or
            each later fold would cut the message again and change the whole prefix.
    """
    count = context.counter.message
    covered = {m.id: m for group in context.kept for m in group.messages if not is_pinned(m)}
    if key is None or (message := covered.get(key)) is None:
        return context
    (shown,) = apply_cuts((message,), context.cuts)
    size = count(shown)
    excess = request_tokens(context) + aside - budget.target_tokens
    most = max(budget.pinned_tokens, size - excess - growth)
    if excess <= 0 or size <= most:
        return context
    cut = cut_to(message, most, count, context.new_cut)
    return replace(context, cuts={**context.cuts, key: cut})


def fit_required(context: ContextParts, budget: TokenBudget, *, aside: int = 0) -> ContextParts:
    """Return the context with its required messages cut to the available tokens.

    The newest groups, the newest human message and pinned messages share `shares.message` of the
    available tokens. The newest has priority; each gets at least a small part.

    Args:
        context: A context in which everything else is already folded or left out.
        budget: The budget with the limit and `shares.message`.
        aside: Tokens kept free for a summary that is yet to be written.
    """
    excess = request_tokens(context) + aside - budget.limit
    if excess <= 0:
        return context
    required = [*reversed(context.tail), *reversed(context.kept)]
    sizes = context.counter.group_sizes(tuple(required), context.cuts).tokens
    most = min(int(budget.shares.message * available_tokens(context, budget)), sum(sizes) - excess)
    for _ in range(_ROUNDS):
        cuts = dict(context.cuts)
        for group, size, own in zip(required, sizes, _divide(sizes, most), strict=True):
            if size > own:
                count = context.counter.message
                cuts.update(cut_group(group.messages, own, count, context.new_cut))
        fitted = replace(context, cuts=cuts)
        excess = request_tokens(fitted) + aside - budget.limit
        if excess <= 0:
            break
        most -= excess  # a marker alone may be more than a small share
    return fitted


def _divide(sizes: Sequence[int], most: int) -> list[int]:
    """Return the part of `most` for each size: in order of priority, with a floor for each."""
    floor = int(FLOOR_SHARE * max(most, 0))
    sure = [min(size, floor) for size in sizes]
    left = max(0, most - sum(sure))
    shares = []
    for size, own in zip(sizes, sure, strict=True):
        extra = min(size - own, left)
        left -= extra
        shares.append(own + extra)
    return shares
