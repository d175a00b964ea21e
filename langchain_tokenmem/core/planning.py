"""Planning of compaction: when it is due, which results to shorten, which groups to summarize.

One idea keeps prompt caches warm: a change of the prefix must pay for itself. Each one brings the
request down to `target`, or as near as the newest group allows, in this order: old tool results
shortened, old groups folded, the summary kept short, the first request cut. It is made only if it
frees enough (`_pays`), or if the limit forces it. As only what was added can be freed, the number
of changes is bounded by the tokens added.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Literal

from langchain_core.messages import AIMessage, ToolMessage
from typing_extensions import TypedDict

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.folding import LogForecast, fewest_folds
from langchain_tokenmem.core.messages import calls_of, role_of
from langchain_tokenmem.core.request_options import TAIL_BATCH, Steps
from langchain_tokenmem.core.shortening import apply_cut, old_result_cut, without_arguments
from langchain_tokenmem.core.size_caps import (
    fit_required,
    request_tokens,
    shrink_to_target,
)
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import Cut

_NUMBERS = {int, float}

ContextSize = tuple[Literal["fraction", "tokens", "messages"], float]
"""A size as LangChain writes it: `("fraction", 0.8)` of the window, `("tokens", 6_000)` of the
request, `("messages", 40)` in the tail."""


class TriggerClause(TypedDict, total=False):
    """Sizes that all have to be reached, as LangChain writes them.

    Attributes:
        fraction: Share of the window.
        tokens: Tokens of the request.
        messages: Messages in the tail.
    """

    fraction: float
    tokens: int
    messages: int


AnyTrigger = ContextSize | TriggerClause | Sequence[ContextSize | TriggerClause]
"""What makes a summary due: a size, a clause, or a list of them of which one is enough."""

_FORMS = '("fraction", 0.8), {"tokens": 6_000, "messages": 40}, or a list of such'


@dataclass(frozen=True)
class Trigger:
    """What makes a summary due.

    Attributes:
        clauses: Sizes by their kind; a clause holds where all of its sizes are reached, and one
            clause is enough. None at all: the budget's `summarize_at` decides.
    """

    clauses: tuple[Mapping[str, float], ...] = ()

    @classmethod
    def of(cls, given: Any) -> Trigger | None:
        """Return the trigger that a caller has given; None for no summaries.

        Args:
            given: `auto` for the budget's `summarize_at`, None, or an `AnyTrigger`.

        Raises:
            ConfigurationError: When the form is another one, or a number is out of range.
        """
        if given is None or isinstance(given, Trigger):
            return given
        if given == "auto":
            return cls()
        clauses = [given] if isinstance(given, Mapping) or _is_size(given) else given
        if not isinstance(clauses, Sequence) or isinstance(clauses, str) or not clauses:
            raise ConfigurationError(f'trigger is {given!r:.100}; pass "auto", None, {_FORMS}.')
        return cls(tuple(map(_clause, clauses)))

    def is_due(self, tokens: int, messages: int, budget: TokenBudget) -> bool:
        """Return whether a summary is due.

        Args:
            tokens: Tokens of the request.
            messages: Messages in the tail.
            budget: Gives the window and `summarize_at`.
        """
        if not self.clauses:
            return tokens > budget.summarize_tokens
        has = {"tokens": tokens, "fraction": tokens / budget.context_window, "messages": messages}
        return any(all(has[kind] >= size for kind, size in one.items()) for one in self.clauses)


def _is_size(given: Any) -> bool:
    """Return whether it is a single size, not a tuple of conditions."""
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)  # noqa: PLR2004


def _clause(given: Any) -> Mapping[str, float]:
    sizes = dict([given]) if _is_size(given) else given
    if not isinstance(sizes, Mapping) or not sizes or sizes.keys() - TriggerClause.__annotations__:
        raise ConfigurationError(f"trigger contains {given!r:.100}; a trigger is {_FORMS}.")
    for kind, size in sizes.items():
        least, most = (0, 1) if kind == "fraction" else (1, math.inf)
        if type(size) not in _NUMBERS or not least <= size <= most or size == 0:
            wanted = "above 0 and at most 1" if kind == "fraction" else "1 or more"
            raise ConfigurationError(f"trigger: {kind} is {size!r:.100}; it must be {wanted}.")
    return dict(sizes)


@dataclass(frozen=True, kw_only=True)
class SummaryPolicy:
    """Policy of automatic summaries.

    Attributes:
        trigger: When a summary is due; None for never.
        max_tail_messages: Most messages of the tail: more are folded into the summary; None for any
            number.
        window: Messages that a summary by hand, or by an own trigger, leaves verbatim where
            `target` allows.
    """

    trigger: Trigger | None = Trigger()
    max_tail_messages: int | None = None
    window: int = 0

    def __post_init__(self) -> None:
        if self.max_tail_messages is not None and self.trigger is None:
            raise ConfigurationError(
                "max_tail_messages folds messages into a summary, and trigger=None turns "
                "summaries off; leave one of them out."
            )

    def with_window(self, window: int, *, summarizes: bool) -> SummaryPolicy:
        """Return the policy with so many messages verbatim, and without summaries if wanted."""
        if not summarizes:
            return SummaryPolicy(trigger=None, window=window)
        return replace(self, window=window)


Reason = Literal["compact_at", "summarize_at", "limit", "tail", "manual", "cold"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a compaction, made before a model call.

    Attributes:
        reason: Reason for a change of the prefix; None without a change.
        cuts: All cuts of visible messages from now on.
        fold: How many of the oldest tail groups go into the running summary.
        before: Tokens of the request as it stands.
        after: Tokens of the request once the plan is carried out, at most.
        kept: Ids of the covered messages that stay visible; None where that does not change.
        summary_tokens: Most tokens that the next entry of the running summary may have.
        condense: How many of the oldest entries, the new one not among them, become one.
        condensed_tokens: Most tokens of that one.
        warnings: Warnings for the caller.
    """

    reason: Reason | None
    cuts: Mapping[str, Cut]
    fold: int
    before: int
    after: int
    summary_tokens: int = 0
    condense: int = 0
    condensed_tokens: int = 0
    kept: tuple[str, ...] | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _FoldReason:
    """Reason for folding groups.

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
        force: Fold whatever the recent share leaves, below the thresholds too.
        policy: When a summary is due.
        steps: Which steps may be taken.
        may_condense: Whether older entries of the running summary may be condensed.
        is_cold: Whether no provider's cache has the prefix any more: a change of it is free.

    Returns:
        The plan; without a reason when only a message that was never sent is cut, or nothing.

    Raises:
        BudgetExceededError: When the fixed parts leave no room for a conversation.
    """
    before = request_tokens(context)
    idle = Plan(None, context.cuts, 0, before, before)
    messages = context.counter.group_sizes(context.tail, context.cuts).message_count
    due = _fold_reason(messages, before, budget, policy, force=force, is_cold=is_cold)
    if due is None and before <= budget.compact_tokens:
        return idle
    recent = _recent_start(context, budget)
    shorter = _shorten_old_results(context, budget, recent)
    after = request_tokens(shorter)
    pays = _pays(before, after, budget) or (is_cold and after < before)
    enough = steps == "shorten" or after <= budget.target_tokens
    may_suffice = steps != "all" or due is None or not (due.to_recent or due.messages)
    if pays and enough and may_suffice:
        return Plan("compact_at", shorter.cuts, 0, before, after)
    if due is None or steps != "all":
        return idle
    log = LogForecast.of(shorter, budget, may_condense=may_condense)
    recent = min(recent, _window_start(context, policy.window))
    if (shown := context.rules.max_messages) is not None:
        # What no view shows any more is not recent: the summary has it as soon as one is made.
        recent = max(recent, _window_start(context, shown))
    return _plan_change(shorter, budget, idle, log, recent=recent, due=due)


def _pays(before: int, after: int, budget: TokenBudget, *, entry: int = 0) -> bool:
    """Return whether a change of the prefix pays for itself: it frees what the thresholds ask for.

    One that ends at the target, a new entry of `entry` tokens aside, has to free half of what lies
    between `summarize_at` and `target`; one that cannot get there all of it, or it would be made
    again soon.
    """
    between = budget.summarize_tokens - budget.target_tokens
    least = between // 2 if after - entry <= budget.target_tokens else between
    return before - after >= max(1, least)


def _fold_reason(
    messages: int,
    before: int,
    budget: TokenBudget,
    policy: SummaryPolicy,
    *,
    force: bool,
    is_cold: bool,
) -> _FoldReason | None:
    """Return the reason for folding groups; None where there is none."""
    over = messages - (policy.max_tail_messages or messages)
    trigger = policy.trigger
    if force:
        return _FoldReason("manual", forced=True, to_recent=True)
    if trigger is None:
        return None
    if before > budget.limit:
        return _FoldReason("limit", forced=True)
    if over > 0:
        return _FoldReason("tail", forced=True, messages=over + TAIL_BATCH)
    is_own = bool(trigger.clauses)
    is_cold = is_cold and not is_own and before > budget.compact_tokens
    if not (is_cold or trigger.is_due(before, messages, budget)):
        return None
    reason: Reason = "cold" if is_cold else "summarize_at"
    return _FoldReason(reason, forced=is_own or is_cold, to_recent=is_own)


def _plan_change(
    shorter: ContextParts,
    budget: TokenBudget,
    idle: Plan,
    log: LogForecast,
    *,
    recent: int,
    due: _FoldReason,
) -> Plan:
    """Return the plan that folds groups, or the idle one if no change pays for itself."""
    before = idle.before
    folded = _plan_fold(shorter, budget, log, recent=recent, due=due)
    # The lines of the new entry may pass the target: what is folded has no other room.
    pays = _pays(before, folded.after, budget, entry=folded.summary_tokens)
    if folded.fold and (due.forced or pays):
        return replace(folded, reason=due.reason, before=before)
    if due.reason == "limit" and folded.cuts != idle.cuts:
        return replace(folded, reason="compact_at", before=before)
    warning = "Little can be shortened or folded; the prefix stays until the limit forces it."
    return idle if due.forced else replace(idle, warnings=(warning,))


def _recent_start(context: ContextParts, budget: TokenBudget) -> int:
    """Return the index of the first tail group of the recent share.

    What the model has not answered yet is always in it.
    """
    sizes = context.sizes(context.tail)
    used = accumulate(reversed(sizes))
    within = sum(1 for total in used if total <= budget.recent_tokens)
    return min(len(sizes) - within, context.newest_start())


def _window_start(context: ContextParts, messages: int) -> int:
    """Return the index of the first tail group of the newest so many messages."""
    held = accumulate(len(group.source.messages) for group in reversed(context.tail))
    before = sum(1 for total in held if total < messages)
    return max(0, len(context.tail) - before - bool(messages))


def _groups_with(context: ContextParts, messages: int) -> int:
    """Return the number of oldest groups that hold so many messages; the newest ones stay."""
    held = list(accumulate(len(group.source.messages) for group in context.tail))
    found = next((index + 1 for index, total in enumerate(held) if total >= messages), len(held))
    return min(found, context.newest_start()) if messages else 0


def _shorten_old_results(context: ContextParts, budget: TokenBudget, recent: int) -> ContextParts:
    """Return the context with old tool results shortened, oldest first, down to the target."""
    excess = request_tokens(context) - budget.target_tokens
    cuts, count = dict(context.cuts), context.counter.message
    kept = {*_kept_whole(context)}
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


def _kept_whole(context: ContextParts) -> Iterator[str]:
    """Yield the ids of tool results that the application wants whole: the newest, some tools'."""
    results: list[str] = []
    for group in context.tail:
        names = {
            call["id"]: call["name"]
            for message in group.messages
            if isinstance(message, AIMessage)
            for call in calls_of(message)
        }
        for message in group.messages:
            if isinstance(message, ToolMessage):
                results.append(message.id or "")
                if (message.name or names.get(message.tool_call_id)) in context.rules.whole_tools:
                    yield message.id or ""
    if newest := context.rules.keep_results:
        yield from results[-newest:]


def _plan_fold(
    context: ContextParts,
    budget: TokenBudget,
    log: LogForecast,
    *,
    recent: int,
    due: _FoldReason,
) -> Plan:
    """Return the plan that folds the fewest groups to reach the target, or all but the newest.

    Where these are not enough, the summary has half of its share at most, and the first request is
    cut, too; the newest human message only where the limit forces the change.
    """
    newest = context.newest_start()
    fold = fewest_folds(context, budget.target_tokens, within=newest, log=log)
    fold = newest if fold is None else fold
    fold = max(fold, recent if due.to_recent else 0, _groups_with(context, due.messages))
    rest = context.with_folded(fold)
    summary, aside, growth = None, 0, 0
    if fold:
        summary = log.change(fold, room=log.goal - request_tokens(rest))
        rest, aside = replace(rest, summary=None), summary.tokens
        growth = max(0, log.most + log.introduction - aside)
    shrinking = [rest.first_request, *([rest.newest_human] if due.reason == "limit" else [])]
    rest = shrink_to_target(rest, budget, shrinking, aside=aside, growth=growth)
    rest = fit_required(rest, budget, aside=aside)
    visible = {message.id for group in (*rest.kept, *rest.tail) for message in group.messages}
    return Plan(
        reason=None,
        cuts={key: cut for key, cut in rest.cuts.items() if key in visible},
        fold=fold,
        before=0,
        after=request_tokens(rest) + aside,
        summary_tokens=summary.entry_tokens if summary else 0,
        condense=summary.condense if summary else 0,
        condensed_tokens=summary.condensed_tokens if summary else 0,
        kept=tuple(m.id or "" for group in rest.kept for m in group.source.messages),
    )
