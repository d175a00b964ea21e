"""Caps: the room of a request, and messages cut to their share of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts, RequestCounter
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.shortening import cut_group, cut_to
from langchain_tokenmem.errors import BudgetExceededError

FLOOR_SHARE = 0.125
"""Share of the room for required messages that older ones are sure of, however large newer ones
are: a short first request then stays verbatim beside a giant tool result."""


_ROUNDS = 4
"""Most tries to divide the room between required messages."""


def request_tokens(scene: ContextParts, meter: RequestCounter) -> int:
    """Return the tokens of the request that a scene shows."""
    return sum(scene.parts(meter).values())


def available_tokens(scene: ContextParts, budget: TokenBudget, meter: RequestCounter) -> int:
    """Return the tokens that the fixed parts leave for summary and conversation.

    Raises:
        BudgetExceededError: When they leave none.
    """
    parts = replace(scene, summary=None, kept=(), tail=(), left_out=0).parts(meter)
    room = budget.limit - sum(parts.values())
    if room <= 0:
        raise BudgetExceededError(parts, budget.limit)
    return room


def cap_messages(scene: ContextParts, budget: TokenBudget, meter: RequestCounter) -> ContextParts:
    """Return the scene with every single message cut to its share of the room.

    Whether a message is cut depends only on itself and on the fixed parts, so it is cut before
    it is first sent, and never later.
    """
    share = int(budget.message_share * available_tokens(scene, budget, meter))
    cuts = {
        message.id or "": cut_to(message, share, meter.message)
        for found in (scene.kept, scene.tail)
        if meter.weights(found, scene.cuts).heaviest > share
        for group in found
        for message in group.messages
        if (message.id or "") not in scene.cuts and meter.message(message) > share
    }
    return replace(scene, cuts={**scene.cuts, **cuts}) if cuts else scene


def renew_caps(scene: ContextParts, budget: TokenBudget, meter: RequestCounter) -> ContextParts:
    """Return the scene with pinned and human messages as whole as they may be.

    Their cuts are chosen anew whenever the prefix changes anyway; those of tool results stay.
    """
    loose = {
        message.id
        for group in (*scene.kept, *scene.tail)
        if scene.is_required(group)
        for message in group.messages
        if role_of(message) != "tool"
    }
    kept = {key: cut for key, cut in scene.cuts.items() if key not in loose}
    return cap_messages(replace(scene, cuts=kept), budget, meter)


def fit_required(
    scene: ContextParts, budget: TokenBudget, meter: RequestCounter, *, aside: int = 0
) -> ContextParts:
    """Return the scene with the messages that must be present cut to the room there is.

    Newest group, newest human message and pinned ones share `message_share` of the room, divided
    newest first; each is sure of a small part.

    Args:
        scene: Everything else is folded or left out already.
        budget: Gives the limit and `message_share`.
        meter: How requests are counted.
        aside: Tokens kept free for a summary that is still to be written.
    """
    excess = request_tokens(scene, meter) + aside - budget.limit
    if excess <= 0:
        return scene
    required = [*reversed(scene.tail[-1:]), *reversed(scene.kept)]
    sizes = meter.weights(tuple(required), scene.cuts).sizes
    most = min(
        int(budget.message_share * available_tokens(scene, budget, meter)), sum(sizes) - excess
    )
    for _ in range(_ROUNDS):
        cuts = dict(scene.cuts)
        for group, size, own in zip(required, sizes, _divided(sizes, most), strict=True):
            if size > own:
                cuts.update(cut_group(group.messages, own, meter.message))
        fitted = replace(scene, cuts=cuts)
        excess = request_tokens(fitted, meter) + aside - budget.limit
        if excess <= 0:
            break
        most -= excess  # a marker alone may be more than a small share
    return fitted


def _divided(sizes: Sequence[int], most: int) -> list[int]:
    """Return how much of `most` each size gets, the first ones first, each sure of its floor."""
    floor = int(FLOOR_SHARE * max(most, 0))
    sure = [min(size, floor) for size in sizes]
    left = max(0, most - sum(sure))
    shares = []
    for size, own in zip(sizes, sure, strict=True):
        extra = min(size - own, left)
        left -= extra
        shares.append(own + extra)
    return shares
