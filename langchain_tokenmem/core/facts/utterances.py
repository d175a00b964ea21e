"""Classification of sentences: orders, decisions, reports, announcements, small talk."""
# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from langchain_tokenmem.core.facts.literals import Literal, find_literals
from langchain_tokenmem.core.facts.sentences import any_of, cues, terms

_BOILERPLATE = re.compile(rf"{any_of('boilerplate')}\b", re.IGNORECASE)
_ANNOUNCED = re.compile(
    rf"[,;:–—-]?\s+(?:(?:so|and|then|now|but|also)\s+)*{any_of('announced')}\b.*$", re.IGNORECASE
)
SALUTATION = re.compile(rf"(?:{any_of('salutation')}\s?[,!.:–-]+\s+)+(?=\S)", re.IGNORECASE)
_SUBORDINATE = re.compile(rf"{any_of('subordinate')}\b", re.IGNORECASE)
_MIN_GREETING_TERMS = 2
_MAX_GREETING = 120
_MIN_TERMS = 3
_MIN_TOLD = 20
_CLOSED = 0.5
_MANY_REPORTS = 200
_MAX_HEADING = 80
_TITLE_KINDS = frozenset({"name", "full_name", "acronym", "word"})
_NAMES = frozenset({"name", "full_name", "acronym"})
_LABEL = re.compile(r"[^\W\d_][^:.!?\n]{0,40}:(?=\s|$)")
_COLON = re.compile(r":\s+(?=[\"“„«(\[]?[^\W\d_a-z])")
_IF_YOU = re.compile(r"if you\b", re.IGNORECASE)
# `HAT097` may be a flight; these shapes are errors without a word beside them.
_ERROR_CODE = re.compile(r"E\d{3,}|E[A-Z]{4,}|ERR|0x|HTTP [45]|SIG|\w+(?:Error|Exception|Fault)$")


class Cue(Enum):
    """Purpose of a sentence, as its words show it."""

    ORDER = "order"
    DECISION = "decision"
    ERROR = "error"
    OPEN = "open"
    REQUEST = "request"
    QUESTION = "question"
    SETTING = "setting"
    REPORT = "report"
    STATEMENT = "statement"
    ANNOUNCEMENT = "announcement"


@dataclass(frozen=True, slots=True)
class Utterance:
    """A sentence that somebody said, small talk left out.

    Attributes:
        by_user: Whether the user said it, or an assistant.
        text: The sentence, on one line.
        cue: What it does.
        place: Number of its message.
        literals: What in it must stay verbatim.
        topic: What it is about, see `sentences.terms`.
        corrects: Whether it corrects what was decided before.
        beside: How many statements its message has, or the short end of a long message.
    """

    by_user: bool
    text: str
    cue: Cue
    place: int
    literals: tuple[Literal, ...] = ()
    topic: frozenset[str] = frozenset()
    corrects: bool = False
    beside: int = 1


def make_statement(
    sentence: str, place: int, *, by_user: bool, is_last: bool, single_names: bool = True
) -> Utterance | None:
    """Return a sentence as a statement, or `None` when it is small talk.

    Args:
        sentence: The sentence, on one line.
        place: Number of its message.
        by_user: Whether the user said it.
        is_last: Whether it ends its message.
        single_names: See `find_literals`.
    """
    if greeting := SALUTATION.match(sentence):
        sentence = sentence[greeting.end() :]
    if not by_user:
        told = _ANNOUNCED.sub("", sentence)
        if _MIN_TOLD <= len(told) < len(sentence) and not _SUBORDINATE.match(told):
            sentence = f"{told.rstrip('.!?… ')}."
        elif len(told) < len(sentence):
            return None
    literals = find_literals(sentence, single_names=single_names)
    if (label := _LABEL.match(sentence)) and not by_user:
        literals = [one for one in literals if one.kind not in _NAMES or one.text not in label[0]]
    topic = terms(sentence)
    if is_empty_talk(sentence, literals, topic, is_last=is_last):
        return None
    cue = classify(sentence, literals, is_user=by_user)
    return Utterance(by_user, sentence, cue, place, tuple(literals), topic)


def split_announcement(sentence: str) -> Iterator[str]:
    """Yield a sentence, in two parts where an announcement with a colon stands before a statement.

    Example:
        >>> list(split_announcement("Let me check the port: It is 8443."))
        ['Let me check the port:', 'It is 8443.']
    """
    colon = _COLON.search(sentence)
    head = sentence[: colon.start() + 1] if colon else ""
    if colon and (_BOILERPLATE.match(head) or _ANNOUNCED.search(head)):
        yield head
        yield sentence[colon.end() :]
    else:
        yield sentence


def classify(text: str, literals: list[Literal], *, is_user: bool) -> Cue:
    """Return what a sentence does, by its cue words and literals.

    Args:
        text: The sentence.
        literals: The literals that `find_literals` found in it.
        is_user: Whether the user said it.
    """
    kinds = {literal.kind for literal in literals}
    asks = text.endswith(("?", "？"))
    has_code = any(lit.kind == "error" and _ERROR_CODE.match(lit.text) for lit in literals)
    # "If you believe there is an error, ..." is how an assistant takes its leave.
    is_leave = not is_user and _IF_YOU.match(text)
    # The first that holds decides: a user's order stands above the error that it mentions, and a
    # question under an error is a question.
    rules: tuple[tuple[Cue, Callable[[], object]], ...] = (
        (Cue.ANNOUNCEMENT, lambda: not is_user and _BOILERPLATE.match(text)),
        (
            Cue.ORDER,
            lambda: is_user and not asks and (is_order(text) or cues("condition").search(text)),
        ),
        (Cue.QUESTION, lambda: asks),
        (Cue.OPEN, lambda: cues("strong_open").search(text)),
        (Cue.ERROR, lambda: has_code or (not is_leave and cues("error").search(text))),
        (Cue.SETTING, lambda: cues("dependency").search(text)),
        (Cue.SETTING, lambda: "version" in kinds and cues("library").search(text)),
        (Cue.SETTING, lambda: (kinds or is_user) and cues("configuration").search(text)),
        (Cue.DECISION, lambda: is_order(text) or cues("decision").search(text)),
        (Cue.REQUEST, lambda: is_user and cues("request").search(text)),
        (Cue.REPORT, lambda: not is_user and is_done(text)),
    )
    return next((cue for cue, holds in rules if holds()), Cue.STATEMENT)


def is_order(sentence: str) -> bool:
    """Return whether a sentence forbids or demands something, other than in telling of a person."""
    return bool(cues("constraint").search(cues("report").sub(" ", sentence)))


def is_done(sentence: str) -> bool:
    """Return whether a sentence reports something as finished."""
    return bool(cues("done").search(sentence)) and not cues("not_done").search(sentence)


def closed_items(statements: Sequence[Utterance]) -> set[int]:
    """Return the indices of the open items that a later statement reports as done."""
    reports = [(at, one.topic) for at, one in enumerate(statements) if is_done(one.text)]
    return {
        at
        for at, one in enumerate(statements)
        if one.cue is Cue.OPEN
        and any(_covers(topic, one.topic) for topic in _reports_behind(reports, at))
    }


def _reports_behind(
    reports: Sequence[tuple[int, frozenset[str]]], at: int
) -> Iterator[frozenset[str]]:
    first = bisect_right(reports, at, key=lambda report: report[0])
    return (topic for _, topic in reports[first : first + _MANY_REPORTS])


def _covers(report: frozenset[str], wanted: frozenset[str]) -> bool:
    shared = len(report & wanted)
    return bool(wanted) and shared >= min(2, len(wanted)) and shared >= _CLOSED * len(wanted)


def is_empty_talk(
    sentence: str, literals: list[Literal], topic: frozenset[str], *, is_last: bool
) -> bool:
    """Return whether a sentence is small talk, too short to mean anything, or only a heading."""
    kinds = {literal.kind for literal in literals}
    if len(sentence) <= _MAX_GREETING and kinds <= {"name", "number"}:
        rest = cues("greeting").sub(" ", sentence)
        if rest != sentence and len(terms(rest)) < _MIN_GREETING_TERMS:
            return True
    if not is_last and " " not in sentence and kinds and kinds <= _TITLE_KINDS:
        return True
    if not literals and (not topic or (len(topic) < _MIN_TERMS and not is_last)):
        return not (topic and cues("constraint").search(sentence))
    is_heading = sentence.endswith((":", "：")) and len(sentence) < _MAX_HEADING
    return is_heading and kinds <= _TITLE_KINDS
