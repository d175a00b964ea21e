"""Sentences as the rules of words see them: checks that several rules share, and requests."""

# ruff: noqa: RUF001 - the apostrophes and dashes of other scripts are meant as they stand

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from langchain_tokenmem.core.facts.sentences import (
    any_of,
    cues,
    identifiers_in,
    one_line,
    prose,
    prose_lines,
    split_sentences,
    strip_bullet,
    terms,
    words_of,
)

_SALUTATION = re.compile(rf"(?:{any_of('salutation')}\s?[,!.:–-]+\s+)+(?=\S)", re.IGNORECASE)

MAX_ITEM = 200
"""Most characters of an item."""

_HEAD, _TAIL = 6_000, 3_000
"""Characters at either end of a message that are read; what stands between is a pasted document."""
_CODE = re.compile(
    r"\s{4,}|\d+[:|]|>>>|[$#%] |(?:def|class|return|import|from|if|for|while|const|let|var|print|"
    r"public|private|SELECT|INSERT|self)\b(?=.*[=;:(){}]\s*)|[\w.]+\(|[<{}\[|@]|.*(?:[;{}\\]|\)\s*:)$"
)
_SPACED = re.compile(r"[^\W\d_]{2,}")
_FEWEST_WORDS = 2
_LABELLED_NUMBER = re.compile(r"[^\W\d_]{3,20} ?[:=] ?[$€£]?\d")
"""`Budget: $50k` has one word and says it all."""


WORD_END = r"(?:(?<=['’])|(?!\w))"
"""End of a word of the vocabulary; no border stands behind an apostrophe: `qu'il`."""


@cache
def pattern(table: str, *, start: bool = False) -> re.Pattern[str]:
    """Return a pattern for the words of a table of the vocabulary, between borders.

    Args:
        table: Name of the table.
        start: Whether it is matched at the beginning of a clause only.
    """
    border = "" if start else r"(?<![\w’'])"
    return re.compile(rf"{border}{any_of(table)}{WORD_END}", re.IGNORECASE)


_CHOICE_STEMS = tuple(words_of("choice_stem"))


def note_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a message, each on one line: prose only, no code and no logs.

    Args:
        text: What was said; of a long text both ends are read.
    """
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n\n{text[-_TAIL:]}"
    for line in prose_lines(prose(text)):
        if _CODE.match(line):
            continue
        bare, _ = strip_bullet(line)
        for sentence in split_sentences(bare):
            words = _SPACED.findall(sentence)
            if len(words) >= _FEWEST_WORDS or _LABELLED_NUMBER.match(sentence):
                yield sentence


def is_question(sentence: str) -> bool:
    """Return whether a sentence ends as a question."""
    return sentence.rstrip("\"')*_ ").endswith(("?", "？"))


def needs_context(text: str) -> bool:
    """Return whether a text points at something outside of itself."""
    return bool(pattern("needs_context").search(text))


def speaks_to_you(text: str) -> bool:
    """Return whether a text speaks to or of the other one."""
    return bool(pattern("your_words").search(text))


def as_item(text: str) -> str:
    """Return a text as an item: one line, without marks at its ends, cut to `MAX_ITEM`."""
    return one_line(text.strip(" \t,;:.!*–—_-"), MAX_ITEM)


def may_choose(text: str) -> bool:
    """Return whether a text has the stem of any word of a decision or an assumption.

    A look for stems is some twenty times faster than one by the patterns of these words.
    """
    lowered = text.lower()
    for stem in _CHOICE_STEMS:  # noqa: SIM110  # `any` of a generator takes twice as long
        if stem in lowered:
            return True
    return False


MAX_TASK = 160
"""Characters of a task."""

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
    return found if len(found) >= _POINTING else found | identifiers_in(sentence)


def _without_salutation(sentence: str) -> str:
    greeting = _SALUTATION.match(sentence)
    return (sentence[greeting.end() :] if greeting else sentence).rstrip(": ")
