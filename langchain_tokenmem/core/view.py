"""View: the exact list of messages for one model call, with its token usage.

A conversation that is too long is fitted first: a marker replaces the oldest groups.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.block_types import has_media
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.explained_request import explanation_of
from langchain_tokenmem.core.explanation import Explanation
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.planning import fewest_folds
from langchain_tokenmem.core.shortening import apply_cut
from langchain_tokenmem.core.size_caps import (
    cap_messages,
    fit_required,
    message_cap,
    part_tokens,
    request_tokens,
)
from langchain_tokenmem.core.turns import ShownTurns
from langchain_tokenmem.errors import BudgetExceededError, ConfigurationError
from langchain_tokenmem.state import Block, MemoryState


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


_MORE_THAN_MOST = (
    "The request has more messages than max_messages, {most}: the newest group, the newest human "
    "message, pinned ones, and the first request unless pin_first=False, have to be there."
)


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


def build_view(
    context: ContextParts,
    budget: TokenBudget,
    *,
    exact: bool,
    provider_tokens: int | None,
    state: MemoryState,
    counted_by: Callable[[], str],
) -> View:
    """Return the view of a context; it always fits the limit.

    Args:
        context: The conversation under its state.
        budget: The budget with the limit and its shares.
        exact: Whether the counts are exact.
        provider_tokens: Tokens of the request as its provider counts them; None if not known.
        state: The state, for the explanation.
        counted_by: How tokens are counted, for the explanation.

    Raises:
        BudgetExceededError: When the parts that may not be dropped do not fit even when capped.
    """
    # What is cut or left out only here is not stored.
    whole = replace(context, notes_after_fold=None)
    counted = fit_to_count(whole) if has_more_messages(whole) else whole
    context = fit_to_limit(counted, budget)
    # Where a group was removed, a provider's rules may require a message between its neighbours.
    while len(context.tail) > 1 and has_more_messages(context):
        context = fit_to_limit(fit_to_count(context), budget)
    parts = part_tokens(context)
    notes = _notes_tokens(context) if context.blocks else 0
    total = sum(parts.values())
    usage = TokenUsage(
        input_tokens=total,
        max_tokens=budget.limit,
        percent_used=round(100 * total / budget.context_window, 1),
        near_limit=total >= budget.summarize_tokens,
        exceeds_limit=counted is not context and request_tokens(counted) > budget.limit,
        is_estimate=not exact and total != provider_tokens,
        parts={
            **parts,
            "recalled": parts["memory_block"] - notes,
            "notes": notes,
            "reserved_output": budget.reserve_output,
        },
    )
    return View(
        messages=context.request_messages(),
        usage=usage,
        warnings=(*context.warnings, *_view_warnings(whole, counted, context, budget)),
        left_out=context.left_out,
        output_left=max(1, budget.limit + budget.reserve_output - total),
        explained=partial(
            explanation_of, context=context, budget=budget, state=state, counted_by=counted_by
        ),
    )


def _view_warnings(
    whole: ContextParts, counted: ContextParts, shown: ContextParts, budget: TokenBudget
) -> Iterator[str]:
    """Yield the warnings about a request that shows less than the state says.

    Args:
        whole: The conversation under its state.
        counted: The same within `max_messages`.
        shown: The same within the limit.
        budget: The budget with the limit and its shares.
    """
    newest = shown.summary["entries"][-1] if shown.summary is not None else None
    if newest is not None and newest["failures"]:
        why = "; ".join(newest["failures"])
        written = f"The newest entry of the running summary was written by {newest['model']}"
        yield f"{written} after refused attempts: {why}."
    if shown is not whole:
        yield from _omissions(whole, shown)
    if shown.left_out > counted.left_out:
        yield "The oldest messages do not fit and are left out until a summary covers them."
    if shown.cuts:
        yield from _cut_warnings(shown, budget)
    if has_more_messages(shown):
        yield _MORE_THAN_MOST.format(most=shown.rules.max_messages)


def _omissions(whole: ContextParts, shown: ContextParts) -> Iterator[str]:
    """Yield a warning for each part that a fitted request does not show."""
    if whole.summary is not None and shown.summary is None:
        yield "The running summary did not fit beside the newest messages."
    elif whole.summary != shown.summary:
        yield "Older entries of the running summary did not fit and are left out."
    if shown.todos is None and whole.todos_after_fold(len(whole.tail)):
        yield "The to-do list did not fit beside the newest messages."
    if whole.has_notes and not shown.has_notes:
        yield "The working notes did not fit beside the newest messages."
    if whole.with_notes("").with_newest_block().blocks and not shown.blocks:
        yield "The recalled messages did not fit beside the newest messages."


def _cut_warnings(context: ContextParts, budget: TokenBudget) -> tuple[str, ...]:
    """Return a warning for each message that is shown cut because it is too long.

    A shortened old tool result is not one of them: the model has seen it whole.
    """
    share, counter = message_cap(context, budget)
    found = [
        (message, counter.message(message))
        for group in (*context.kept, *context.tail)
        for message in group.messages
        if (message.id or "") in context.cuts
    ]
    return tuple(
        f"Message {message.id!r} of {tokens:,} tokens does not fit beside the rest; shortened to "
        f"{counter.message(apply_cut(message, context.cuts[message.id or ''])):,} tokens"
        f"{', without its pictures and files' if has_media(message.content) else ''}."
        for message, tokens in found
        if role_of(message) != "tool" or tokens > share
    )


def _notes_tokens(context: ContextParts) -> int:
    """Return the tokens of working notes and kept notes in the memory blocks."""
    blocks = {
        key: Block(text=block["text"].replace(block.get("kept", ""), "", 1), ids=[])
        for key, block in context.blocks.items()
    }
    without, groups = replace(context, blocks=blocks), (*context.kept, *context.tail)
    return sum(map(context.block_tokens, groups)) - sum(map(without.block_tokens, groups))
