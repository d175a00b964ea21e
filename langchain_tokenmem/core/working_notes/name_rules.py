"""Rules of words for names, topics, facts about the user, and what is listed under a heading."""

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
from langchain_tokenmem.core.working_notes.sentence_rules import (
    MAX_ITEM,
    as_item,
    is_question,
    needs_context,
    pattern,
    speaks_to_you,
    without_lead,
)

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

_HAVING = re.compile(rf"{any_of('having')}(?= {any_of('having_count')}\b)", re.IGNORECASE)
_OWN_THING = re.compile(rf"(?<!\w){any_of('own_thing')}(?!\w)", re.IGNORECASE)
_RELATION = re.compile(
    rf"(?:my|meine?|mon|ma|mes|mis?) (?P<relation>{any_of('own_relation')})"
    rf"(?:['’]s (?:name|birthday))?(?: ?:|['’]s| {any_of('relation_verb')}) (?=\S)",
    re.IGNORECASE,
)
_LEAD = re.compile(rf"(?:{any_of('fact_lead')}[,!.]? +)+", re.IGNORECASE)
_CLAUSE = re.compile(
    rf"[,;] +(?={any_of('fact_clause')}\b)| - | – |\.\.+|…|"
    rf"[,;]? +{any_of('fact_joint')} +(?={any_of('fact_subject')}\b)",
    re.IGNORECASE,
)
_OPEN_END = re.compile(rf"(?<!\w){any_of('open_end')}$", re.IGNORECASE)
_FEWEST = 8


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


def facts_in(sentence: str) -> Iterator[tuple[str, str]]:
    """Yield what a sentence of the user says about the user, clause by clause, each with its key.

    A later fact of the same key replaces it: `name` of "My name is Ada"; most have none.

    Example:
        >>> [*facts_in("Hi, I live in Lyon, and can you help me with my garden?")]
        [('I live in Lyon', '')]
    """
    clauses = [part for part in _CLAUSE.split(sentence) if part]
    for place, clause in enumerate(clauses):
        asked = is_question(sentence) and place == len(clauses) - 1
        text = without_lead(_LEAD, clause)
        if not asked and len(text) <= MAX_ITEM and _is_fact(text):
            fact = as_item(text)
            match = _RELATION.match(fact)
            yield fact, match["relation"].lower() if match else ""


def _is_fact(text: str) -> bool:
    if not (_RELATION.match(text) or _speaks_of_user(text)):
        return False
    return not (needs_context(text) or speaks_to_you(text) or pattern("mood").search(text))


def _speaks_of_user(text: str) -> bool:
    start = pattern("fact_start").match(text)
    if not start or len(text) < _FEWEST:
        return False
    if _OPEN_END.search(text[: start.end()]) and len(text) < start.end() + 2:
        return False
    having = _HAVING.match(text)
    return not having or bool(_OWN_THING.search(text, having.end()))


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
