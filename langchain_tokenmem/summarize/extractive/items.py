"""Items of an extractive summary: one fact each, with its section and its worth."""

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise

from langchain_tokenmem.summarize.extractive import vocabulary as cues
from langchain_tokenmem.summarize.extractive.classification import (
    classify,
    is_empty_talk,
    is_order,
)
from langchain_tokenmem.summarize.extractive.literals import Literal, find_literals
from langchain_tokenmem.summarize.extractive.sections import Section
from langchain_tokenmem.summarize.extractive.sentences import one_line, terms

# A user's constraint outweighs whatever a sentence can hold; other worths are `Section.worth`.
_CONSTRAINT_WORTH = 16.0
_USER_BONUS = 1.2
_FIX_BONUS = 2.0
_REQUEST_BONUS = 1.0
_ANNOUNCEMENT_WORTH = 0.15
_ENOUGH_TERMS = 8
_MAX_ITEM = 320
_SHORT_FROM = 90
_SHORT_ENOUGH = 0.75
_BEFORE, _AFTER = 34, 22
_CLAUSE = re.compile(r"[,;:.!?…]+\s|[，；：。！？]|\s[–—-]\s")


class Speaker(Enum):
    """Source of an item; the value is the weight of its literals."""

    USER = 1.0
    CARRIED = 0.7
    ASSISTANT = 0.55
    TOOL = 0.2


@dataclass(frozen=True)
class Item:
    """One line of a summary.

    Attributes:
        text: The extract, on one line, without its mark of origin.
        section: Where it is listed.
        source: Who said it.
        worth: Value of its prose; the literals are valued apart.
        literals: What it holds that must stay verbatim.
        order: Position in the conversation; carried items come first.
        carried: Whether an earlier summary held it.
        bare: Whether only its literal is left.
        topic: What it is about, see `sentences.terms`.
        dilution: Share of their value that its literals keep; those of a long list are worth less.
    """

    text: str
    section: Section
    source: Speaker
    worth: float
    literals: tuple[Literal, ...]
    order: int
    carried: bool = False
    bare: bool = False
    topic: frozenset[str] = frozenset()
    dilution: float = 1.0

    @property
    def by_user(self) -> bool:
        """True where the user said it."""
        return self.source is Speaker.USER

    @property
    def is_constraint(self) -> bool:
        """True for an order of the user."""
        return self.worth >= _CONSTRAINT_WORTH

    @cached_property
    def clause(self) -> str | None:
        """The clause that carries it, or `None` where that would save little or lose a literal."""
        if len(self.text) < _SHORT_FROM or not (self.literals or self.is_constraint):
            return None
        cut = _constraint_clauses if self.is_constraint else _around_literals
        short = cut(self.text, self.literals)
        is_short = len(short) <= _SHORT_ENOUGH * len(self.text)
        return short if is_short and all(lit.text in short for lit in self.literals) else None


def make_item(
    sentence: str,
    *,
    order: int,
    source: Speaker,
    is_last: bool = False,
    section: Section | None = None,
    single_names: bool = True,
    carried: bool = False,
) -> Item | None:
    """Make an item of a sentence, or `None` when it is small talk.

    Args:
        sentence: The sentence, on one line.
        order: Position in the conversation.
        source: Who said it.
        is_last: Whether nothing of the same role was said after it.
        section: Where it belongs, if known.
        single_names: See `find_literals`.
        carried: Whether an earlier summary held it, so that it stays as it is.
    """
    literals = find_literals(sentence, single_names=single_names)
    topic = terms(sentence)
    if not carried and is_empty_talk(sentence, literals, topic, is_last=is_last):
        return None
    if section is None:
        section = classify(sentence, literals, is_user=source is Speaker.USER, is_last=is_last)
    text = sentence
    if not carried and len(sentence) > _MAX_ITEM:
        text = _around_literals(sentence, literals)
        literals = [literal for literal in literals if literal.text in text]
    worth = _worth_of(sentence, section, topic, is_user=source is Speaker.USER)
    return Item(text, section, source, worth, tuple(literals), order, carried=carried, topic=topic)


def _worth_of(sentence: str, section: Section, topic: frozenset[str], *, is_user: bool) -> float:
    if section is Section.DECISIONS and is_user and is_order(sentence):
        return _CONSTRAINT_WORTH
    if section is not Section.ERRORS and not is_user and cues.BOILERPLATE.match(sentence):
        return _ANNOUNCEMENT_WORTH
    worth = section.worth + (_USER_BONUS if is_user else 0.0)
    if section is Section.ERRORS and cues.FIX.search(sentence):
        worth += _FIX_BONUS
    if section is Section.FACTS and is_user and cues.REQUEST.search(sentence):
        worth += _REQUEST_BONUS
    # A longer sentence says more; without this, fillers of three words come first.
    return worth * min(1.0, len(topic) / _ENOUGH_TERMS)


def _constraint_clauses(text: str, _: Sequence[Literal]) -> str:
    """Keep the clauses that forbid or demand, and those with a literal."""
    ends = [0, *(match.end() for match in _CLAUSE.finditer(text)), len(text)]
    clauses = [text[start:end] for start, end in pairwise(ends)]
    kept = [clause for clause in clauses if cues.CONSTRAINT.search(clause) or find_literals(clause)]
    return " ".join(clause.strip() for clause in kept).rstrip(",;:–—- ")


def _around_literals(text: str, literals: Sequence[Literal]) -> str:
    """Cut a sentence down to its literals with some words around them.

    Windows beyond `_MAX_ITEM` characters are left out whole, so no literal is cut.
    """
    windows: list[tuple[int, int]] = []
    for literal in literals:
        left, right = _window(text, text.index(literal.text), len(literal.text))
        if windows and left <= windows[-1][1] + 4:
            left, last = windows.pop()
            right = max(last, right)
        windows.append((left, right))
    if not windows:
        return one_line(text, _MAX_ITEM)
    parts = [text[left:right].strip(" ,;:") for left, right in windows]
    first, last = windows[0][0], windows[-1][1]
    if first and not _CLAUSE.search(text, max(0, first - 3), first):
        parts[0] = f"… {parts[0]}"
    if last < len(text) - 1:
        parts[-1] += " …"
    short = parts[0]
    for part in filter(None, parts[1:]):
        if len(short) + len(part) + 3 > _MAX_ITEM:
            break
        short += f" … {part}"
    return short


def _window(text: str, start: int, length: int) -> tuple[int, int]:
    """Return the borders of a literal with its words: the near clause's, else those of words."""
    left, end = max(0, start - _BEFORE), start + length
    if left <= _BEFORE // 2:
        left = 0
    elif clause := _CLAUSE.search(text, left - _BEFORE // 2, start):
        left = clause.end()
    else:
        left = text.find(" ", left, start) + 1 or left
    right = min(len(text), end + _AFTER)
    if right < len(text) and (space := text.rfind(" ", end, right)) > 0:
        right = space
    return left, right
