"""Planning of compaction: when it is due, which results to shorten, which groups to summarize.

One idea keeps prompt caches warm: a change of the prefix must pay for itself. Each change brings
the request down to `target`, or as near as the newest group allows, in this order: shorten old
tool results, fold old groups, keep the summary short, cut the first request. It is made only if it
frees enough (`_pays`), or if the limit forces it. Because only added tokens can be freed, the
number of changes is bounded by the tokens added.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from langchain_tokenmem.core.block_types import has_media
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.log_forecast import NO_CHANGE, LogChange, LogForecast
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.repair import source_messages
from langchain_tokenmem.core.request_options import TAIL_BATCH, Steps, SummaryPolicy, Trigger
from langchain_tokenmem.core.shortening import apply_cut, old_result_cut, without_arguments
from langchain_tokenmem.core.size_caps import (
    fit_required,
    request_tokens,
    shrink_to_target,
)
from langchain_tokenmem.core.tool_calls import paired_calls
from langchain_tokenmem.state import Cut

Reason = Literal["compact_at", "summarize_at", "limit", "tail", "manual", "cold"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a compaction, made before a model call.

    Attributes:
        reason: Reason for a change of the prefix; None without a change.
        cuts: All cuts of visible messages from now on.
        fold: How many of the oldest tail groups go into the running summary.
        before: Tokens of the current request.
        after: Maximum tokens of the request once the plan is carried out.
        kept: Ids of the covered messages that stay visible; None if that does not change.
        log: Change of the running summary.
        warnings: Warnings for the caller.
    """

    reason: Reason | None
    cuts: Mapping[str, Cut]
    fold: int
    before: int
    after: int
    log: LogChange = NO_CHANGE
    kept: tuple[str, ...] | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _FoldReason:
    """Reason for folding groups.

    Attributes:
        reason: Its name.
        forced: Whether it is done even if it frees little.
        to_recent: Whether everything but the recent share is folded.
        tokens: Size of the request at which it is due; None for the budget's own.
        messages: Minimum number of messages to fold.
    """

    reason: Reason
    forced: bool = False
    to_recent: bool = False
    tokens: float | None = None
    messages: int = 0


def plan(
    context: ContextParts,
    budget: TokenBudget,
    *,
    force: bool,
    policy: SummaryPolicy,
    steps: Steps,
    may_condense: bool,
    is_cold: bool,
) -> Plan:
    """Return the plan for the next model call.

    Args:
        context: The conversation under its state, no message over its share (`cap_messages`).
        budget: The thresholds.
        force: Fold about half of the request, even below the thresholds.
        policy: When a summary is due.
        steps: Which steps may be taken.
        may_condense: Whether older entries of the running summary may be condensed.
        is_cold: Whether no provider still has the prefix cached, so that changing it is free.

    Returns:
        The plan; without a reason if nothing changes, or only a message that was never sent is cut.

    Raises:
        BudgetExceededError: When the fixed parts leave no room for a conversation.
    """
    before = request_tokens(context)
    idle = Plan(None, context.cuts, 0, before, before)
    due = _fold_reason(context, before, budget, policy.trigger, force=force, is_cold=is_cold)
    if due is None and before <= budget.compact_tokens:
        return idle
    aim = budget.with_fold_at(due.tokens) if due and due.tokens else budget
    recent = _recent_start(context, aim)
    shorter = _shorten_old_results(context, aim, recent)
    after = request_tokens(shorter)
    pays = _pays(before, after, aim) or (is_cold and after < before)
    enough = steps == "shorten" or after <= aim.target_tokens
    may_suffice = steps != "all" or due is None or not (due.to_recent or due.messages)
    if pays and enough and may_suffice:
        return Plan("compact_at", shorter.cuts, 0, before, after)
    if due is None or steps != "all":
        return idle
    log = LogForecast.of(shorter, aim, may_condense=may_condense)
    recent = min(recent, _window_start(context, policy.window))
    if (shown := context.rules.max_messages) is not None:
        # What no view shows any more is not recent: the next summary includes it.
        recent = max(recent, _window_start(context, shown))
    target = aim.target_tokens
    folded = _plan_fold(shorter, budget, log, target=target, recent=recent, due=due)
    folded = replace(folded, before=before)
    # The lines of the new entry may exceed the target: what is folded has no other place.
    pays = _pays(before, folded.after, aim, entry=folded.log.entry_tokens)
    if folded.fold and (due.forced or pays):
        return folded
    if due.reason == "limit" and folded.cuts != idle.cuts:
        return replace(folded, reason="compact_at")
    warning = "Little can be shortened or folded; the prefix stays until the limit forces it."
    return idle if due.forced else replace(idle, warnings=(warning,))


def _pays(before: int, after: int, budget: TokenBudget, *, entry: int = 0) -> bool:
    """Return whether a change of the prefix pays for itself by the tokens that it frees.

    A change that reaches the target, not counting a new entry of `entry` tokens, must free half of
    the tokens between `summarize_at` and `target`. One that does not reach it must free all of
    them, or it would soon be repeated.
    """
    between = budget.summarize_tokens - budget.target_tokens
    least = between // 2 if after - entry <= budget.target_tokens else between
    return before - after >= max(1, least)


def _fold_reason(
    context: ContextParts,
    before: int,
    budget: TokenBudget,
    trigger: Trigger | None,
    *,
    force: bool,
    is_cold: bool,
) -> _FoldReason | None:
    """Return the reason for folding groups, or None."""
    if force:
        return _FoldReason("manual", forced=True, to_recent=True, tokens=before)
    if trigger is None:
        return None
    messages = sum(len(group.source.messages) for group in context.tail)
    own = _triggered(trigger, before, messages, budget) if trigger.clauses else None
    due = own or _FoldReason("summarize_at")
    if before > budget.limit:
        return replace(due, reason="limit", forced=True)
    over = messages - (context.rules.max_tail_messages or messages)
    if over > 0:
        least = max(over + TAIL_BATCH, due.messages)
        return replace(due, reason="tail", forced=True, messages=least)
    if trigger.clauses:
        return own
    is_cold = is_cold and before > budget.compact_tokens
    due = replace(due, reason="cold", forced=True) if is_cold else due
    return due if is_cold or before > budget.summarize_tokens else None


def _triggered(
    trigger: Trigger, tokens: int, messages: int, budget: TokenBudget
) -> _FoldReason | None:
    """Return the reason for a fold if a clause of a trigger holds.

    It is decided as one at `summarize_at`, with thresholds in proportion to the clause's tokens,
    and leaves half of its messages: or it would soon be due again.
    """
    window = budget.context_window
    has = {"tokens": tokens, "fraction": tokens / window, "messages": messages}
    reached = [
        clause
        for clause in trigger.clauses
        if all(has[kind] >= size for kind, size in clause.items())
    ]
    if not reached:
        return None
    sizes = [
        max(clause.get("tokens", 0), clause.get("fraction", 0) * window)
        for clause in reached
        if clause.keys() != {"messages"}
    ]
    counts = [int(clause["messages"]) for clause in reached if "messages" in clause]
    return _FoldReason(
        "summarize_at",
        forced=bool(counts),
        messages=messages - min(counts) // 2 if counts else 0,
        tokens=min(sizes, default=None),
    )


def _recent_start(context: ContextParts, budget: TokenBudget) -> int:
    """Return the index of the first tail group of the recent share.

    Messages that the model has not answered yet are always in it.
    """
    sizes = context.sizes(context.tail)
    used = accumulate(reversed(sizes))
    within = sum(1 for total in used if total <= budget.recent_tokens)
    return min(len(sizes) - within, context.newest_start())


def _window_start(context: ContextParts, messages: int) -> int:
    """Return the index of the tail group with which the newest `messages` messages begin."""
    held = accumulate(len(group.source.messages) for group in reversed(context.tail))
    before = sum(1 for total in held if total < messages)
    return max(0, len(context.tail) - before - bool(messages))


def _groups_with(context: ContextParts, messages: int) -> int:
    """Return the number of oldest groups with that many messages; the newest groups stay."""
    held = list(accumulate(len(group.source.messages) for group in context.tail))
    found = next((index + 1 for index, total in enumerate(held) if total >= messages), len(held))
    return min(found, context.newest_start()) if messages else 0


def _shorten_old_results(context: ContextParts, budget: TokenBudget, recent: int) -> ContextParts:
    """Return the context with old tool results shortened, oldest first, down to the target."""
    excess = request_tokens(context) - budget.target_tokens
    cuts, count = dict(context.cuts), context.counter.message
    kept = _kept_whole(context)
    for group in context.tail[:recent]:
        found: dict[str, Cut] = {}
        for message in group.messages:
            key = message.id or ""
            if excess <= 0 or role_of(message) != "tool" or key in kept or key in cuts:
                continue
            cut = old_result_cut(message, budget, count, context.new_cut)
            if cut is not None:
                found[key] = cut
                excess -= count(message) - count(apply_cut(message, cut))
        cuts.update(found)
        is_free = kept.isdisjoint(message.id or "" for message in group.messages)
        if found and context.rules.clear_tool_inputs and is_free:
            caller, cut = group.messages[0], without_arguments(context.new_cut)
            freed = count(caller) - count(apply_cut(caller, cut))
            if freed > 0 and (caller.id or "") not in cuts:
                cuts[caller.id or ""] = cut
                excess -= freed
    return replace(context, cuts=cuts) if len(cuts) > len(context.cuts) else context


def _kept_whole(context: ContextParts) -> set[str]:
    """Return the ids of tool results to keep whole: the newest, and those of `whole_tools`."""
    whole, newest = context.rules.whole_tools, context.rules.keep_results
    if not (whole or newest):
        return set()
    names = {
        result.id or "": result.name or call["name"]
        for group in context.tail
        for _, calls in paired_calls(group.messages)
        for call, result in calls
        if result is not None
    }
    kept = {*[*names][-newest:]} if newest else set()
    return kept | {key for key, name in names.items() if name in whole}


def _plan_fold(
    context: ContextParts,
    budget: TokenBudget,
    log: LogForecast,
    *,
    target: int,
    recent: int,
    due: _FoldReason,
) -> Plan:
    """Return the plan with the fewest groups to fold for the target, or all but the newest.

    If these are not enough, the summary gets at most half of its share, and the first request is
    also cut; the newest human message, and a first request with files that is the newest, only if
    the limit forces the change, and without the cut a fold would be due again at once.
    """
    newest = context.newest_start()
    fold = fewest_folds(context, target, within=newest, log=log)
    fold = newest if fold is None else fold
    fold = max(fold, recent if due.to_recent else 0, _groups_with(context, due.messages))
    rest = context.with_folded(fold)
    change, growth = NO_CHANGE, 0
    if fold:
        change = log.change(fold, room=log.goal - request_tokens(rest))
        rest = replace(rest, summary=None)
        growth = max(0, log.most + log.introduction - change.tokens)
    sizes = {"aside": change.tokens, "growth": growth}
    if rest.first_request != rest.newest_human or not _has_media(rest, rest.first_request):
        rest = shrink_to_target(rest, budget, rest.first_request, **sizes)
    if due.reason == "limit" and request_tokens(rest) + change.tokens > budget.summarize_tokens:
        rest = shrink_to_target(rest, budget, rest.newest_human, **sizes)
    rest = fit_required(rest, budget, aside=change.tokens)
    visible = {message.id for group in (*rest.kept, *rest.tail) for message in group.messages}
    return Plan(
        reason=due.reason,
        cuts={key: cut for key, cut in rest.cuts.items() if key in visible},
        fold=fold,
        before=0,
        after=request_tokens(rest) + change.tokens,
        log=change,
        kept=tuple(message.id or "" for message in source_messages(rest.kept)),
    )


def _has_media(context: ContextParts, key: str | None) -> bool:
    kept = source_messages(context.kept)
    return any(message.id == key and has_media(message.content) for message in kept)


def fewest_folds(
    context: ContextParts, goal: int, *, within: int, log: LogForecast | None = None
) -> int | None:
    """Return the fewest of the oldest tail groups to fold so that the request is within `goal`.

    None if not even `within` of them are enough. The number is found by bisection: for each try the
    request is built and counted. Folding one more group nearly always makes the request smaller;
    rarely, it brings a turn memory into view that is longer than the group.

    Args:
        context: The conversation under its state.
        goal: Maximum tokens of the request.
        within: Maximum groups to fold.
        log: How the running summary grows; None if no entry is written.
    """

    def is_enough(fold: int) -> bool:
        rest = context.with_folded(fold)
        if log is None:
            return request_tokens(rest) <= goal
        tokens = request_tokens(replace(rest, summary=None))
        return tokens + log.change(fold).tokens <= goal

    fold = bisect_left(range(within + 1), True, key=is_enough)
    return fold if fold <= within else None
