"""The decision what to shorten and what to fold into the running summary.

One idea keeps prompt caches warm: a change of the prefix must pay for itself. It is made only if
it frees at least half of what lies between `summarize_at` and `target`, or if the limit forces
it. As only what was added can be freed, the number of changes is bounded by the tokens added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts, RequestCounter
from langchain_tokenmem.core.folding import SUMMARY_FRAME, FoldForecast
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.shortening import apply_cut, old_result_cut
from langchain_tokenmem.core.size_caps import (
    available_tokens,
    cap_messages,
    fit_required,
    renew_caps,
    request_tokens,
)
from langchain_tokenmem.core.trigger import TAIL_BATCH, SummaryPolicy
from langchain_tokenmem.errors import BudgetExceededError
from langchain_tokenmem.state import Cut

Reason = Literal["compact_at", "summarize_at", "limit", "tail", "manual"]

DEFAULT_POLICY = SummaryPolicy()

Steps = Literal["all", "shorten", "shorten_if_enough"]
"""Which steps a plan may take: both; only the shortening of old results, as far as it gets; or
that one only where it is enough, because folding follows in a step of its own."""

MARKER_COUNT = 1_000_000
"""Number of left-out messages that room is kept for in the marker."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do before the next model call.

    Attributes:
        reason: Why the prefix changes; None when it does not.
        cuts: All cuts of visible messages from now on.
        fold: How many of the oldest tail groups go into the running summary.
        before: Tokens of the request as it stands.
        after: Tokens of the request once the plan is carried out, at most.
        kept: Ids of the covered messages that stay visible; None where that does not change.
        summary_tokens: Most tokens that the next running summary may have.
        warnings: What the caller should know.
    """

    reason: Reason | None
    cuts: Mapping[str, Cut]
    fold: int
    before: int
    after: int
    summary_tokens: int = 0
    kept: tuple[str, ...] | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Due:
    """Why groups are to be folded.

    Attributes:
        reason: Its name.
        forced: Whether it is done even if it frees little.
        to_recent: Whether everything but the recent share goes.
        messages: How many messages go at the least.
    """

    reason: Reason
    forced: bool = False
    to_recent: bool = False
    messages: int = 0


def plan(
    scene: ContextParts,
    budget: TokenBudget,
    meter: RequestCounter,
    *,
    force: bool = False,
    policy: SummaryPolicy = DEFAULT_POLICY,
    steps: Steps = "all",
) -> Plan:
    """Return what to do before the next model call.

    Args:
        scene: The conversation under its state.
        budget: The thresholds.
        meter: How requests are counted.
        force: Fold whatever the recent share leaves, below the thresholds too.
        policy: When a summary is due.
        steps: Which steps may be taken.

    Returns:
        The plan; without a reason when only a message that was never sent is cut, or nothing.

    Raises:
        BudgetExceededError: When the fixed parts leave no room for a conversation.
    """
    scene = cap_messages(scene, budget, meter)
    before = request_tokens(scene, meter)
    idle = Plan(None, scene.cuts, 0, before, before)
    messages = meter.weights(scene.tail, scene.cuts).messages
    due = _due(messages, before, budget, policy, force=force)
    if due is None and before <= budget.compact_tokens:
        return idle
    if steps != "all":
        return _shortening(scene, budget, meter, idle, steps)
    return _change(scene, budget, meter, idle, due)


def _due(
    messages: int, before: int, budget: TokenBudget, policy: SummaryPolicy, *, force: bool
) -> _Due | None:
    """Return why groups are to be folded; None if no reason holds."""
    over = messages - (policy.max_tail_messages or messages)
    trigger = policy.trigger
    if force:
        return _Due("manual", forced=True, to_recent=True)
    if trigger is None:
        return None
    if before > budget.limit:
        return _Due("limit", forced=True)
    if over > 0:
        return _Due("tail", forced=True, messages=over + TAIL_BATCH)
    if trigger.is_due(before, messages, budget):
        return _Due("summarize_at", forced=not trigger.is_default, to_recent=not trigger.is_default)
    return None


def _shortening(
    scene: ContextParts, budget: TokenBudget, meter: RequestCounter, idle: Plan, steps: Steps
) -> Plan:
    """Return the plan that shortens old results and folds nothing."""
    gain = max(1, (budget.summarize_tokens - budget.target_tokens) // 2)
    compacted = _compact(scene, budget, meter, _recent_start(scene, budget, meter))
    after = request_tokens(compacted, meter)
    enough = after <= budget.summarize_tokens or steps == "shorten"
    if idle.before - after < gain or not enough:
        return idle
    return Plan("compact_at", compacted.cuts, 0, idle.before, after)


def _change(
    scene: ContextParts, budget: TokenBudget, meter: RequestCounter, idle: Plan, due: _Due | None
) -> Plan:
    """Return the plan that changes the prefix, or the idle one if no change pays for itself."""
    before = idle.before
    gain = max(1, (budget.summarize_tokens - budget.target_tokens) // 2)
    recent = _recent_start(scene, budget, meter)
    compacted = _compact(scene, budget, meter, recent)
    after = request_tokens(compacted, meter)
    pays = before - after >= gain and after <= budget.summarize_tokens
    if pays and (due is None or not (due.to_recent or due.messages)):
        return Plan("compact_at", compacted.cuts, 0, before, after)
    if due is None:
        return idle
    ceiling = min(before - gain, budget.summarize_tokens)
    folded = _fold(compacted, budget, meter, recent=recent, ceiling=ceiling, due=due)
    if folded.fold and (due.forced or before - folded.after >= gain):
        return replace(folded, reason=due.reason, before=before)
    if due.reason == "limit" and folded.cuts != scene.cuts:
        return replace(folded, reason="compact_at", before=before)
    warning = "Little can be shortened or folded; the prefix stays until the limit forces it."
    return idle if due.forced else replace(idle, warnings=(warning,))


def fit_to_limit(scene: ContextParts, budget: TokenBudget, meter: RequestCounter) -> ContextParts:
    """Return the scene within the limit: the oldest groups left out, with one marker for them.

    Raises:
        BudgetExceededError: When not even the capped newest messages fit.
    """
    scene = cap_messages(scene, budget, meter)
    if request_tokens(scene, meter) <= budget.limit:
        return scene
    whole = renew_caps(scene.with_newest_block(), budget, meter)
    bare = replace(whole, blocks={})
    # What was recalled goes first, then the summary, before a message that must be present does.
    for candidate in (whole, bare, replace(bare, summary=None)):
        rest = _fitted_once(candidate, budget, meter)
        parts = rest.parts(meter)
        if sum(parts.values()) <= budget.limit:
            return rest
    raise BudgetExceededError(
        parts, budget.limit, "Not even the capped newest messages fit: enlarge the window."
    )


def _fitted_once(scene: ContextParts, budget: TokenBudget, meter: RequestCounter) -> ContextParts:
    marked = replace(scene, left_out=MARKER_COUNT)
    newest = max(len(marked.tail) - 1, 0)
    fold = FoldForecast.of(marked, meter).fewest(budget.limit, within=newest)
    fold = newest if fold is None else fold
    rest = fit_required(marked.folded(fold), budget, meter)
    gone = [group for group in scene.tail[:fold] if not scene.is_required(group)]
    return replace(rest, left_out=sum(len(group.source.messages) for group in gone))


def _recent_start(scene: ContextParts, budget: TokenBudget, meter: RequestCounter) -> int:
    """Return the index of the first tail group of the recent share; the newest is always in it."""
    sizes = scene.sizes(scene.tail, meter)
    newest = max(len(sizes) - 1, 0)
    used = accumulate(reversed(sizes))
    within = sum(1 for total in used if total <= budget.recent_tokens)
    return min(len(sizes) - within, newest)


def _holding(scene: ContextParts, messages: int) -> int:
    """Return how many of the oldest groups hold so many messages; the newest group stays."""
    held = list(accumulate(len(group.source.messages) for group in scene.tail))
    found = next((index + 1 for index, total in enumerate(held) if total >= messages), len(held))
    return min(found, max(len(held) - 1, 0)) if messages else 0


def _compact(
    scene: ContextParts, budget: TokenBudget, meter: RequestCounter, recent: int
) -> ContextParts:
    """Return the scene with old tool results shortened, oldest first, down to the target."""
    excess = request_tokens(scene, meter) - budget.target_tokens
    cuts = dict(scene.cuts)
    for group in scene.tail[:recent]:
        for message in group.messages:
            key = message.id or ""
            if excess <= 0 or role_of(message) != "tool" or key in cuts:
                continue
            cut = old_result_cut(message, budget, meter.message)
            if cut is not None:
                cuts[key] = cut
                excess -= meter.message(message) - meter.message(apply_cut(message, cut))
    return replace(scene, cuts=cuts) if len(cuts) > len(scene.cuts) else scene


def _fold(
    scene: ContextParts,
    budget: TokenBudget,
    meter: RequestCounter,
    *,
    recent: int,
    ceiling: int,
    due: _Due,
) -> Plan:
    """Return the plan that folds the fewest groups to reach the target.

    The recent share is left alone unless the ceiling cannot be reached beside it.
    """
    scene = renew_caps(scene, budget, meter)
    room = available_tokens(scene, budget, meter)
    spare = room - int(budget.message_share * room) - SUMMARY_FRAME
    folding = FoldForecast.of(
        replace(scene, summary=None),
        meter,
        prior=scene.summary["tokens"] if scene.summary else 0,
        most=max(0, min(budget.summary_tokens, spare)),
    )
    newest = max(len(scene.tail) - 1, 0)
    fold = folding.fewest(budget.target_tokens, within=recent)
    if fold is None and folding.after(recent) > ceiling:
        fold = folding.fewest(ceiling, within=newest)
        fold = newest if fold is None else fold
    fold = recent if fold is None or due.to_recent else fold
    fold = max(fold, _holding(scene, due.messages))
    aside = folding.summary(fold)
    rest = replace(scene.folded(fold), summary=None)
    rest = fit_required(rest, budget, meter, aside=aside)
    visible = {message.id for group in (*rest.kept, *rest.tail) for message in group.messages}
    return Plan(
        reason=None,
        cuts={key: cut for key, cut in rest.cuts.items() if key in visible},
        fold=fold,
        before=0,
        after=request_tokens(rest, meter) + aside,
        summary_tokens=folding.allowance(fold),
        kept=tuple(m.id or "" for group in rest.kept for m in group.source.messages),
    )
