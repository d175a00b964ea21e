"""Trigger and policy of automatic summaries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from typing_extensions import TypedDict

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.errors import ConfigurationError

TAIL_BATCH = 10
"""Number of messages that a full tail drops at once: one by one would change every request."""


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
