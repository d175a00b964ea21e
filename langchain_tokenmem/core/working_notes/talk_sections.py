"""Sections read from what is said: topics, names and facts; objective, plan and choices."""

# ruff: noqa: RUF001 - the apostrophes and dashes of other scripts are meant as they stand

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from langchain_tokenmem.core.facts.sentences import (
    NOT_NAMES,
    STOP_WORDS,
    any_of,
    capitalises_nouns,
    strip_bullet,
    words_of,
)
from langchain_tokenmem.core.working_notes.decisions import (
    assumption_in,
    constraints_in,
    decision_in,
)
from langchain_tokenmem.core.working_notes.notes_draft import MAX_NAMES, NotesDraft, find
from langchain_tokenmem.core.working_notes.word_rules import (
    MAX_ITEM,
    as_item,
    is_question,
    may_choose,
    needs_context,
    objective_in,
    pattern,
    speaks_to_you,
)
from langchain_tokenmem.notes_state import NoteItem

_READ = 4_000
"""Characters of a message that are read for names."""
_OFTEN = {"entities": 2, "topics": 3}
"""Messages that say a name or a phrase before it is one of the section."""
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
_MOST = 30
"""Names and phrases of one message that are counted."""

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


def read_names(draft: NotesDraft, sentences: Sequence[str], source: str) -> None:
    """Count the names and phrases of the user; those said often enough are topics and entities.

    Args:
        draft: The sections.
        sentences: Sentences of the message.
        source: Its reference.
    """
    text = "\n".join(sentences)[:_READ]
    for name in list(dict.fromkeys((*_names_in(text), *_topics_in(text))))[:_MOST]:
        _count(draft, name, source)
    names = draft.modes["names"]
    while len(names) > MAX_NAMES:  # the rarest goes, of those the one said longest ago
        names.pop(min(names, key=names.__getitem__))


def read_facts(draft: NotesDraft, sentences: Sequence[str], source: str) -> None:
    """Add what the user says of themselves.

    Args:
        draft: The sections.
        sentences: Sentences of a message of the user.
        source: Reference of the message.
    """
    for sentence in sentences:
        for text in facts_in(sentence):
            item = draft.item(text, source)
            if key := fact_key(text):
                item["key"] = key
            draft.add("facts", item)


def read_names_again(draft: NotesDraft, text: str, source: str) -> None:
    """Count the names and phrases of the user that an assistant's message says again.

    New names come from the user only: an assistant's headings are full of capitals.

    Args:
        draft: The sections.
        text: What the assistant said.
        source: Reference of the message.
    """
    text = text[:_READ]
    items = (one["text"] for section in _OFTEN for one in draft.items(section))
    for name in [name for name in (*draft.modes["names"], *items) if name in text]:
        _count(draft, name, source)


def _count(draft: NotesDraft, name: str, source: str) -> None:
    """Count a name; said often enough, it takes the place of one that is said less often."""
    section = "entities" if name[:1].isupper() and name[1:2].islower() else "topics"
    items = list(draft.items(section))
    place = find(items, lambda one: one["text"] == name)
    if place is not None:
        items[place] = {**items[place], "count": items[place].get("count", 0) + 1}
        draft.set_items(section, items)
        return
    names, limit = draft.modes["names"], draft.limits[section]
    count = names.pop(name, 0) + 1
    if count >= _OFTEN[section] and limit:
        if len(items) >= limit:
            rarest = min(range(len(items)), key=lambda at: items[at].get("count", 0))
            if items[rarest].get("count", 0) > count:
                names[name] = count
                return
            del items[rarest]
        draft.set_items(section, [*items, {**draft.item(name, source), "count": count}])
    else:
        names[name] = count


def _names_in(text: str) -> Iterator[str]:
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
        if starts and pattern("task_verb", start=True).match(words[0]):
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


def _topics_in(text: str) -> Iterator[str]:
    """Yield abbreviations, and pairs of neighbouring words that carry a meaning."""
    for match in _ACRONYM.finditer(text):
        if match[0] not in NOT_NAMES and match[0].lower() not in _NO_TOPIC:
            yield match[0]
    for match in _PHRASE.finditer(text):
        first, second = match[1], match[2]
        if first.islower() and second.islower() and not {first, second} & _NO_TOPIC:
            yield f"{first} {second}"


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
        return (
            not needs_context(text) and not speaks_to_you(text) and not pattern("mood").search(text)
        )
    start = pattern("fact_start", start=True).match(text)
    if not start or len(text) < _FEWEST:
        return False
    if _OPEN_END.search(text[: start.end()]) and len(text) < start.end() + 2:
        return False
    if needs_context(text) or speaks_to_you(text) or pattern("mood").search(text):
        return False
    having = _HAVING.match(text)
    return not having or bool(_OWN_THING.search(text, having.end()))


_SUBGOALS = re.compile(
    rf"^[\W_]*{any_of('subgoals')}[ *_]*:[ *_]*(.*)$", re.IGNORECASE | re.MULTILINE
)
_ASSUMPTIONS = re.compile(
    rf"^[\W_]*{any_of('assumptions_heading')}[ *_]*:[ *_]*(.*)$", re.IGNORECASE | re.MULTILINE
)
_BULLETED = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+\S")
_PHASE = re.compile(
    rf"^[\W_]*{any_of('phase_heading')}[ *_]*([^\n.;:]{{2,60}})|"
    rf"(?<!\w){any_of('phase_move')} ([a-z][\w-]{{2,30}}(?: [a-z][\w-]{{2,30}})?) phase\b",
    re.IGNORECASE | re.MULTILINE,
)
_REASON = re.compile(rf"{any_of('reason_heading')} ?: ?(.+)", re.IGNORECASE)
_REJECTED = re.compile(rf"{any_of('rejected_heading')} ?: ?(.+)", re.IGNORECASE)
_SIGNS = (
    *("phase", "fase", "goal", "ziel", "objecti", "objeti"),
    *("assumption", "annahme", "hypoth", "suposi", "supuesto"),
)
_MOST_LISTED = 20


def read_user_words(draft: NotesDraft, sentences: Sequence[str], source: str) -> None:
    """Read what only a user says: the goal, when named as such, and constraints."""
    for sentence in sentences:
        if goal := objective_in(sentence):
            set_objective(draft, goal, source)
        for constraint in constraints_in(sentence):
            item = draft.item(constraint.text, source)
            if constraint.label:
                item["key"] = constraint.label
            draft.add("constraints", item)


def set_objective(draft: NotesDraft, text: str, source: str) -> None:
    """Put a goal in the place of the one before."""
    if [text] != [one["text"] for one in draft.items("objective")]:
        draft.set_items("objective", [draft.item(text, source)])


def read_choices(
    draft: NotesDraft, sentences: Sequence[str], source: str, *, by_user: bool
) -> None:
    """Read decisions and assumptions, whoever says them.

    Args:
        draft: The sections.
        sentences: Sentences of the message.
        source: Its reference.
        by_user: Whether the user said it.
    """
    told: NoteItem | None = None
    for sentence in sentences:
        may_tell = may_choose(sentence)
        if may_tell and (text := assumption_in(sentence)):
            draft.add("assumptions", draft.item(text, source))
        if told and (more := _addition(told, sentence, draft.limits["alternatives"])):
            told = more
            draft.add_decision({**told})
            continue
        decision = decision_in(sentence, by_user=by_user) if may_tell or by_user else None
        if decision is None:
            continue
        told = draft.item(decision.text, source)
        told = draft.decided(told, decision.rationale, decision.rejected)
        draft.add_decision({**told})


def _addition(told: NoteItem, sentence: str, most: int) -> NoteItem | None:
    """Return a decision with the reason, or the alternatives, that the next line gives for it."""
    if reason := _REASON.match(sentence):
        return {**told, "rationale": as_item(reason[1])}
    if rejected := _REJECTED.match(sentence):
        parts = filter(None, map(as_item, re.split(r"[;,]", rejected[1])))
        return {**told, "rejected": list(parts)[:most]}
    return None


def read_plan(draft: NotesDraft, text: str, source: str) -> None:
    """Read sub-goals, the phase and assumptions where they are listed under their names.

    Args:
        draft: The sections.
        text: What was said.
        source: Reference of the message.
    """
    lowered = text.lower()
    if not any(sign in lowered for sign in _SIGNS):
        return
    phases = [(match[1] or match[2]).strip(" *_") for match in _PHASE.finditer(text)]
    if phases and phases[-1] not in [one["text"] for one in draft.items("phase")]:
        draft.set_items("phase", [draft.item(as_item(phases[-1]), source)])
    for assumed in _listed_under(_ASSUMPTIONS, text):
        draft.add("assumptions", draft.item(assumed, source))
    goals = list(dict.fromkeys(_listed_under(_SUBGOALS, text)))[: draft.limits["subgoals"]]
    if goals and goals != [one["text"] for one in draft.items("subgoals")]:
        draft.set_items("subgoals", [draft.item(goal, source) for goal in goals])


def _listed_under(headings: re.Pattern[str], text: str) -> Iterator[str]:
    for heading in headings.finditer(text):
        if heading[1].strip():
            yield from filter(None, map(as_item, heading[1].split(";")))
            continue
        for line in text[heading.end() :].strip("\n").splitlines()[:_MOST_LISTED]:
            if not _BULLETED.match(line):
                break
            yield as_item(strip_bullet(line)[0])
