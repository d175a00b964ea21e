"""Classification of sentences into the sections of a summary, by cue words and literals."""
# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from langchain_tokenmem.summarize.extractive.literals import Literal
from langchain_tokenmem.summarize.extractive.sentences import terms
from langchain_tokenmem.summarize.extractive.vocabulary import (
    BOILERPLATE,
    CONDITION,
    CONFIGURATION,
    CONSTRAINT,
    DECISION,
    DEPENDENCY,
    DONE,
    ERROR,
    GREETING,
    LIBRARY,
    NOT_DONE,
    OPEN,
    REPORT,
    REQUEST,
    STRONG_OPEN,
)

_MIN_GREETING_TERMS = 2
_MAX_GREETING = 120
_NAMED_LIBRARY = frozenset({"version"})
_CALL = re.compile(r"\w+\(\)")
_IF_YOU = re.compile(r"if you\b", re.IGNORECASE)
# `HAT097` may be a flight; these shapes are errors without a word beside them.
_ERROR_CODE = re.compile(r"E\d{3,}|E[A-Z]{4,}|ERR|0x|HTTP [45]|SIG|\w+(?:Error|Exception|Fault)$")


class Section(Enum):
    """The sections of a summary, in the order in which they are written."""

    FILES = "Files and functions"
    ERRORS = "Errors and fixes"
    DEPENDENCIES = "Dependencies"
    CONFIGURATION = "Configuration"
    DECISIONS = "Decisions and constraints"
    DONE = "Done"
    OPEN = "Open items and next steps"
    FACTS = "Names, numbers and dates"


def is_small_talk(sentence: str, literals: list[Literal]) -> bool:
    """Return whether a sentence greets, thanks or agrees and says nothing else."""
    if len(sentence) > _MAX_GREETING or any(lit.kind not in ("name", "number") for lit in literals):
        return False
    rest = GREETING.sub(" ", sentence)
    return rest != sentence and len(terms(rest)) < _MIN_GREETING_TERMS


@dataclass(frozen=True)
class _Sentence:
    """A sentence, and what its section depends on besides its words."""

    text: str
    kinds: frozenset[str]
    failed: bool
    is_user: bool
    is_last: bool

    @property
    def asks(self) -> bool:
        return self.text.endswith(("?", "？"))


def _demands(sentence: _Sentence) -> bool:
    found = is_order(sentence.text) or CONDITION.search(sentence.text)
    return sentence.is_user and not sentence.asks and bool(found)


def _fails(sentence: _Sentence) -> bool:
    # "If you believe there is an error, ..." is how an assistant takes its leave.
    leaves = not sentence.is_user and _IF_YOU.match(sentence.text)
    return sentence.failed or bool(ERROR.search(sentence.text) and not leaves)


def _depends(sentence: _Sentence) -> bool:
    named = sentence.kinds & _NAMED_LIBRARY and LIBRARY.search(sentence.text)
    return bool(DEPENDENCY.search(sentence.text) or named)


def _configures(sentence: _Sentence) -> bool:
    return bool(sentence.kinds or sentence.is_user) and bool(CONFIGURATION.search(sentence.text))


def _decides(sentence: _Sentence) -> bool:
    rules = is_order(sentence.text) and not BOILERPLATE.match(sentence.text)
    return rules or bool(DECISION.search(sentence.text))


def _is_open(sentence: _Sentence) -> bool:
    if not sentence.is_last:
        return False
    if sentence.is_user:
        return sentence.asks or bool(REQUEST.search(sentence.text))
    return bool(OPEN.search(sentence.text))


def _reports_done(sentence: _Sentence) -> bool:
    return bool(sentence.kinds) and not sentence.is_user and is_done(sentence.text)


def _names_code(sentence: _Sentence) -> bool:
    return "path" in sentence.kinds or bool(_CALL.search(sentence.text))


# The first that holds decides: a user's order stands above the error that it mentions.
_RULES: tuple[tuple[Section, Callable[[_Sentence], bool]], ...] = (
    (Section.DECISIONS, _demands),
    (Section.OPEN, lambda sentence: bool(STRONG_OPEN.search(sentence.text))),
    (Section.ERRORS, _fails),
    (Section.DEPENDENCIES, _depends),
    (Section.CONFIGURATION, _configures),
    (Section.DECISIONS, _decides),
    (Section.OPEN, _is_open),
    (Section.DONE, _reports_done),
    (Section.FILES, _names_code),
    (Section.FACTS, lambda _: True),
)


def classify(sentence: str, literals: list[Literal], *, is_user: bool, is_last: bool) -> Section:
    """Return the section of a sentence by its cue words and literals.

    Args:
        sentence: The sentence.
        literals: What `find_literals` found in it.
        is_user: Whether the user said it.
        is_last: Whether nothing of the same role was said after it.
    """
    features = _Sentence(
        text=sentence,
        kinds=frozenset(literal.kind for literal in literals),
        failed=any(lit.kind == "error" and _ERROR_CODE.match(lit.text) for lit in literals),
        is_user=is_user,
        is_last=is_last,
    )
    return next(section for section, holds in _RULES if holds(features))


def is_order(sentence: str) -> bool:
    """Return whether a sentence forbids or demands something, other than in telling of a person."""
    return bool(CONSTRAINT.search(REPORT.sub(" ", sentence)))


def is_done(sentence: str) -> bool:
    """Return whether a sentence reports something as finished."""
    return bool(DONE.search(sentence)) and not NOT_DONE.search(sentence)
