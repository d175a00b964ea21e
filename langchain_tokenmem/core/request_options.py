"""Keyword arguments of the methods that build or compact a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.planning import Steps

SummaryRole = Literal["auto", "system", "human"]
"""Message in which the running summary stands: the system message, or the first human one.

`auto` is the human one: extracts of tool output do not belong to the rules of an application; and
beside a prompt that the memory does not know a second system message would be refused."""


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
