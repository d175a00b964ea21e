"""View: the exact list of messages for one model call, with its token usage.

A conversation that is too long is fitted first: a marker replaces the oldest groups.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.explanation import Explanation
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.planning import fewest_folds
from langchain_tokenmem.core.size_caps import (
    cap_messages,
    fit_required,
    part_tokens,
    request_tokens,
)
from langchain_tokenmem.core.turns import ShownTurns
from langchain_tokenmem.errors import BudgetExceededError, ConfigurationError


def fit_to_limit(context: ContextParts, budget: TokenBudget) -> ContextParts:
    """Return the context within the limit, with one marker in place of the oldest groups.

    Raises:
        BudgetExceededError: When not even the capped newest messages fit.
    """
    context = cap_messages(context, budget)
    if request_tokens(context) <= budget.limit:
        return context
    if context.has_notes:
        context = context.with_notes("")
        if request_tokens(context) <= budget.limit:
            return context
    whole = context.with_newest_block()
    bare = replace(whole, blocks={}, turns=ShownTurns())
    # Working notes go first, recalled messages and turn memories next, then the oldest entries of
    # the summary and the to-do list, and only then a message that must be present.
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
    """Yield the context with ever fewer entries of the running summary, dropping the oldest.

    A summary above its share, made for a larger window, is within it from the first context on.
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
    # Messages joined by a provider's rules may count more than separately: then more are dropped.
    for fold in dict.fromkeys((newest if fewest is None else fewest, newest, last)):
        rest = fit_required(marked.with_folded(fold), budget)
        if request_tokens(rest) <= budget.limit:
            break
    return replace(rest, left_out=context.left_out + _message_count(context, fold))


def fit_to_count(context: ContextParts) -> ContextParts:
    """Return a context within `max_messages`, with one marker in place of the oldest groups.

    The newest group and required messages stay, even if they alone exceed it.
    """
    marked = replace(context, left_out=1)
    newest = max(len(marked.tail) - 1, 0)

    def fits(fold: int) -> bool:
        return not has_more_messages(marked.with_folded(fold))

    fold = min(bisect_left(range(newest + 1), True, key=fits), newest)
    left_out = context.left_out + _message_count(context, fold)
    return replace(marked.with_folded(fold), left_out=left_out)


def has_more_messages(context: ContextParts) -> bool:
    """Return whether the request has more than `max_messages`, including those around it."""
    most = context.rules.max_messages
    if most is None:
        return False
    return len(context.request_messages()) + context.overhead_messages > most


def _message_count(context: ContextParts, fold: int) -> int:
    """Return how many messages are removed with the oldest `fold` groups of the tail."""
    gone = [group for group in context.tail[:fold] if not context.is_required(group)]
    return sum(len(group.source.messages) for group in gone)


@dataclass(frozen=True)
class TokenUsage:
    """Token usage of one request.

    Attributes:
        input_tokens: Tokens of the whole request.
        max_tokens: The limit.
        percent_used: 0 to 100, of the window.
        near_limit: Whether `summarize_at` is reached.
        exceeds_limit: Whether the request would exceed the limit without cuts and omissions
            beyond those in the state: `compact` is due.
        is_estimate: Whether the counts are estimates.
        parts: Tokens of each part: system, tools, pinned, summary, memory_block, tail; and
            reserved_output, which is not input. `recalled` and `notes` are included in
            memory_block.
    """

    input_tokens: int
    max_tokens: int
    percent_used: float
    near_limit: bool
    exceeds_limit: bool
    is_estimate: bool
    parts: Mapping[str, int]


@dataclass(frozen=True)
class View:
    """The request for one model call.

    Attributes:
        messages: The request, in order; legal for strict providers and within the limit.
        usage: Tokens in total and for each part.
        warnings: Repairs and omissions; empty when there are none.
        left_out: How many messages are replaced by a marker, because they did not fit or exceeded
            `max_messages`.
        output_left: Maximum tokens of the answer: what the request leaves of the limit, plus
            `reserve_output`; at least 1.
        explained: Builds the explanation; call `explain`.
    """

    messages: list[BaseMessage]
    usage: TokenUsage
    warnings: tuple[str, ...] = ()
    left_out: int = 0
    output_left: int = 1
    explained: Callable[[View], Explanation] | None = field(default=None, repr=False, compare=False)

    def explain(self) -> Explanation:
        """Return what this request is made of, what it hides, and why, without calling a model.

        Raises:
            ConfigurationError: When the view was not made by a memory.
        """
        if self.explained is None:
            raise ConfigurationError(
                "This view cannot be explained: only one that memory.view(...) has made knows why."
            )
        return self.explained(self)


def messages_to_send(view: View, where: str) -> list[BaseMessage]:
    """Return the messages of a view for a model call that is made now.

    Args:
        view: The view.
        where: The caller of the model, for the error.

    Raises:
        ConfigurationError: When there is no message besides the system text.
    """
    if all(role_of(message) == "system" for message in view.messages):
        why = " ".join(view.warnings) or "The conversation is empty: pass a message in the input."
        raise ConfigurationError(f"{where}: there is no message to call the model with. {why}")
    return view.messages
