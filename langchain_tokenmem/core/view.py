"""The exact list of messages for one model call, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.budget import TokenBudget, TokenUsage, usage_of
from langchain_tokenmem.core.context_parts import ContextParts, RequestCounter
from langchain_tokenmem.core.planning import fit_to_limit


@dataclass(frozen=True)
class View:
    """The request for one model call.

    Attributes:
        messages: What is sent, in order; legal for strict providers and within the limit.
        usage: Tokens in all and for each part.
        warnings: What was repaired or left out; empty when nothing was.
        left_out: How many messages a marker stands for, because they did not fit.
    """

    messages: list[BaseMessage]
    usage: TokenUsage
    warnings: tuple[str, ...] = ()
    left_out: int = 0


def build_view(
    scene: ContextParts, budget: TokenBudget, meter: RequestCounter, *, exact: bool
) -> View:
    """Return the view of a scene: a pure function, which fits whatever the scene holds.

    Raises:
        BudgetExceededError: When the parts that may not be dropped do not fit even capped.
    """
    whole, scene = scene, fit_to_limit(scene, budget, meter)
    front = scene.front()
    warnings = scene.notes
    if scene.summary is not None and scene.summary["failures"]:
        why = "; ".join(scene.summary["failures"])
        said = f"The running summary was written by {scene.summary['model']}"
        warnings += (f"{said} after refused attempts: {why}.",)
    if whole.summary is not scene.summary:
        warnings += ("The running summary did not fit beside the newest messages.",)
    if whole.with_newest_block().blocks and not scene.blocks:
        warnings += ("The recalled messages did not fit beside the newest messages.",)
    if scene.left_out:
        said = f"{scene.left_out:,} messages did not fit and are left out"
        warnings += (f"{said}; compact() folds them into a summary.",)
    return View(
        messages=[*([front] if front is not None else []), *scene.body(meter)],
        usage=usage_of(scene.parts(meter), budget, exact=exact),
        warnings=warnings,
        left_out=scene.left_out,
    )
