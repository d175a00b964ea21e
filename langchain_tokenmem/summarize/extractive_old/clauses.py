"""Clauses of a sentence: what is left of it where only its orders and literals have room."""

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from langchain_tokenmem.core.facts.literals import Literal, find_literals
from langchain_tokenmem.core.facts.sentences import cues, one_line
from langchain_tokenmem.core.facts.utterances import Cue, Utterance, is_order

_MAX_CLAUSE = 320
_SHORT_FROM, _SHORT_FROM_ORDER = 60, 110
_SHORT_ENOUGH = 0.75
_MARGINS = ((18, 8), (34, 24))
"""Characters that stay before and behind a literal."""
_CLAUSE = re.compile(r"[,;:.!?…]+\s|[，；：。！？]|\s[–—-]\s")


def clauses_of(statement: Utterance) -> list[str]:
    """Return shorter forms of a sentence, the shortest first; none that saves little."""
    text, literals = statement.text, statement.literals
    orders = statement.cue is Cue.ORDER and is_order(text)
    shortest = _SHORT_FROM_ORDER if orders else _SHORT_FROM
    if len(text) < shortest or not (literals or orders):
        return []
    forms = (
        [_order_clauses(text)]
        if orders
        else [_around_literals(text, literals, *margins) for margins in _MARGINS]
    )
    found: list[str] = []
    longest = _SHORT_ENOUGH * len(text)
    for form in reversed(forms):  # the longest first, each much shorter than the one before
        if len(form) <= longest and all(one.text in form for one in literals):
            found.insert(0, form)
            longest = _SHORT_ENOUGH * len(form)
    return found


def _order_clauses(text: str) -> str:
    """Keep the clauses that forbid or demand, and those with a literal."""
    ends = [0, *(match.end() for match in _CLAUSE.finditer(text)), len(text)]
    clauses = [text[start:end] for start, end in pairwise(ends)]
    kept = [
        clause for clause in clauses if cues("constraint").search(clause) or find_literals(clause)
    ]
    return " ".join(clause.strip() for clause in kept).rstrip(",;:–—- ")


def _around_literals(text: str, literals: Sequence[Literal], before: int, after: int) -> str:
    """Cut a sentence down to its literals with some words around them.

    Windows beyond `_MAX_CLAUSE` characters are left out whole, so no literal is cut.
    """
    windows: list[tuple[int, int]] = []
    for literal in literals:
        left, right = _window(text, literal.text, before, after)
        if windows and left <= windows[-1][1] + 4:
            left, last = windows.pop()
            right = max(last, right)
        windows.append((left, right))
    if not windows:
        return one_line(text, _MAX_CLAUSE)
    parts = [text[left:right].strip(" ,;:") for left, right in windows]
    first, last = windows[0][0], windows[-1][1]
    if first and not _CLAUSE.search(text, max(0, first - 3), first):
        parts[0] = f"… {parts[0]}"
    if last < len(text) - 1:
        parts[-1] += " …"
    short = parts[0]
    for part in filter(None, parts[1:]):
        if len(short) + len(part) + 3 > _MAX_CLAUSE:
            break
        short += f" … {part}"
    return short


def _window(text: str, literal: str, before: int, after: int) -> tuple[int, int]:
    """Return the borders of a literal with its words: the near clause's, else those of words."""
    start = text.index(literal)
    left, end = max(0, start - before), start + len(literal)
    if left <= before // 2:
        left = 0
    elif clause := _CLAUSE.search(text, left - before // 2, start):
        left = clause.end()
    else:
        left = text.find(" ", left, start) + 1 or left
    right = min(len(text), end + after)
    if right < len(text) and (space := text.rfind(" ", end, right)) > 0:
        right = space
    return left, right
