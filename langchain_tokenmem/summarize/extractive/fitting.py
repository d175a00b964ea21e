"""Fitting of a summary to its limit, exact by the caller's own count of the whole text."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from langchain_tokenmem.summarize.extractive.items import Item
from langchain_tokenmem.summarize.extractive.literals import KIND_WEIGHTS
from langchain_tokenmem.summarize.extractive.sections import NOTHING, format_lines
from langchain_tokenmem.summarize.extractive.selection import Selection

_CANDIDATES_PER_TOKEN = 2
_MIN_CANDIDATES = 200
# Parts count for more than the whole with most counters; what that leaves is filled again.
_ROUNDS = 3
_CARRIED_PROMISE = 1.5


def best_text(items: Sequence[Item], max_tokens: int, count_text: Callable[[str], int]) -> str:
    """Write the best summary of the items that keeps to the limit.

    Args:
        items: All candidates, in the order of the conversation.
        max_tokens: Most tokens of the text.
        count_text: Counts them.

    Returns:
        The text, at most `max_tokens` by `count_text`; empty only when not even one character
        fits.
    """
    if not items:
        return _fitting(NOTHING, max_tokens, count_text)
    limit = max(_MIN_CANDIDATES, _CANDIDATES_PER_TOKEN * max_tokens)
    selection = Selection(_most_promising(items, limit), count_text)
    room = max_tokens
    text = ""
    for _ in range(_ROUNDS):
        selection.fill(room)
        text = format_lines(selection.lines())
        # Counts of parts need not add up to the count of the whole: only this one decides.
        while selection.steps and count_text(text) > max_tokens:
            selection.undo()
            text = format_lines(selection.lines())
        room = max_tokens - count_text(text)
    return text if selection.steps else _smallest(selection.items, max_tokens, count_text)


def _most_promising(items: Sequence[Item], limit: int) -> list[Item]:
    """Keep the candidates that could make it, so that only those are counted."""
    if len(items) <= limit:
        return list(items)

    def promise(item: Item) -> float:
        literals = sum(KIND_WEIGHTS.get(literal.kind, 1.0) for literal in item.literals[:6])
        return (item.worth + literals * item.source.value) * (
            _CARRIED_PROMISE if item.carried else 1.0
        )

    best = heapq.nlargest(limit, range(len(items)), key=lambda i: (promise(items[i]), -i))
    return [items[index] for index in sorted(best)]


def _smallest(items: Sequence[Item], max_tokens: int, count_text: Callable[[str], int]) -> str:
    """Return one literal, else a piece of the best item, where no section fits."""
    ranked = sorted(items, key=lambda item: (-item.worth * item.source.value, item.order))
    literals = sorted(
        (-KIND_WEIGHTS.get(literal.kind, 1.0) * item.source.value, number, literal.text)
        for number, (item, literal) in enumerate(
            (item, literal) for item in ranked[:20] for literal in item.literals[:5]
        )
    )
    for text in [ranked[0].text, *(literal for _, _, literal in literals)]:
        if count_text(text) <= max_tokens:
            return text
    return _fitting(ranked[0].text, max_tokens, count_text)


def _fitting(text: str, max_tokens: int, count_text: Callable[[str], int]) -> str:
    """Return the longest beginning of a text that fits."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if count_text(text[:middle]) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip()
