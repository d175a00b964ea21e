"""Classification of sentences into the sections of a summary, by cue words and literals."""
# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re
from collections.abc import Callable

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


def classify(text: str, literals: list[Literal], *, is_user: bool, is_last: bool) -> Section:
    """Return the section of a sentence by its cue words and literals.

    Args:
        text: The sentence.
        literals: The literals that `find_literals` found in it.
        is_user: Whether the user said it.
        is_last: Whether nothing of the same role was said after it.
    """
    kinds = {literal.kind for literal in literals}
    asks = text.endswith(("?", "？"))
    has_code = any(lit.kind == "error" and _ERROR_CODE.match(lit.text) for lit in literals)
    # "If you believe there is an error, ..." is how an assistant takes its leave.
    is_leave = not is_user and _IF_YOU.match(text)
    # The first that holds decides: a user's order stands above the error that it mentions.
    rules: tuple[tuple[Section, Callable[[], object]], ...] = (
        (
            Section.DECISIONS,
            lambda: is_user and not asks and (is_order(text) or cues.CONDITION.search(text)),
        ),
        (Section.OPEN, lambda: cues.STRONG_OPEN.search(text)),
        (Section.ERRORS, lambda: has_code or (not is_leave and cues.ERROR.search(text))),
        (Section.DEPENDENCIES, lambda: cues.DEPENDENCY.search(text)),
        (Section.DEPENDENCIES, lambda: "version" in kinds and cues.LIBRARY.search(text)),
        (Section.CONFIGURATION, lambda: (kinds or is_user) and cues.CONFIGURATION.search(text)),
        (Section.DECISIONS, lambda: is_order(text) and not cues.BOILERPLATE.match(text)),
        (Section.DECISIONS, lambda: cues.DECISION.search(text)),
        (Section.OPEN, lambda: is_last and is_user and (asks or cues.REQUEST.search(text))),
        (Section.OPEN, lambda: is_last and not is_user and cues.OPEN.search(text)),
        (Section.DONE, lambda: kinds and not is_user and is_done(text)),
        (Section.FILES, lambda: "path" in kinds or _CALL.search(text)),
    )
    return next((section for section, holds in rules if holds()), Section.FACTS)


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
