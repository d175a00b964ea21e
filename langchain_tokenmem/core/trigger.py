"""Trigger and policy of automatic summaries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.errors import ConfigurationError

TAIL_BATCH = 10
"""Number of messages that a full tail drops at once: one by one would change every request."""


LEAST_MESSAGES = 2
"""Least number that the messages of a view can be held to."""


_NUMBERS = {int, float}


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """Conditions under which a summary is due; without any, the budget's `summarize_at`.

    Args:
        tokens: From this many tokens of the request on.
        fraction: From this share of the window on.
        messages: From this many messages in the tail on.
        combine: Whether `any` of the conditions is enough or `all` have to hold.

    Raises:
        ConfigurationError: When a number makes no sense.

    Example:
        >>> Trigger(fraction=0.6, messages=40, combine="all").messages
        40
    """

    tokens: int | None = None
    fraction: float | None = None
    messages: int | None = None
    combine: Literal["any", "all"] = "any"

    def __post_init__(self) -> None:
        for name in ("tokens", "messages"):
            value = getattr(self, name)
            if value is not None and not (type(value) in _NUMBERS and value >= 1):
                raise ConfigurationError(f"Trigger: {name} is {value!r}; it is 1 or more.")
        share = self.fraction
        if share is not None and not (type(share) in _NUMBERS and 0 < share <= 1):
            raise ConfigurationError(
                f"Trigger: fraction is {self.fraction!r}; it is over 0 and at most 1."
            )
        if self.combine not in ("any", "all"):
            raise ConfigurationError(f"Trigger: combine is {self.combine!r}; it is any or all.")

    @property
    def is_default(self) -> bool:
        """True where no condition is set, so that the budget decides."""
        return self.tokens is None and self.fraction is None and self.messages is None

    def is_due(self, tokens: int, messages: int, budget: TokenBudget) -> bool:
        """Return whether a summary is due.

        Args:
            tokens: Tokens of the request.
            messages: Messages in the tail.
            budget: Gives the window and `summarize_at`.
        """
        if self.is_default:
            return tokens > budget.summarize_tokens
        found = []
        if self.tokens is not None:
            found.append(tokens >= self.tokens)
        if self.fraction is not None:
            found.append(tokens >= self.fraction * budget.context_window)
        if self.messages is not None:
            found.append(messages >= self.messages)
        return any(found) if self.combine == "any" else all(found)


@dataclass(frozen=True, kw_only=True)
class SummaryPolicy:
    """Policy of automatic summaries, and of how many messages there are in a view.

    Attributes:
        trigger: When a summary is due; None for never.
        max_tail_messages: Most messages of the tail: more are folded into the summary; None for any
            number.
        max_messages: Most messages of a view, the system message counted: the oldest groups are
            left out of it; None for any number.
        window: Messages that a summary by hand, or by an own trigger, leaves verbatim where
            `target` allows.
    """

    trigger: Trigger | None = Trigger()
    max_tail_messages: int | None = None
    max_messages: int | None = None
    window: int = 0

    def __post_init__(self) -> None:
        if self.trigger is not None and not isinstance(self.trigger, Trigger):
            raise ConfigurationError(
                f"trigger is {self.trigger!r}; it is None or a Trigger, such as "
                f"Trigger(fraction=0.6)."
            )
        if self.max_tail_messages is not None and self.trigger is None:
            raise ConfigurationError(
                "max_tail_messages folds messages into a summary, and trigger=None turns "
                "summaries off; leave one of them out."
            )
        tail = self.max_tail_messages
        if tail is not None and not (type(tail) in _NUMBERS and tail > TAIL_BATCH):
            raise ConfigurationError(
                f"max_tail_messages is {tail!r:.100}; the tail moves by {TAIL_BATCH} "
                f"messages at a time, so it has to be more. For a few messages in a request there "
                f"is max_messages."
            )
        most = self.max_messages
        if most is not None and (type(most) is not int or most < LEAST_MESSAGES):
            raise ConfigurationError(
                f"max_messages is {most!r}; it is a whole number, and {LEAST_MESSAGES} is the "
                f"least: a question with its system message."
            )

    def with_window(self, window: int, *, summarizes: bool) -> SummaryPolicy:
        """Return the policy with so many messages verbatim, and without summaries if wanted."""
        if not summarizes:
            return SummaryPolicy(trigger=None, window=window)
        return replace(self, window=window)
