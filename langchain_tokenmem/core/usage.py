"""Token usage of a request under its budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from langchain_tokenmem.core.budget import TokenBudget


@dataclass(frozen=True)
class TokenUsage:
    """Token usage of one request.

    Attributes:
        input_tokens: Tokens of the whole request.
        max_tokens: The limit.
        percent_used: 0 to 100, of the window.
        near_limit: Whether `warn_at` is reached.
        exceeds_limit: Whether the request would be over the limit if nothing were cut or left out
            of it beyond what the state says: `compact` is due.
        is_estimate: Whether the counts are estimates.
        parts: Tokens of each part: system, tools, pinned, summary, memory_block, tail; and
            reserved_output, which is no input. `recalled` and `notes` say what of the memory
            block is theirs.
    """

    input_tokens: int
    max_tokens: int
    percent_used: float
    near_limit: bool
    exceeds_limit: bool
    is_estimate: bool
    parts: Mapping[str, int]


def usage_of(
    parts: Mapping[str, int],
    budget: TokenBudget,
    *,
    exact: bool,
    notes: int = 0,
    unfitted: int = 0,
) -> TokenUsage:
    """Return the usage of a request from the tokens of its parts.

    Args:
        parts: Tokens of each part, from `part_tokens`.
        budget: The budget of the request.
        exact: Whether the counts are exact.
        notes: Tokens of the memory block that are those of working notes and kept notes.
        unfitted: Tokens of the request before it was fitted to the limit.
    """
    total = sum(parts.values())
    return TokenUsage(
        input_tokens=total,
        max_tokens=budget.limit,
        percent_used=round(100 * total / budget.context_window, 1),
        near_limit=total >= budget.warn_tokens,
        exceeds_limit=max(total, unfitted) > budget.limit,
        is_estimate=not exact,
        parts={
            **parts,
            "recalled": parts["memory_block"] - notes,
            "notes": notes,
            "reserved_output": budget.reserve_output,
        },
    )
