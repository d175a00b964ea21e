"""What the next model call would be sent, and why, without calling anything."""

from __future__ import annotations

from dataclasses import dataclass

from langchain_tokenmem.core.planning import Plan
from langchain_tokenmem.core.view import View


@dataclass(frozen=True)
class Explanation:
    """The exact list of a model call and the plan before it.

    Attributes:
        view: The list as it would be sent now, with tokens by part and warnings.
        plan: What `compact` would do first: the reason, the cuts, how many groups it would fold,
            tokens before and after.
        profile: Whose rules the list obeys.
    """

    view: View
    plan: Plan
    profile: str
