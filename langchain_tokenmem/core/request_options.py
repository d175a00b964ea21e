"""Rules for every request of a memory, triggers of its summaries, and options of a single call."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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
"""Messages that a full tail drops at once: dropping one by one would change every request."""

LEAST_MESSAGES = 2
"""Minimum for `max_messages`."""

SummaryRole = Literal["auto", "system", "human"]
"""Message that contains the running summary: the system message, or the first human one.

`auto` is the human one: extracts of tool output do not belong in the rules of an application, and
next to a prompt that the memory does not know, a second system message would be refused."""

Steps = Literal["all", "shorten", "shorten_if_enough"]
"""Steps that a compaction may take: both; only shortening old results, as far as possible; or
only shortening, and only if it is enough, because folding follows in a separate step."""


@dataclass(frozen=True, kw_only=True)
class RequestRules:
    """Rules for the messages of every request of a memory.

    Args:
        legality: Rules of the model's provider: a profile, its name, or `auto` (by model).
        summary_role: Message for the running summary: `system`, the first `human` one, or `auto`.
        dangling: `answer` a tool call without a result (as interrupted), or `drop` it.
        pin_first: Keep the first human message in every view.
        max_messages: Maximum messages of a request, including the system message (2 or more): the
            oldest are left out, with or without summaries. Required messages stay.
        max_tail_messages: Maximum messages after the summary; the tail then moves by ten at a time.
        show_times: Show the time of each `human` message, or of `all` messages, before the text.
        keep_results: How many of the newest tool results are not shortened with age, in
            addition to those within `shares.recent`.
        whole_tools: Names of tools whose results are not shortened with age. They are still
            cut if they are too large for a message, and summarized with the rest.
        clear_tool_inputs: Leave out the arguments of a message's tool calls when one of their
            results is shortened with age, and none of them must stay whole.

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
"""A size in LangChain's form: `("fraction", 0.8)` of the window, `("tokens", 6_000)` of the
request, `("messages", 40)` in the tail."""


class TriggerClause(TypedDict, total=False):
    """Sizes that must all be reached, in LangChain's form.

    Attributes:
        fraction: Share of the window.
        tokens: Tokens of the request.
        messages: Messages in the tail.
    """

    fraction: float
    tokens: int
    messages: int


AnyTrigger = ContextSize | TriggerClause | Sequence[ContextSize | TriggerClause]
"""What makes a summary due: a size, a clause, or a list of them, any of which is enough."""

_FORMS = '("fraction", 0.8), {"tokens": 6_000, "messages": 40}, or a list of such'


@dataclass(frozen=True)
class Trigger:
    """What makes a summary due.

    Attributes:
        clauses: Sizes by kind; a clause holds if all of its sizes are reached, and one
            clause is enough. If there are none, the budget's `summarize_at` applies.
    """

    clauses: tuple[Mapping[str, float], ...] = ()

    @classmethod
    def of(cls, given: Any) -> Trigger | None:
        """Return the trigger for an argument; None for no summaries.

        Args:
            given: `auto` for the budget's `summarize_at`, None, or an `AnyTrigger`.

        Raises:
            ConfigurationError: When the form is invalid, or a number is out of range.
        """
        if given is None or isinstance(given, Trigger):
            return given
        if given == "auto":
            return cls()
        clauses = [given] if isinstance(given, Mapping) or _is_size(given) else given
        if not isinstance(clauses, Sequence) or isinstance(clauses, str) or not clauses:
            raise ConfigurationError(f'trigger is {given!r:.100}; pass "auto", None, {_FORMS}.')
        return cls(tuple(map(_clause, clauses)))

    def due(self, budget: TokenBudget) -> str:
        """Return the sizes in words, such as `at 6,000 tokens and 40 messages`."""

        def in_words(kind: str, size: float) -> str:
            is_share = kind == "fraction"
            count = size * budget.context_window if is_share else size
            return f"{int(count):,} {'tokens' if is_share else kind}"

        clauses = self.clauses or ({"tokens": budget.summarize_tokens},)
        words = (" and ".join(in_words(*size) for size in clause.items()) for clause in clauses)
        return f"at {' or '.join(words)}"


def _is_size(given: Any) -> bool:
    """Return whether a value is a single size, not a tuple of conditions."""
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
        window: Messages that a manual summary leaves verbatim if `target` allows.
    """

    trigger: Trigger | None = Trigger()
    window: int = 0


class RequestOptions(TypedDict, total=False):
    """Options of every method that builds or counts a whole request; each is optional.

    Attributes:
        system: System text of the application, empty if it has none; system messages may also be
            among the messages. None if unknown: pins then go into the first human
            message, unless there is a system message.
        tools: Tool schemas in the request.
        overhead_tokens: Tokens around the conversation that are in neither of these.
        overhead_messages: Number of messages in this overhead, such as a prompt's examples;
            `max_messages` includes them.
        budget: Budget of this call, instead of the memory's own.
        settings: Other keywords of the model call, such as `tool_choice`: a summarizer that reuses
            the request in a provider's cache sends the same ones.
        todos: To-do list in a graph's state, items with a text and a status.
        mode: Name of the mode from this call on, empty for no mode; None for no change.
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
    """Options of every method that compacts; each is optional.

    Attributes:
        force: Fold about half of the request, even below the thresholds.
        instruction: Instruction for this one summary.
        steps: `shorten` only shortens old tool results; `shorten_if_enough` does so
            only if that is enough; by default both steps are taken.
    """

    force: bool
    instruction: str | None
    steps: Steps
