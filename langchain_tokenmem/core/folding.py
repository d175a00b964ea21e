"""What a request would weigh if its oldest groups were folded away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from langchain_tokenmem.core.context_parts import ContextParts, RequestCounter
from langchain_tokenmem.core.repair import FIRST_HUMAN_MESSAGE
from langchain_tokenmem.core.size_caps import request_tokens

SUMMARY_FRAME = 48
"""Tokens that fences, introduction and the system message around a summary take at most."""

MIN_SUMMARY = 32
"""Tokens that a summary may always grow by, however little is folded in."""


@dataclass(frozen=True, slots=True)
class FoldForecast:
    """Tokens of a request by the number of its oldest groups that are folded away.

    Attributes:
        fixed: Tokens of the parts that stay whatever is folded.
        total: Tokens of all tail groups.
        taken: Tokens of the folded groups, by their number.
        freed: Tokens that folding frees, by the number of groups folded.
        prior: Tokens of the running summary so far.
        most: Most tokens of the next one.
    """

    fixed: int
    total: int
    taken: Sequence[int]
    freed: Sequence[int]
    prior: int
    most: int

    @classmethod
    def of(
        cls, scene: ContextParts, meter: RequestCounter, *, prior: int = 0, most: int = 0
    ) -> FoldForecast:
        """Return the foldings of a scene whose own summary counts as a fixed part."""
        sizes = scene.sizes(scene.tail, meter)
        goes = [not scene.is_required(group) for group in scene.tail]
        first = (*scene.kept, *scene.tail)[:1]
        opens_itself = any(m.id == scene.first_request for g in first for m in g.messages)
        opening = 0 if opens_itself else meter.message(FIRST_HUMAN_MESSAGE)
        return cls(
            fixed=request_tokens(replace(scene.folded(0), tail=()), meter)
            + opening
            + scene.most_added(meter),
            total=sum(sizes),
            taken=[0, *accumulate(sizes)],
            freed=[0, *accumulate(n if g else 0 for n, g in zip(sizes, goes, strict=True))],
            prior=prior,
            most=most,
        )

    def allowance(self, fold: int) -> int:
        """Return the most tokens of the next summary: it grows by half of what it takes in."""
        if not fold:
            return self.prior
        return min(self.most, self.prior + max(MIN_SUMMARY, self.taken[fold] // 2))

    def summary(self, fold: int) -> int:
        """Return the most tokens of the next summary with its frame."""
        allowance = self.allowance(fold)
        return allowance + SUMMARY_FRAME if allowance else 0

    def after(self, fold: int) -> int:
        """Return the tokens of the request after `fold` groups were folded, at most."""
        return self.fixed + self.total - self.freed[fold] + self.summary(fold)

    def fewest(self, goal: int, *, within: int) -> int | None:
        """Return the fewest groups, up to `within`, whose folding reaches the goal."""
        return next((fold for fold in range(within + 1) if self.after(fold) <= goal), None)
