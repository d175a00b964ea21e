"""Keywords of a memory's methods: what surrounds a conversation, and how it is compacted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.planning import Steps


class RequestOptions(TypedDict, total=False):
    """Keywords of every method that looks at a whole request; each may be left out.

    Attributes:
        system: System text of the application; system messages may stand in the messages, too.
        tools: Tool schemas that the request carries.
        overhead_tokens: Tokens around the conversation that are in neither of these.
        budget: Beats the memory's own for this call.
    """

    system: str | BaseMessage | None
    tools: Sequence[Any] | None
    overhead_tokens: int
    budget: TokenBudget | None


class CompactionOptions(RequestOptions, total=False):
    """Keywords of every method that compacts; each may be left out.

    Attributes:
        force: Fold everything but the recent share, also below the thresholds.
        instruction: What this one summary should pay attention to.
        steps: `shorten` shortens old tool results and folds nothing; `shorten_if_enough` does so
            only where that is enough; by default both steps are taken.
    """

    force: bool
    instruction: str | None
    steps: Steps
