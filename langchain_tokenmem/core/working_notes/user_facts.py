"""Facts about the user, by rules of words: what people say of themselves in the first person."""

# ruff: noqa: RUF001 - the apostrophes and dashes of other scripts are meant as they stand

from __future__ import annotations

import re

from langchain_tokenmem.core.facts.vocabulary import any_of
from langchain_tokenmem.core.working_notes.word_rules import (
    MAX_ITEM,
    as_item,
    is_question,
    needs_context,
    pattern,
    speaks_to_you,
)

_START = pattern("fact_start", start=True)
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
_MOOD = pattern("mood")
_OPEN_END = re.compile(rf"(?<!\w){any_of('open_end')}$", re.IGNORECASE)
_FEWEST = 8


def facts_in(sentence: str) -> list[str]:
    """Return what a sentence of the user tells of the user, clause by clause.

    Example:
        >>> facts_in("Hi, I live in Lyon, and can you help me with my garden?")
        ['I live in Lyon']
    """
    found = []
    clauses = [part for part in _CLAUSE.split(sentence) if part]
    for place, clause in enumerate(clauses):
        asked = is_question(sentence) and place == len(clauses) - 1
        text = clause[lead.end() :] if (lead := _LEAD.match(clause)) else clause
        if not asked and len(text) <= MAX_ITEM and _is_fact(text):
            found.append(as_item(text))
    return found


def fact_key(text: str) -> str:
    """Return what a later fact of the same kind replaces: `name` of "My name is Ada"."""
    told = _RELATION.match(text)
    return told["relation"].lower() if told else ""


def _is_fact(text: str) -> bool:
    if _RELATION.match(text):
        return not needs_context(text) and not speaks_to_you(text) and not _MOOD.search(text)
    start = _START.match(text)
    if not start or len(text) < _FEWEST:
        return False
    if _OPEN_END.search(text[: start.end()]) and len(text) < start.end() + 2:
        return False
    if needs_context(text) or speaks_to_you(text) or _MOOD.search(text):
        return False
    having = _HAVING.match(text)
    return not having or bool(_OWN_THING.search(text, having.end()))
