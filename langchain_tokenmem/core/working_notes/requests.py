"""Requests of a user: the sentence that asks for something, and goals that are named as such."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_tokenmem.core.facts.literals import words_of
from langchain_tokenmem.core.facts.sentences import any_of, cues, one_line, terms
from langchain_tokenmem.core.working_notes.word_rules import is_question, needs_context, pattern

MAX_TASK = 160
"""Characters of a task."""

_SALUTATION = re.compile(rf"(?:{any_of('salutation')}\s?[,!.:\u2013-]+\s+)+(?=\S)", re.IGNORECASE)
_POLITE = re.compile(rf"(?:{any_of('request_lead')}[,:!.]? +)+", re.IGNORECASE)
_ASKING_YOU = re.compile(rf"\b{any_of('asking_you')}\b", re.IGNORECASE)
_BACK_TO_WORK = re.compile(rf"{any_of('back_to_work')}\b", re.IGNORECASE)
_POINTING = 2
"""Terms up to which a request points at what was said before: "Please fix it." """


def request_in(sentences: Sequence[str]) -> str | None:
    """Return the first sentence of a message that asks for something; None where none does.

    Assent, "continue", thanks and questions ask for nothing; "Can you add a test?" does. Where the
    sentence that asks only points at the one before it, that one is returned.

    Args:
        sentences: The sentences of the message.

    Example:
        >>> request_in(["Thanks!", "Now add tests for the parser."])
        'Now add tests for the parser.'
    """
    for place, sentence in enumerate(sentences):
        if not _asks(sentence):
            continue
        before = sentences[place - 1] if place else ""
        content = _content(sentence)
        points_back = len(content) < _POINTING and _points(sentence)
        if points_back and not is_question(before) and len(_content(before)) > 1:
            return one_line(_without_salutation(before), MAX_TASK)
        if content:
            return one_line(_without_salutation(sentence), MAX_TASK)
    return None


def reported_problem(sentences: Sequence[str]) -> str | None:
    """Return the first sentence that tells of an error; None where none does.

    Example:
        >>> reported_problem(["Hi.", "The login page crashes on Safari."])
        'The login page crashes on Safari.'
    """
    for sentence in sentences:
        if cues("error").search(sentence) and not is_question(sentence):
            return one_line(_without_salutation(sentence), MAX_TASK)
    return None


def objective_in(sentence: str) -> str | None:
    """Return the goal that a sentence names as such; None where it names none.

    Example:
        >>> objective_in("Our goal is to halve the cost.")
        'halve the cost'
    """
    told = pattern("objective").search(sentence)
    if not told or is_question(sentence):
        return None
    rest = sentence[told.end() :].strip(" :,.!*")
    return one_line(rest, MAX_TASK) if len(terms(rest)) > 1 else None


def _asks(sentence: str) -> bool:
    text = _without_salutation(sentence)
    bare = text[polite.end() :] if (polite := _POLITE.match(text)) else text
    if is_question(sentence):
        asks = _ASKING_YOU.search(text)
    else:
        asks = pattern("task_verb", start=True).match(bare) or cues("request").search(text)
    return bool(asks) and not _BACK_TO_WORK.match(bare) and not pattern("no_request").search(text)


def _points(sentence: str) -> bool:
    """Return whether a sentence asks for work on what the one before it says."""
    bare = sentence[polite.end() :] if (polite := _POLITE.match(sentence)) else sentence
    return bool(pattern("task_verb", start=True).match(bare)) and needs_context(bare)


def _content(sentence: str) -> frozenset[str]:
    """Return what a sentence is about, without assent, thanks and the words of asking."""
    for words in (cues("greeting"), pattern("acknowledgement"), cues("request")):
        sentence = words.sub(" ", sentence)
    found = terms(sentence)
    return found if len(found) >= _POINTING else found | words_of(sentence)


def _without_salutation(sentence: str) -> str:
    greeting = _SALUTATION.match(sentence)
    return (sentence[greeting.end() :] if greeting else sentence).rstrip(": ")
