"""Rules for every request of a memory, when its summaries are due, and options of a single call."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict

from langchain_tokenmem.core.argument_checks import checked_choice
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.message_times import ShownTimes
from langchain_tokenmem.core.profiles import LegalityProfile, profile_named
from langchain_tokenmem.core.repair import Dangling
from langchain_tokenmem.errors import ConfigurationError

TAIL_BATCH = 10
"""Number of messages that a full tail drops at once: one by one would change every request."""

LEAST_MESSAGES = 2
"""Least number that the messages of a request can be held to."""

SummaryRole = Literal["auto", "system", "human"]
"""Message in which the running summary stands: the system message, or the first human one.

`auto` is the human one: extracts of tool output do not belong to the rules of an application; and
beside a prompt that the memory does not know a second system message would be refused."""

Steps = Literal["all", "shorten", "shorten_if_enough"]
"""Steps that a compaction may take: both; only the shortening of old results, as far as it gets; or
that one only where it is enough, because folding follows in a step of its own."""


@dataclass(frozen=True, kw_only=True)
class RequestRules:
    """Rules for the messages of every request of a memory.

    Args:
        legality: Rules of the model's provider: a profile, its name, or `auto`: by the model.
        summary_role: Message that holds the summary: `system`, the first `human` one, or `auto`.
        dangling: `answer` a tool call without a result (as interrupted), or `drop` it.
        pin_first: Keep the first human message in every view.
        max_messages: Most messages of a request, the system message counted (2 or more): the oldest
            are left out of it, with or without summaries. Messages that have to be there stay.
        max_tail_messages: Most messages after the summary; the tail then moves by ten at a time.
        show_times: Show the time of each `human` message, or of `all`, in front of its text.
        keep_results: How many of the newest tool results are not shortened as they get old, in
            addition to those within `shares.recent`.
        whole_tools: Names of tools whose results are not shortened as they get old. They are still
            cut if they are too large for a message, and summarized with the rest.
        clear_tool_inputs: Leave out the arguments of a message's tool calls when one of their
            results is shortened as it gets old, and none of them is to stay whole.

    Raises:
        ConfigurationError: When a value is not one of its choices, or a number is too small.

    Example:
        >>> RequestRules(legality="anthropic", pin_first=False).dangling
        'answer'
    """

    legality: LegalityProfile | str = "auto"
    summary_role: SummaryRole = "auto"
    dangling: Dangling = "answer"
    pin_first: bool = True
    max_messages: int | None = None
    max_tail_messages: int | None = None
    show_times: ShownTimes | None = None
    keep_results: int = 0
    whole_tools: Collection[str] = frozenset()
    clear_tool_inputs: bool = False

    def __post_init__(self) -> None:
        named = self.whole_tools
        if isinstance(named, str) or not all(isinstance(name, str) for name in named):
            raise ConfigurationError(
                f'whole_tools is {named!r:.100}; it is a set of tool names, such as {{"search"}}.'
            )
        object.__setattr__(self, "whole_tools", frozenset(named))
        if type(self.keep_results) is not int or self.keep_results < 0:
            raise ConfigurationError(
                f"keep_results is {self.keep_results!r}; it is a number of results, 0 or more."
            )
        if self.legality != "auto":
            object.__setattr__(self, "legality", profile_named(self.legality))
        checked_choice(self.dangling, Dangling, "dangling")
        checked_choice(self.summary_role, SummaryRole, "summary_role")
        if self.show_times is not None:
            checked_choice(self.show_times, ShownTimes, "show_times")
        tail, most = self.max_tail_messages, self.max_messages
        if tail is not None and not (type(tail) in (int, float) and tail > TAIL_BATCH):
            raise ConfigurationError(
                f"max_tail_messages is {tail!r:.100}; the tail moves by {TAIL_BATCH} "
                f"messages at a time, so it has to be more. For a few messages in a request there "
                f"is max_messages."
            )
        if most is not None and (type(most) is not int or most < LEAST_MESSAGES):
            raise ConfigurationError(
                f"max_messages is {most!r}; it is a whole number, and {LEAST_MESSAGES} is the "
                f"least: a question with its system message."
            )


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


class RequestOptions(TypedDict, total=False):
    """Options of every method that builds or counts a whole request; each may be left out.

    Attributes:
        system: System text of the application, empty where it has none; system messages may stand
            in the messages, too. None where it is not known: pins then stand in the first human
            message, unless a system message is there.
        tools: Tool schemas that the request carries.
        overhead_tokens: Tokens around the conversation that are in neither of these.
        overhead_messages: Messages that make up some of these tokens, such as a prompt's examples:
            `max_messages` counts them.
        budget: Budget of this call, instead of the memory's own.
        settings: Other keywords of the model call, such as `tool_choice`: a summarizer that reuses
            the request in a provider's cache sends the same ones.
        todos: To-do list that a graph's state holds, items with a text and a status.
        mode: Name of the mode that is on from this call on, empty for none; None for no change.
    """

    system: str | BaseMessage | None
    tools: Sequence[Any] | None
    overhead_tokens: int
    overhead_messages: int
    budget: TokenBudget | None
    settings: Mapping[str, Any]
    todos: Any
    mode: str | None


class CompactionOptions(RequestOptions, total=False):
    """Options of every method that compacts; each may be left out.

    Attributes:
        force: Fold everything but the recent share, also below the thresholds.
        instruction: Instruction for this one summary.
        steps: `shorten` shortens old tool results and folds nothing; `shorten_if_enough` does so
            only where that is enough; by default both steps are taken.
    """

    force: bool
    instruction: str | None
    steps: Steps
