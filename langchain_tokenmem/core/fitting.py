"""Fitting of a request to the limit: what is left out of it where the conversation is too long."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.folding import fewest_folds
from langchain_tokenmem.core.shown_turns import ShownTurns
from langchain_tokenmem.core.size_caps import (
    cap_messages,
    fit_required,
    part_tokens,
    request_tokens,
)
from langchain_tokenmem.errors import BudgetExceededError


def fit_to_limit(context: ContextParts, budget: TokenBudget) -> ContextParts:
    """Return the context within the limit: the oldest groups left out, with one marker for them.

    Raises:
        BudgetExceededError: When not even the capped newest messages fit.
    """
    context = cap_messages(context, budget)
    if request_tokens(context) <= budget.limit:
        return context
    if context.working_notes:
        context = context.with_notes("")
        if request_tokens(context) <= budget.limit:
            return context
    whole = context.with_newest_block()
    bare = replace(whole, blocks={}, turns=ShownTurns())
    # Working notes go first, what was recalled and turn memories next, then the oldest entries of
    # the summary and the to-do list, before a message that must be present does.
    first = next(_with_fewer_entries(whole, budget))
    rest = replace(bare, summary=None, todos=None)
    for candidate in (first, *_with_fewer_entries(bare, budget), rest):
        rest = _drop_oldest(candidate, budget)
        parts = part_tokens(rest)
        if sum(parts.values()) <= budget.limit:
            return rest
    raise BudgetExceededError(
        parts, budget.limit, "Not even the capped newest messages fit: enlarge the window."
    )


def _with_fewer_entries(context: ContextParts, budget: TokenBudget) -> Iterator[ContextParts]:
    """Yield the context with ever fewer entries of the running summary, the oldest left out.

    A summary over its share, made for a larger window, is within it from the first one on.
    """
    summary = context.summary
    while summary is not None:
        entries = summary["entries"]
        left = sum(entry["tokens"] for entry in entries)
        if left <= budget.summary_tokens or len(entries) == 1:
            yield replace(context, summary=summary)
        summary = {**summary, "entries": entries[1:]} if len(entries) > 1 else None
    yield replace(context, summary=None)


def _drop_oldest(context: ContextParts, budget: TokenBudget) -> ContextParts:
    marked = replace(context, left_out=1)
    newest, last = marked.newest_start(), max(len(marked.tail) - 1, 0)
    fewest = fewest_folds(marked, budget.limit, within=newest)
    # Messages that a provider's rules join may be counted higher than each alone: then more go.
    for fold in dict.fromkeys((newest if fewest is None else fewest, newest, last)):
        rest = fit_required(marked.with_folded(fold), budget)
        if request_tokens(rest) <= budget.limit:
            break
    return replace(rest, left_out=context.left_out + _message_count(context, fold))


def fit_to_count(context: ContextParts) -> ContextParts:
    """Return the context within `max_messages`: the oldest groups left out, with one marker.

    Newest group and required messages stay, even where they alone are more.
    """
    if not has_more_messages(context):
        return context
    marked = replace(context, left_out=1)
    newest = max(len(marked.tail) - 1, 0)

    def fits(fold: int) -> bool:
        return not has_more_messages(marked.with_folded(fold))

    fold = min(bisect_left(range(newest + 1), True, key=fits), newest)
    while fold < newest and not fits(fold):  # messages that a provider's rules add come and go
        fold += 1
    left_out = context.left_out + _message_count(context, fold)
    return replace(marked.with_folded(fold), left_out=left_out)


def has_more_messages(context: ContextParts) -> bool:
    """Return whether the request has more than `max_messages`, those around it counted."""
    most = context.max_messages
    if most is None:
        return False
    return len(context.request_messages()) + context.overhead_messages > most


def _message_count(context: ContextParts, fold: int) -> int:
    """Return how many messages leave the request with the oldest `fold` groups of the tail."""
    gone = [group for group in context.tail[:fold] if not context.is_required(group)]
    return sum(len(group.source.messages) for group in gone)


def fit_request(context: ContextParts, budget: TokenBudget) -> ContextParts:
    """Return the context within `max_messages` and the limit.

    Raises:
        BudgetExceededError: When not even the capped newest messages fit.
    """
    fitted = fit_to_limit(fit_to_count(context), budget)
    # Where a group went, a provider's rules may ask for a message between its neighbours.
    while len(fitted.tail) > 1 and has_more_messages(fitted):
        fitted = fit_to_limit(fit_to_count(fitted), budget)
    return fitted
