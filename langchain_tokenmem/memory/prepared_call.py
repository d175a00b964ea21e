"""A conversation split into the parts of one request, and reasoning bound to what was sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.block_types import has_media
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.explained_request import explanation_of
from langchain_tokenmem.core.inserted_text import recalled_ids
from langchain_tokenmem.core.messages import NamedMessages, role_of
from langchain_tokenmem.core.provider_format import has_bound_reasoning, limit_cache_marks
from langchain_tokenmem.core.request_options import RequestOptions, Trigger
from langchain_tokenmem.core.shortening import apply_cut
from langchain_tokenmem.core.size_caps import message_cap, part_tokens, request_tokens
from langchain_tokenmem.core.view import (
    TokenUsage,
    View,
    fit_to_count,
    fit_to_limit,
    has_more_messages,
)
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.state import Block, MemoryState, Sent
from langchain_tokenmem.tokens.counters import TokenCounter, request_digest


@dataclass(frozen=True)
class PreparedCall:
    """A conversation split into the parts of one request, with what decisions about it need.

    Attributes:
        messages: The conversation, each message with an id.
        before: The given state.
        options: Keywords of the call.
        context: The parts of the request under the state.
        budget: The budget of the call, with the margin for these counts.
        state: The given state, updated to the current words of the messages.
        counter: Counts tokens, corrected by what the provider has reported.
        model: Name of the model whose tokens are counted; empty if unknown.
        is_called: Whether the model itself is known, not only the name in the budget.
        ratio: The correction; None if counts are exact.
        mode: The current mode, or None.
        trigger: When a summary is due; None for only by hand.
        provider_tokens: Tokens of the request as counted by its provider; None if it was not
            asked.
        reported: Tokens of the newest request reported by a reply; 0 until enough replies have.
    """

    messages: NamedMessages
    before: MemoryState
    options: RequestOptions
    context: ContextParts
    budget: TokenBudget
    state: MemoryState
    counter: TokenCounter
    model: str
    is_called: bool
    ratio: float | None = None
    mode: ModeProfile | None = None
    trigger: Trigger | None = None
    provider_tokens: int | None = None
    reported: int = 0

    def view(self) -> View:
        """Return the request for the call; it always fits the limit.

        Raises:
            BudgetExceededError: When the parts that may not be dropped do not fit even when capped.
        """
        budget = self.budget
        # What is cut or left out only here is not stored.
        whole = replace(self.context, notes_after_fold=None)
        counted = fit_to_count(whole) if has_more_messages(whole) else whole
        context = fit_to_limit(counted, budget)
        # Without a group, a provider's rules may require a message between its neighbours.
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
            is_estimate=self.counter.method != "exact" and total != self.provider_tokens,
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
                explanation_of,
                context=context,
                budget=budget,
                trigger=self.trigger,
                state=self.state,
                counted_by=self.counted_by,
            ),
        )

    def counted_by(self) -> str:
        """Return a description of how tokens are counted."""
        if self.provider_tokens is not None:
            return f"the provider ({self.counter.id})"
        if self.counter.method == "exact":
            return f"the vocabulary {self.counter.id}"
        if self.ratio is not None and self.ratio != 1:
            return f"an estimate ({self.counter.id}), corrected by reported usage"
        return f"an estimate ({self.counter.id})"

    def is_prepared_for(self, state: MemoryState) -> bool:
        """Return whether a state leads to this same request.

        It does if only turn memories are new, because those of the context are up to date.
        """
        before: Mapping[str, object] = {**self.state}
        after: Mapping[str, object] = {**state}
        keys = (before.keys() | after.keys()) - {"turns"}
        return all(before.get(key) is after.get(key) for key in keys)

    def shown_ids(self) -> set[str]:
        """Return the ids of the messages that the request shows, including recalled ones."""
        sent = {message.id or "" for message in self.view().messages}
        return sent | recalled_ids(self.state, sent)


_MORE_THAN_MOST = (
    "The request has more messages than max_messages, {most}: the newest group, the newest human "
    "message, pinned ones, and the first request unless pin_first=False, have to be there."
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


def sent_request(
    messages: Sequence[BaseMessage], tools: Sequence[Any] | None, unbound_to: str | None
) -> Sent:
    """Return what the state records about a request.

    Args:
        messages: Its messages, including the system text.
        tools: Its tools.
        unbound_to: Id of the newest message when the prefix last changed; None before any change.
    """
    unmarked = limit_cache_marks(messages, 0)  # the marks move from request to request
    digest = request_digest(unmarked, tools).hex()
    return {"digest": digest, "count": len(messages), "unbound_to": unbound_to}


def is_continued(
    sent: Sent | None, messages: Sequence[BaseMessage], tools: Sequence[Any] | None
) -> bool:
    """Return whether a request begins with the previous one, including tools."""
    if sent is None or len(messages) < sent["count"]:
        return False
    return sent_request(messages[: sent["count"]], tools, None)["digest"] == sent["digest"]


def is_untouched(context: ContextParts, state: MemoryState) -> bool:
    """Return whether a conversation begins with bound reasoning and nothing was decided yet.

    Such a conversation comes from elsewhere: requests before the first answer are recorded.
    """
    is_new = "sent" not in state and state["summary"] is None and not state["cuts"]
    return is_new and any(map(has_bound_reasoning, answers_in(context)[:1]))


def answers_in(context: ContextParts) -> list[AIMessage]:
    """Return the model's messages in a conversation, oldest first."""
    return [
        message
        for group in chain(context.kept, context.tail)
        for message in group.source.messages
        if isinstance(message, AIMessage)
    ]


def with_sent(state: MemoryState, sent: Sent | None) -> MemoryState:
    """Return a state with this newest request, or without one; unchanged if it is the same."""
    if state.get("sent") == sent:
        return state
    state = state.copy()
    state.pop("sent", None)
    return {**state, "sent": sent} if sent else state
