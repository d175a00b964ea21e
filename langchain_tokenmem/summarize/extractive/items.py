"""Items of an extractive summary: one fact each, with its section and its worth."""

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from langchain_tokenmem.summarize.extractive.classification import (
    Section,
    classify,
    is_order,
    is_small_talk,
)
from langchain_tokenmem.summarize.extractive.literals import Literal, find_literals
from langchain_tokenmem.summarize.extractive.sentences import one_line, terms
from langchain_tokenmem.summarize.extractive.vocabulary import BOILERPLATE, CONSTRAINT, FIX, REQUEST


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


# Worth of an item's prose, in the unit of `literals.KIND_WEIGHTS`. A user's constraint outweighs
# whatever a sentence can hold; facts without a cue only fill what room is left.
SECTION_WORTH = {
    Section.FILES: 3.0,
    Section.ERRORS: 4.0,
    Section.DEPENDENCIES: 4.0,
    Section.CONFIGURATION: 4.0,
    Section.DECISIONS: 4.0,
    Section.DONE: 3.0,
    Section.OPEN: 4.0,
    Section.FACTS: 0.6,
}
USER_CONSTRAINT_WORTH = 16.0
USER_BONUS = 1.2
FIX_BONUS = 2.0
ANNOUNCEMENT_WORTH = 0.15
MAX_ITEM = 320
_SHORT_FROM = 90
_SHORT_ENOUGH = 0.75
_BEFORE, _AFTER = 34, 22
_MIN_TERMS = 3
_MAX_HEADING = 80
_TITLE_KINDS = frozenset({"name", "full_name", "acronym", "word"})
_CLAUSE = re.compile(r"[,;:.!?…]+\s|[，；：。！？]|\s[–—-]\s")


def worth_of(sentence: str, section: Section, *, source: Speaker) -> float:
    """Return the value of an item's prose."""
    is_user = source is Speaker.USER
    if section is Section.DECISIONS and is_user and is_order(sentence):
        return USER_CONSTRAINT_WORTH
    if BOILERPLATE.match(sentence) and not is_user and section is not Section.ERRORS:
        return ANNOUNCEMENT_WORTH
    worth = SECTION_WORTH[section] + (USER_BONUS if is_user else 0.0)
    if section is Section.ERRORS and FIX.search(sentence):
        worth += FIX_BONUS
    if section is Section.FACTS and is_user and REQUEST.search(sentence):
        worth += 1.0
    # A longer sentence says more; without this, fillers of three words come first.
    return worth * min(1.0, len(terms(sentence)) / 8)


def _is_empty_talk(
    sentence: str, literals: list[Literal], topic: frozenset[str], *, is_last: bool
) -> bool:
    """Return whether a sentence is small talk, too short to mean anything, or only a heading."""
    if is_small_talk(sentence, literals):
        return True
    if not literals and (not topic or (len(topic) < _MIN_TERMS and not is_last)):
        return not (topic and CONSTRAINT.search(sentence))
    heads = sentence.endswith((":", "：")) and len(sentence) < _MAX_HEADING
    return heads and all(literal.kind in _TITLE_KINDS for literal in literals)


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
    if not carried and _is_empty_talk(sentence, literals, topic, is_last=is_last):
        return None
    if section is None:
        section = classify(sentence, literals, is_user=source is Speaker.USER, is_last=is_last)
    text = (
        sentence
        if carried or len(sentence) <= MAX_ITEM
        else around_literals(sentence, literals, MAX_ITEM)
    )
    literals = [literal for literal in literals if literal.text in text]
    return Item(
        text=text,
        section=section,
        source=source,
        worth=worth_of(sentence, section, source=source),
        literals=tuple(literals),
        order=order,
        topic=topic,
        carried=carried,
    )


def shortened(item: Item) -> str | None:
    """Return the clause of an item that carries it, or `None` when that would save little."""
    if len(item.text) < _SHORT_FROM or item.bare:
        return None
    if item.worth >= USER_CONSTRAINT_WORTH:
        short = _constraint_clauses(item.text)
    elif item.literals:
        short = around_literals(item.text, list(item.literals), MAX_ITEM)
    else:
        return None
    if len(short) > _SHORT_ENOUGH * len(item.text):
        return None
    return short if all(literal.text in short for literal in item.literals) else None


def _constraint_clauses(text: str) -> str:
    """Keep the clauses that forbid or demand, and those with a literal."""
    clauses, start = [], 0
    for match in _CLAUSE.finditer(text):
        clauses.append(text[start : match.end()])
        start = match.end()
    clauses.append(text[start:])
    kept = [clause for clause in clauses if CONSTRAINT.search(clause) or find_literals(clause)]
    return " ".join(clause.strip() for clause in kept).rstrip(",;:–—- ")


def _window_start(text: str, left: int, start: int) -> int:
    """Begin at the clause when it is near, else at a word."""
    if left <= _BEFORE // 2:
        return 0
    begins = [match.end() for match in _CLAUSE.finditer(text, left - _BEFORE // 2, start)]
    if begins:
        return begins[0]
    return text.find(" ", left, start) + 1 or left


def around_literals(text: str, literals: list[Literal], limit: int) -> str:
    """Cut a sentence down to its literals with some words around them.

    Args:
        text: The sentence.
        literals: Its literals.
        limit: Most characters; windows beyond it are left out whole, so no literal is cut.
    """
    windows: list[list[int]] = []
    for literal in literals:
        start = text.find(literal.text)
        if start < 0:
            continue
        left = max(0, start - _BEFORE)
        right = min(len(text), start + len(literal.text) + _AFTER)
        left = _window_start(text, left, start)
        space = text.rfind(" ", start + len(literal.text), right)
        right = right if right == len(text) else space if space > 0 else right
        if windows and left <= windows[-1][1] + 4:
            windows[-1][1] = max(windows[-1][1], right)
        else:
            windows.append([left, right])
    if not windows:
        return one_line(text, limit)
    parts = [text[left:right].strip(" ,;:") for left, right in windows]
    if windows[0][0] and not _CLAUSE.search(text, max(0, windows[0][0] - 3), windows[0][0]):
        parts[0] = f"… {parts[0]}"
    if windows[-1][1] < len(text) - 1:
        parts[-1] += " …"
    short = parts[0]
    for part in filter(None, parts[1:]):
        if len(short) + len(part) + 3 > limit:
            break
        short += f" … {part}"
    return short
