"""Rules of words for a text: its names and topics, and what is listed under a heading."""

# ruff: noqa: RUF001 - the apostrophes and dashes of other scripts are meant as they stand

from __future__ import annotations

import re
from collections.abc import Iterator

from langchain_tokenmem.core.facts.sentences import (
    NOT_NAMES,
    STOP_WORDS,
    any_of,
    capitalises_nouns,
    strip_bullet,
    words_of,
)
from langchain_tokenmem.core.working_notes.sentence_rules import as_item, pattern

_NAME = re.compile(
    r"(?<![\w'’.@/`*#-])[A-ZÀ-Þ][a-zß-ÿ][\w'’-]{0,23}"
    r"(?: (?:(?:de|del|van|von|der|la|of) )?[A-ZÀ-Þ][\w-]{1,24}){0,3}"
)
_ACRONYM = re.compile(r"(?<![\w/.`-])[A-Z]{2,5}(?![\w/`’'-])")
_PHRASE = re.compile(r"(?<![\w'’-])([^\W\d_]{4,30})(?= ([^\W\d_]{4,30})(?![\w'’-]))")
_WORDS = re.compile(r"[^\W\d_]{2,30}")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;\n\"“(*>-])\s*$")
_MONTH = re.compile(any_of("month"))
_NO_TOPIC = frozenset(words_of("no_topic")) | STOP_WORDS
_SHORTEST = 4
_TITLE_WORDS = frozenset(("and", "for", "the", "with", "from", "und", "von", "des", "les", "del"))
_PAIR = 2


def names_in(text: str) -> Iterator[str]:
    """Yield names of people, places and things: capitals inside sentences."""
    single_names = not capitalises_nouns(text)
    lines = (line for line in text.splitlines() if not _is_title(line))
    for match in (match for line in lines for match in _NAME.finditer(line)):
        words = match[0].split()
        while words and (words[0] in NOT_NAMES or _MONTH.fullmatch(words[0])):
            words = words[1:]
        name = " ".join(words).removesuffix("'s").removesuffix("’s")
        starts = len(words) == len(match[0].split()) and _SENTENCE_START.search(
            match.string[max(0, match.start() - _SHORTEST) : match.start()]
        )
        if starts and len(words) > _PAIR:  # "Ask Emma Kim" begins a sentence
            yield name.partition(" ")[2]
        if starts and pattern("task_verb").match(words[0]):
            words, starts = words[1:], None
            name = name.partition(" ")[2]
        if len(words) > 1 or (words and single_names and not starts):
            yield name


def _is_title(line: str) -> bool:
    """Return whether all words of a line are capitalised: a heading, a list of names."""
    words = _WORDS.findall(line)
    return not line.endswith((".", "!", "?")) and all(
        word[0].isupper() or len(word) < _SHORTEST - 1 or word in _TITLE_WORDS for word in words
    )


def topics_in(text: str) -> Iterator[str]:
    """Yield abbreviations, and pairs of neighbouring words that carry a meaning."""
    for match in _ACRONYM.finditer(text):
        if match[0] not in NOT_NAMES and match[0].lower() not in _NO_TOPIC:
            yield match[0]
    for match in _PHRASE.finditer(text):
        first, second = match[1], match[2]
        if first.islower() and second.islower() and not {first, second} & _NO_TOPIC:
            yield f"{first} {second}"


# At most 80: a long run of signs is gone through once for each line, not for each sign.
_MARKS = r"^(?:[^\w\n]|_){0,80}"
SUBGOALS = re.compile(
    rf"{_MARKS}{any_of('subgoals')}[ *_]*:[ *_]*(.*)$", re.IGNORECASE | re.MULTILINE
)
ASSUMPTIONS = re.compile(
    rf"{_MARKS}{any_of('assumptions_heading')}[ *_]*:[ *_]*(.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_BULLETED = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+\S")
_PHASE = re.compile(
    rf"{_MARKS}{any_of('phase_heading')}[ *_]*([^\n.;:]{{2,60}})|"
    rf"(?<!\w){any_of('phase_move')} ([a-z][\w-]{{2,30}}(?: [a-z][\w-]{{2,30}})?) phase\b",
    re.IGNORECASE | re.MULTILINE,
)
_MOST_LISTED = 20


def phase_in(text: str) -> str | None:
    """Return the last phase that a text names, or `None`."""
    phases = [(match[1] or match[2]).strip(" *_") for match in _PHASE.finditer(text)]
    return as_item(phases[-1]) if phases else None


def listed_under(headings: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield what is after a heading, or in the list below it."""
    for heading in headings.finditer(text):
        if heading[1].strip():
            yield from filter(None, map(as_item, heading[1].split(";")))
            continue
        for line in text[heading.end() :].strip("\n").splitlines()[:_MOST_LISTED]:
            if not _BULLETED.match(line):
                break
            yield as_item(strip_bullet(line)[0])
