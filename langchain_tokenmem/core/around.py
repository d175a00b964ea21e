"""What surrounds a conversation in a model call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict

from langchain_tokenmem.core.budget import TokenBudget


class Around(TypedDict, total=False):
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
