"""Rules of words for a sentence: requests, goals, constraints and facts about the user."""

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
)

_SALUTATION = re.compile(
    rf"(?:(?:{any_of('greeting')}|{any_of('lead')})\s?[,!.:–-]+\s+)+(?=\S)", re.IGNORECASE
)

MAX_ITEM = 200
"""Maximum characters of an item."""

_HEAD, _TAIL = 6_000, 3_000
"""Characters at either end of a message that are read; what is between is a pasted document."""
_CODE = re.compile(
    r"\s{4,}|\d+[:|]|>|[$#%] |(?:def|class|return|import|from|if|for|while|const|let|var|print|"
    r"public|private|SELECT|INSERT|self)\b(?=.*[=;:(){}]\s*)|[\w.]+\(|[<{}\[|@]|.*(?:[;{}\\]|\)\s*:)$"
)
# Two signs of Chinese or Japanese count as a word.
_WORDS = re.compile(r"[\u3040-\u9fff]{2}|[^\W\d_\u3040-\u9fff]{2,}")
_FEWEST_WORDS = 2
_LABELLED_NUMBER = re.compile(r"[^\W\d_]{3,20} ?[:=,] ?[$€£]?\d")
"""`Budget: $50k` and `Sorry, 900` have one word and say it all."""


WORD_END = r"(?:(?<=['’])|(?!\w))"
"""End of a word of the vocabulary; no border follows an apostrophe: `qu'il`."""


@cache
def pattern(table: str) -> re.Pattern[str]:
    """Return a pattern for the words of a table of the vocabulary, between borders."""
    return re.compile(rf"(?<![\w’']){any_of(table)}{WORD_END}", re.IGNORECASE)


_QUOTATION_MARK = re.compile(r"(?<!\d)\"|[“”„«»]")
"""A quotation mark, not the sign for inches in 6'2"."""


def is_quoted(sentence: str, place: int) -> bool:
    """Return whether a place of a sentence is inside quotation marks."""
    return len(_QUOTATION_MARK.findall(sentence, 0, place)) % 2 == 1


_NO_QUESTION = ("静か", "確か", "豊か", "らか", "ほか")
"""Ends of Japanese adjectives, such as 'quiet' and 'clear', and of 'besides'."""


def note_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a message, each on one line: no code, no logs and no quoted mail.

    Args:
        text: What was said; of a long text both ends are read.

    Example:
        >>> [*note_sentences("Yes! I live in Lyon. 好的。我对花生过敏。")]
        ['I live in Lyon.', '我对花生过敏。']
    """
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n\n{text[-_TAIL:]}"
    for line in prose_lines(prose(text)):
        if _CODE.match(line):
            continue
        bare, _ = strip_bullet(line)
        is_closed, is_inside = not is_quoted(bare, len(bare)), False
        for sentence in split_sentences(bare):
            was_inside = is_inside
            is_inside = is_closed and is_quoted(sentence, len(sentence)) != was_inside
            if was_inside:
                continue
            words = _WORDS.findall(sentence)
            if len(words) >= _FEWEST_WORDS or _LABELLED_NUMBER.match(sentence):
                yield sentence


def is_question(sentence: str) -> bool:
    """Return whether a sentence ends like a question."""
    said = sentence.rstrip("\"')*_ 。")
    return said.endswith(("?", "？", "か", "吗")) and not said.endswith(_NO_QUESTION)


def needs_context(text: str) -> bool:
    """Return whether a text refers to something outside itself."""
    return bool(pattern("needs_context").search(text))


def as_item(text: str) -> str:
    """Return a text as an item: one line, without marks at its ends, cut to `MAX_ITEM`."""
    return one_line(text.strip(" \t,;:.!*–—_-"), MAX_ITEM)


def without_lead(lead: re.Pattern[str], text: str) -> str:
    """Return a text without what a pattern finds at its beginning."""
    found = lead.match(text)
    return text[found.end() :] if found else text


MAX_TASK = 160
"""Characters of a task."""

_POLITE = re.compile(rf"(?:{any_of('request_lead')}[,:!.]? +)+", re.IGNORECASE)
_ASKING_YOU = re.compile(rf"\b{any_of('asking_you')}\b", re.IGNORECASE)
_BACK_TO_WORK = re.compile(rf"{any_of('back_to_work')}\b", re.IGNORECASE)
_POINTING = 2
"""Terms up to which a request points at what was said before: "Please fix it." """


def request_in(sentences: Sequence[str]) -> str | None:
    """Return the first sentence of a message that asks for something, or None.

    Assent, "continue", thanks and questions ask for nothing; "Can you add a test?" does. If the
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


_ERROR_ITSELF = re.compile(r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b")


def reported_problem(sentences: Sequence[str]) -> str | None:
    """Return the first sentence in which a user reports an error, or None; not the error itself.

    Example:
        >>> reported_problem(["KeyError: 'id'", "The login page crashes on Safari."])
        'The login page crashes on Safari.'
    """
    for sentence in sentences:
        is_report = cues("error").search(sentence) and not _ERROR_ITSELF.match(sentence)
        if is_report and not is_question(sentence):
            return one_line(_without_salutation(sentence), MAX_TASK)
    return None


def objective_in(sentence: str) -> str | None:
    """Return the goal that a sentence names as such; None if it names none.

    Example:
        >>> objective_in("Our goal is to halve the cost.")
        'halve the cost'
    """
    match = pattern("objective").search(sentence)
    if not match or is_question(sentence):
        return None
    rest = sentence[match.end() :].strip(" :,.!*")
    return one_line(rest, MAX_TASK) if len(terms(rest)) > 1 else None


def _asks(sentence: str) -> bool:
    text = _without_salutation(sentence)
    bare = without_lead(_POLITE, text)
    if is_question(sentence):
        asks = bool(_ASKING_YOU.search(text))
    else:
        wishes = cues("request").search(bare if _RULE.match(bare) else text)
        asks = bool(wishes or pattern("task_verb").match(bare))
    return asks and not _BACK_TO_WORK.match(bare) and not pattern("no_request").search(text)


def _points(sentence: str) -> bool:
    """Return whether a sentence asks for work on what the one before it says."""
    bare = without_lead(_POLITE, sentence)
    return bool(pattern("task_verb").match(bare)) and needs_context(bare)


def _content(sentence: str) -> frozenset[str]:
    """Return what a sentence is about, without assent, thanks and the words of asking."""
    for words in (cues("greeting"), pattern("acknowledgement"), cues("request")):
        sentence = words.sub(" ", sentence)
    found = terms(sentence)
    return found if len(found) >= _POINTING else found | identifiers_in(sentence)


def _without_salutation(sentence: str) -> str:
    return without_lead(_SALUTATION, sentence).rstrip(": ")


# --- constraints

_VALUE = (
    rf"(?:{any_of('limit_bound')} )*"
    rf"(?:{any_of('month')} (?=\d)|(?:early|late|mid|end of) )*"
    # Signs after a number belong to a date only: "am 3. März", "April 20, 2024".
    rf"(?:the (?=\d))?[$€£¥]? ?\d(?:[\d.,:/'’-]*\d)?(?:\.(?= {any_of('month')})|,(?= \d{{4}}\b))?"
    rf"(?: \d{{3}}(?!\d))*\w*(?: ?[€$£%])?(?: of {any_of('month')})?"
    rf"(?: (?!(?:{any_of('no_unit')}|{any_of('change')}|{any_of('limit_change')})\b)[^\W_]+){{0,2}}"
    rf"(?: {any_of('limit_change')} (?!{any_of('no_unit')}\b)[^\W\d_]+)?"
    rf"(?:(?: {any_of('for_each')}){{1,2}}| ?/ ?[^\W\d_]+)?"
    r"|(?:(?:next|this|by|on|am|le|el) )*(?:mon|tues|wednes|thurs|fri|satur|sun)day\b"
    rf"|(?:(?:{any_of('limit_bound')}|early|late|mid|end of) )*"
    rf"{any_of('month')}(?: \d{{4}})?\b"
)
_LABELLED = re.compile(
    rf"(?<![\w-])((?:[^\W\d_]+ )?{any_of('limit_label')}"
    r"(?: (?:for|für|pour|para) (?:[^\W\d_]+ )?[^\W\d_]+)?)"
    rf"(?: ?:| ?=| {any_of('limit_copula')})"
    rf" ?(?:the (?=end of ))?((?i:{_VALUE}))",
    re.IGNORECASE,
)
_NO_LABEL = re.compile(rf"{any_of('no_label')} ", re.IGNORECASE)
_RULE = pattern("rule_start")
_BOUND = re.compile(rf"(?<!\w){any_of('rule_bound')} (?:\w+ )?[$€£]?\d", re.IGNORECASE)
_WISH = re.compile(any_of("rule_wish"), re.IGNORECASE)
_LEAD = re.compile(rf"(?:{any_of('lead')}[,:!.]? +)+", re.IGNORECASE)
_RULE_CLAUSE = re.compile(rf"[,;] (?:and |but )?(?={any_of('rule_clause')}\b)", re.IGNORECASE)
_CONDITION = re.compile(r"\b(?:if|when|unless|wenn|falls|si|cuando|quand)\b", re.IGNORECASE)
_PERSON = re.compile(r"(?:it|that|this|you|he|she|they|there|what|i|we|which|who)\b", re.IGNORECASE)
_FEWEST = 12


def constraints_in(sentence: str) -> Iterator[tuple[str, str]]:
    """Yield the constraints that a sentence of the user sets, each with its label.

    The label says what a limit is for, in lower case; a later limit with the label replaces it.
    A rule has none.

    Example:
        >>> [*constraints_in("Our budget is $50k and the deadline is May 3.")]
        [('Budget: $50k', 'budget'), ('Deadline: May 3', 'deadline')]
    """
    labelled = False
    text = without_lead(_LEAD, sentence)
    for match in _LABELLED.finditer(sentence):
        front = sentence[: match.start()]
        if is_quoted(sentence, len(front)) or pattern("supposing").search(front):
            continue
        if _CONDITION.search(front.rpartition(",")[2]):
            continue
        name = match[1]
        while (cut := _NO_LABEL.match(name)) is not None:
            name = name[cut.end() :]
        labelled = True
        yield as_item(f"{name[:1].upper()}{name[1:]}: {match[2]}"), name.lower()
    for clause in [text] if _CONDITION.match(text) else _RULE_CLAUSE.split(text):
        if is_rule(clause) and not (labelled and clause == text):
            yield as_item(clause), ""


_CORRECTED = re.compile(
    rf"(?:not (?P<wrong>(?i:{_VALUE})),? (?:but )?)?"
    rf"(?P<lead>[^\d$€£]{{0,30}}?)(?<!\w)(?P<value>(?:\w+ of )?(?i:{_VALUE}))"
    rf"(?:,? not (?P<old>(?i:{_VALUE})))?\W*",
    re.IGNORECASE,
)
_HAS_VALUE = re.compile(rf"\d|{pattern('month').pattern}")


def corrected_value(sentence: str) -> tuple[str, str]:
    """Return the value that corrects the one before, and that one if it is said; else empty texts.

    Only words of a correction may come before the value: "the deadline is" begins a new statement.

    Example:
        >>> [corrected_value(said) for said in ("No, make that 60 days.", "It's 45, not 40.")]
        [('60 days', ''), ('45', '40')]
    """
    match = _CORRECTED.fullmatch(sentence)
    if not match or is_question(sentence):
        return "", ""
    value, old = as_item(match["value"]), as_item(match["old"] or match["wrong"] or "")
    before = sentence[: match.end("value")]
    found = [
        one.end()
        for table in ("correction", "correction_at_the_beginning")
        for one in cues(table).finditer(before)
    ]
    rest = match["lead"][max(found, default=0) :]
    return (value, old) if old or (found and not terms(rest)) else ("", "")


def unit_of(value: str) -> str:
    """Return the last word of a value, such as its unit or month; empty for a mere number."""
    return next(reversed(_WORDS.findall(value)), "")


def has_value(text: str, unit: str) -> bool:
    """Return whether a text has a number, or a month, and the word of a unit."""
    words = map(str.casefold, _WORDS.findall(text))
    return bool(_HAS_VALUE.search(text)) and (not unit or unit.casefold() in words)


def has_word(text: str, word: str) -> bool:
    """Return whether a text has a word or number, or several in a row, whatever their case."""
    return bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE))


def is_rule(text: str) -> bool:
    """Return whether a sentence demands or forbids something."""
    if not _FEWEST <= len(text) <= MAX_ITEM or not _demands(text):
        return False
    if is_question(text) or text.endswith(":") or is_quoted(text, len(text)):
        return False  # an odd quotation mark: the end of what somebody else says
    return not pattern("no_rule").search(text) and not needs_context(text)


def _demands(text: str) -> bool:
    """Return whether the words of a sentence demand or forbid something."""
    if _RULE.match(text) or (not _PERSON.match(text) and pattern("rule_modal").search(text)):
        return True
    return bool(_BOUND.search(text) and _WISH.search(text))


# --- facts about the user

_HAS = rf"(?:{any_of('own_thing')}|{any_of('condition')})(?!\w)"
_USER_HAS = re.compile(
    rf"{any_of('having')}(?= (?:{any_of('having_count')}|{any_of('condition')})\b)", re.IGNORECASE
)
_OWN_THING = re.compile(rf"(?<!\w){_HAS}", re.IGNORECASE)
_IS = rf"(?:['’]s (?:name|birthday))?(?: ?:|['’]s| {any_of('relation_verb')})"
_KIND = rf"(?:(?!(?:{any_of('determiner')}|{any_of('change')})\b)[^\W\d_]+ )?"
_EVENT = rf"{_KIND}{any_of('own_event')}"
_MATTER = rf"{_KIND}{any_of('own_matter')}"
_NAMED_MATTER = rf"(?:(?P<matter>{_MATTER})|{_EVENT})"
_MY = r"(?:my|meine?|mon|ma|mes|mis?)"
_OUR = r"(?:my|our|meine?|unsere?|mon|ma|mes|notre|nos|mis?|nuestr[oa]s?)"
_RELATION = re.compile(
    rf"(?:{_MY} (?P<relation>{any_of('own_relation')}){_IS}"
    rf"|{_OUR} {_NAMED_MATTER}{_IS}"
    rf"|{_OUR} {any_of('own_person')}(?-i:(?: [A-ZÀ-Þ][\w-]+)?)"
    rf"(?:{_IS}| {any_of('person_verb')}| {any_of('person_has')}(?=[^,;]* {_HAS}))) (?=\S)",
    re.IGNORECASE,
)
_CHANGER = (
    rf"(?:{any_of('changing')} |{any_of('determiner')} ?"
    rf"(?:(?:[\w-]+ )?{any_of('own_person')}|{_MATTER}|{_EVENT})(?!\w))"
)
_CHANGE = re.compile(
    rf"(?={_CHANGER}).*?(?<!\w){_NAMED_MATTER}"
    rf"(?: (?:{any_of('matter_next')}|{any_of('change')})(?: [^\s,;]+){{0,3}}?)?"
    rf" {any_of('change_to')} (?i:{_VALUE})",
    re.IGNORECASE,
)
"""`The landlord lowered the rent to 850`: who changed it, what, and the new value."""
_FACT_CLAUSE = re.compile(
    rf"[,;] +(?={any_of('fact_clause')}\b)| - | – |\.\.+|…|"
    # Who writes without capitals ends sentences all the same.
    r"(?<=[a-zß-ÿ]{4})[.!]+ +|"
    rf"[,;]? +{any_of('fact_joint')} +(?={any_of('fact_subject')}\b)",
    re.IGNORECASE,
)


def facts_in(sentence: str) -> Iterator[tuple[str, str]]:
    """Yield what a sentence of the user says about the user, clause by clause, each with its key.

    A later fact of the same key replaces it: `name` of "My name is Ada"; most have none.

    Example:
        >>> [*facts_in("Hi, I live in Lyon, and can you help me with my garden?")]
        [('I live in Lyon', '')]
    """
    clauses = [part for part in _FACT_CLAUSE.split(sentence) if part]
    for place, clause in enumerate(clauses):
        if pattern("supposing").search(clause) or pattern("reported").search(clause):
            return
        if is_quoted(sentence, sentence.find(clause)):
            continue
        asked = is_question(sentence) and place == len(clauses) - 1
        text = without_lead(_LEAD, clause)
        if not asked and len(text) <= MAX_ITEM and _is_fact(text):
            fact = as_item(text)
            match = _RELATION.match(fact) or _CHANGE.match(fact)
            keys = match.groupdict().values() if match else ()
            yield fact, next(filter(None, keys), "").lower()


def _is_fact(text: str) -> bool:
    if _CHANGE.match(text) and pattern("change").search(text):
        return not (_asks(text) or pattern("undecided").search(text))
    if not (_RELATION.match(text) or _speaks_of_user(text)):
        return False
    speaks_to_you = pattern("your_words").search(text)
    return not (needs_context(text) or speaks_to_you or pattern("mood").search(text))


def _speaks_of_user(text: str) -> bool:
    if having := _USER_HAS.match(text):
        return bool(_OWN_THING.search(text, having.end()))
    return bool(pattern("fact_start").match(text))
