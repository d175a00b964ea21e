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
_HAVING = re.compile(
    r"(?:i(?:['’]ve| have| also| actually| already| now| currently| got| had)*|ich habe|"
    r"j['’]ai|(?:yo )?tengo)"
    r"(?= (?:an?|one|two|three|four|five|\d+|my own|eine?n?|zwei|drei|vier|une?|deux|trois|quatre|"
    r"una?|dos|tres|cuatro)\b)",
    re.IGNORECASE,
)
_OWN_THING = re.compile(rf"(?<!\w){any_of('own_thing')}(?!\w)", re.IGNORECASE)
_RELATION = re.compile(
    rf"(?:my|meine?|mon|ma|mes|mis?) (?P<relation>{any_of('own_relation')})"
    r"(?:['’]s (?:name|birthday))?"
    r"(?: ?:|['’]s| is| are| lives?| works?| was born| ist| sind| heißt| wohnt| lebt| arbeitet|"
    r" est| sont| s['’]appelle| vit| travaille| es| son| se llaman?| vive| trabaja) (?=\S)",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"(?:(?:please|and|oh|ah|well|yes|yeah|no|hi|hello|hey|so|and|also|but|thanks|actually|sure|okay|ok|"
    r"by the way|btw|as for me|personally|hallo|ja|bonjour|oui|hola|sí)[,!.]? +)+",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"[,;] +(?=(?:but|so|can|could|would|how|what|which|where|do|does|is|any|aber|kannst|mais|peux|"
    r"pouvez|pero|puedes?|i|my|ich|je|j['’]|yo)\b)|"
    r"[,;]? +(?:and|but|so|und|et|y) +(?=(?:i|my|we|it|can|could|how|what|ich|wir|je|nous|yo)\b)|"
    r" - | – |\.\.+|…",
    re.IGNORECASE,
)
_MOOD = pattern("mood")
# A beginning that says nothing without what follows; "I'm vegetarian" is whole.
_OPEN_END = re.compile(
    r"(?<!\w)(?:an?|the|my own|in|at|as|for|with|from|of|on|by|near|close|into|about|like|love|"
    r"enjoy|hate|prefer|dislike|using|running|use|speak|teach|own|play|coach|named|me|une?|de|eine?|"
    r"aus|mag|liebe|spreche|parle|aime|adore|odio|hablo|estudio|llamo)$",
    re.IGNORECASE,
)
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
