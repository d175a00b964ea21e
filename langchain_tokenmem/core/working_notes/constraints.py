"""Constraints that a user sets, by rules of words: limits with a label, and rules."""

# ruff: noqa: RUF001 - the apostrophes and dashes of other scripts are meant as they stand

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from langchain_tokenmem.core.facts.sentences import any_of, words_of
from langchain_tokenmem.core.working_notes.word_rules import (
    MAX_ITEM,
    as_item,
    is_question,
    needs_context,
    pattern,
)

_VALUE = (
    rf"(?:{any_of('limit_bound')} )*"
    rf"(?:{any_of('month')} (?=\d)|(?:early|late|mid|end of) )*"
    # Signs behind a number belong to a date only: "am 3. März", "April 20, 2024".
    rf"[$€£¥]? ?\d(?:[\d.,:/'’-]*\d)?(?:\.(?= {any_of('month')})|,(?= \d{{4}}\b))?"
    r"(?: \d{3}(?!\d))*\w*(?: ?[€$£%])?"
    r"(?: (?!(?:and|but|so|to|for|in|on|with|per|which|of|und|et|y|now|is|by|at|as|or)\b)[^\W_]+)"
    r"{0,2}"
    r"(?: per [a-z]+)?"
    r"|(?:(?:next|this|by|on|am|le|el) )*(?:mon|tues|wednes|thurs|fri|satur|sun)day\b"
    rf"|(?:{any_of('limit_bound')} )*{any_of('month')}(?: \d{{4}})?\b"
)
_LABELLED = re.compile(
    rf"(?<![\w-])((?:[^\W\d_]+ )?{any_of('limit_label')})(?: ?:| ?=| {any_of('limit_copula')})"
    rf" ?((?i:{_VALUE}))",
    re.IGNORECASE,
)
# What a sentence without is not searched for: half of the time of reading constraints.
_LABEL_STEMS = words_of("limit_stem")
_NO_LABEL = re.compile(rf"{any_of('no_label')} ", re.IGNORECASE)
_RULE = pattern("rule_start", start=True)
_BOUND = re.compile(rf"(?<!\w){any_of('rule_bound')} (?:\w+ )?[$€£]?\d", re.IGNORECASE)
_WISH = re.compile(any_of("rule_wish"), re.IGNORECASE)
_POLITE = re.compile(rf"(?:{any_of('rule_lead')}[,:!]? +)+", re.IGNORECASE)
_RULE_CLAUSE = re.compile(rf"[,;] (?:and |but )?(?={any_of('rule_clause')}\b)", re.IGNORECASE)
_CONDITION = re.compile(r"(?:if|when|unless|wenn|falls|si|cuando|quand)\b", re.IGNORECASE)
_PERSON = re.compile(r"(?:it|that|this|you|he|she|they|there|what|i|we|which|who)\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d")
_FEWEST = 12


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint; a later one of the same label takes its place.

    Attributes:
        text: What holds: `Budget: $50k`, or the sentence that says it.
        label: What a limit is for, in lower case; empty for a rule.
    """

    text: str
    label: str = ""


def constraints_in(sentence: str) -> Iterator[Constraint]:
    """Yield the constraints that a sentence of the user sets.

    Example:
        >>> [one.text for one in constraints_in("Our budget is $50k and the deadline is May 3.")]
        ['Budget: $50k', 'Deadline: May 3']
    """
    labelled = False
    text = sentence[polite.end() :] if (polite := _POLITE.match(sentence)) else sentence
    lowered = sentence.lower()
    has_label = any(stem in lowered for stem in _LABEL_STEMS)
    for match in _LABELLED.finditer(sentence) if has_label else ():
        name = match[1]
        while (cut := _NO_LABEL.match(name)) is not None:
            name = name[cut.end() :]
        labelled = True
        yield Constraint(as_item(f"{name[:1].upper()}{name[1:]}: {match[2]}"), name.lower())
    for clause in [text] if _CONDITION.match(text) else _RULE_CLAUSE.split(text):
        if is_rule(clause) and not (labelled and clause == text):
            yield Constraint(as_item(clause))


def is_rule(text: str) -> bool:
    """Return whether a sentence demands or forbids something."""
    if not _FEWEST <= len(text) <= MAX_ITEM or not _demands(text):
        return False
    if is_question(text) or text.endswith(":") or text.count('"') % 2:
        return False  # an odd quotation mark: the end of what somebody else says
    return not pattern("no_rule").search(text) and not needs_context(text)


def _demands(text: str) -> bool:
    """Return whether the words of a sentence demand or forbid something."""
    if _RULE.match(text) or (not _PERSON.match(text) and pattern("rule_modal").search(text)):
        return True
    return bool(_NUMBER.search(text) and _BOUND.search(text) and _WISH.search(text))
