"""A conversation split into the parts of one request, and reasoning bound to what was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.inserted_text import recalled_ids
from langchain_tokenmem.core.messages import NamedMessages
from langchain_tokenmem.core.provider_format import has_bound_reasoning, limit_cache_marks
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.view import View, build_view
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.state import MemoryState, Sent
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
    provider_tokens: int | None = None
    reported: int = 0

    def view(self) -> View:
        """Return the request for the call."""
        return build_view(
            self.context,
            self.budget,
            exact=self.counter.method == "exact",
            provider_tokens=self.provider_tokens,
            state=self.state,
            counted_by=self.counted_by,
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
