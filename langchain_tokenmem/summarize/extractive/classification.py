"""Classification of sentences into the sections of a summary, by cue words and literals."""
# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from langchain_tokenmem.summarize.extractive import vocabulary as cues
from langchain_tokenmem.summarize.extractive.literals import Literal
from langchain_tokenmem.summarize.extractive.sections import Section
from langchain_tokenmem.summarize.extractive.sentences import terms

_MIN_GREETING_TERMS = 2
_MAX_GREETING = 120
_MIN_TERMS = 3
_MAX_HEADING = 80
_TITLE_KINDS = frozenset({"name", "full_name", "acronym", "word"})
_CALL = re.compile(r"\w+\(\)")
_IF_YOU = re.compile(r"if you\b", re.IGNORECASE)
# `HAT097` may be a flight; these shapes are errors without a word beside them.
_ERROR_CODE = re.compile(r"E\d{3,}|E[A-Z]{4,}|ERR|0x|HTTP [45]|SIG|\w+(?:Error|Exception|Fault)$")


class _Sentence(NamedTuple):
    """A sentence, and what its section depends on besides its words."""

    text: str
    literals: list[Literal]
    kinds: set[str]
    is_user: bool
    is_last: bool

    @property
    def asks(self) -> bool:
        return self.text.endswith(("?", "？"))

    @property
    def fails(self) -> bool:
        if any(lit.kind == "error" and _ERROR_CODE.match(lit.text) for lit in self.literals):
            return True
        # "If you believe there is an error, ..." is how an assistant takes its leave.
        is_leave = not self.is_user and _IF_YOU.match(self.text)
        return not is_leave and bool(cues.ERROR.search(self.text))

    @property
    def asks_for_work(self) -> bool:
        if self.is_user:
            return self.asks or bool(cues.REQUEST.search(self.text))
        return bool(cues.OPEN.search(self.text))


# The first that holds decides: a user's order stands above the error that it mentions.
_RULES: tuple[tuple[Section, Callable[[_Sentence], object]], ...] = (
    (
        Section.DECISIONS,
        lambda s: s.is_user and not s.asks and (is_order(s.text) or cues.CONDITION.search(s.text)),
    ),
    (Section.OPEN, lambda s: cues.STRONG_OPEN.search(s.text)),
    (Section.ERRORS, lambda s: s.fails),
    (Section.DEPENDENCIES, lambda s: cues.DEPENDENCY.search(s.text)),
    (Section.DEPENDENCIES, lambda s: "version" in s.kinds and cues.LIBRARY.search(s.text)),
    (Section.CONFIGURATION, lambda s: (s.kinds or s.is_user) and cues.CONFIGURATION.search(s.text)),
    (Section.DECISIONS, lambda s: is_order(s.text) and not cues.BOILERPLATE.match(s.text)),
    (Section.DECISIONS, lambda s: cues.DECISION.search(s.text)),
    (Section.OPEN, lambda s: s.is_last and s.asks_for_work),
    (Section.DONE, lambda s: s.kinds and not s.is_user and is_done(s.text)),
    (Section.FILES, lambda s: "path" in s.kinds or _CALL.search(s.text)),
    (Section.FACTS, lambda _: True),
)


def classify(text: str, literals: list[Literal], *, is_user: bool, is_last: bool) -> Section:
    """Return the section of a sentence by its cue words and literals.

    Args:
        text: The sentence.
        literals: The literals that `find_literals` found in it.
        is_user: Whether the user said it.
        is_last: Whether nothing of the same role was said after it.
    """
    kinds = {literal.kind for literal in literals}
    sentence = _Sentence(text, literals, kinds, is_user, is_last)
    return next(section for section, holds in _RULES if holds(sentence))


def is_order(sentence: str) -> bool:
    """Return whether a sentence forbids or demands something, other than in telling of a person."""
    return bool(cues.CONSTRAINT.search(cues.REPORT.sub(" ", sentence)))


def is_done(sentence: str) -> bool:
    """Return whether a sentence reports something as finished."""
    return bool(cues.DONE.search(sentence)) and not cues.NOT_DONE.search(sentence)


def is_empty_talk(
    sentence: str, literals: list[Literal], topic: frozenset[str], *, is_last: bool
) -> bool:
    """Return whether a sentence is small talk, too short to mean anything, or only a heading."""
    kinds = {literal.kind for literal in literals}
    if len(sentence) <= _MAX_GREETING and kinds <= {"name", "number"}:
        rest = cues.GREETING.sub(" ", sentence)
        if rest != sentence and len(terms(rest)) < _MIN_GREETING_TERMS:
            return True
    if not literals and (not topic or (len(topic) < _MIN_TERMS and not is_last)):
        return not (topic and cues.CONSTRAINT.search(sentence))
    is_heading = sentence.endswith((":", "：")) and len(sentence) < _MAX_HEADING
    return is_heading and kinds <= _TITLE_KINDS
