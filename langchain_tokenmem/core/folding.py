"""Forecast of the tokens of a request after its oldest groups are folded into the summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.repair import FIRST_HUMAN_MESSAGE
from langchain_tokenmem.core.size_caps import request_tokens

SUMMARY_FRAME = 48
"""Tokens that fences, introduction and the system message around a summary take at most."""

MIN_SUMMARY = 32
"""Tokens that a summary may always grow by, however little is folded in."""


@dataclass(frozen=True, slots=True)
class FoldForecast:
    """Tokens of a request by the number of its oldest groups that are folded into the summary.

    Attributes:
        fixed_tokens: Tokens of the parts that stay whatever is folded.
        tail_tokens: Tokens of all tail groups.
        folded_tokens: Tokens of the folded groups, by their number.
        freed_tokens: Tokens that folding frees, by the number of groups folded.
        prior_tokens: Tokens of the running summary so far.
        max_tokens: Most tokens of the next one.
    """

    fixed_tokens: int
    tail_tokens: int
    folded_tokens: Sequence[int]
    freed_tokens: Sequence[int]
    prior_tokens: int
    max_tokens: int

    @classmethod
    def of(
        cls, context: ContextParts, *, prior_tokens: int = 0, max_tokens: int = 0
    ) -> FoldForecast:
        """Return the forecast of a context; its own summary counts as a fixed part."""
        sizes = context.sizes(context.tail)
        goes = [not context.is_required(group) for group in context.tail]
        first = (*context.kept, *context.tail)[:1]
        opens_itself = any(m.id == context.first_request for g in first for m in g.messages)
        opening = 0 if opens_itself else context.counter.message(FIRST_HUMAN_MESSAGE)
        return cls(
            fixed_tokens=request_tokens(replace(context.with_folded(0), tail=()))
            + opening
            + context.max_added_tokens(),
            tail_tokens=sum(sizes),
            folded_tokens=[0, *accumulate(sizes)],
            freed_tokens=[0, *accumulate(n if g else 0 for n, g in zip(sizes, goes, strict=True))],
            prior_tokens=prior_tokens,
            max_tokens=max_tokens,
        )

    def allowance(self, fold: int) -> int:
        """Return the most tokens of the next summary: it grows by half of what it takes in."""
        if not fold:
            return self.prior_tokens
        growth = max(MIN_SUMMARY, self.folded_tokens[fold] // 2)
        return min(self.max_tokens, self.prior_tokens + growth)

    def summary(self, fold: int) -> int:
        """Return the most tokens of the next summary with its frame."""
        allowance = self.allowance(fold)
        return allowance + SUMMARY_FRAME if allowance else 0

    def after(self, fold: int) -> int:
        """Return the tokens of the request after `fold` groups were folded, at most."""
        return self.fixed_tokens + self.tail_tokens - self.freed_tokens[fold] + self.summary(fold)

    def fewest(self, goal: int, *, within: int) -> int | None:
        """Return the fewest groups, up to `within`, that must be folded to reach the goal."""
        return next((fold for fold in range(within + 1) if self.after(fold) <= goal), None)
