"""Rules of words for a sentence: decisions with their reasons and alternatives, and assumptions."""

# ruff: noqa: RUF001 - the apostrophes and dashes of other scripts are meant as they are

from __future__ import annotations

import re
from dataclasses import dataclass

from langchain_tokenmem.core.facts.sentences import any_of
from langchain_tokenmem.core.working_notes.sentence_rules import (
    WORD_END,
    as_item,
    has_word,
    is_question,
    is_quoted,
    needs_context,
    pattern,
    without_lead,
)

_USER_DECIDED = pattern("user_decided")
_BECAUSE = re.compile(rf",? {any_of('because')}{WORD_END}[ ,]*", re.IGNORECASE)
_REJECTING = re.compile(rf"(?:,? |^){any_of('rejecting')}{WORD_END} ?", re.IGNORECASE)
_CHOSEN_OVER = re.compile(r"\b(?:chose|chosen|picked|selected|opted)\b", re.IGNORECASE)
_OVER = re.compile(r" over ")
_NEXT_CLAUSE = re.compile(
    r",? (?:and|und|et|y) (?:i|we|it|that|then|now|the|have|need|want|am|wir|ich|nous|je|on)\b|;|"
    r", (?:but|so|which|can|could|what|how|while|although|please|assuming|aber|mais|pero)\b|"
    r" (?:but|so) (?:i|we|it|can)\b| - | – |\.\.+|…|!|, (?:we|i)(?:['’]| )",
    re.IGNORECASE,
)
_OR = re.compile(r" (?:or|and|oder|und|ou|et|o|y) |, ")
# With a capital, "use Go" or "flight HAT052" would be a name that no one mentioned.
_VERB = re.compile(r"[a-zß-ÿ]+(?= [a-zß-ÿ]|$)")
_DETERMINER = re.compile(rf"{any_of('determiner')} ", re.IGNORECASE)
_OPTION = re.compile(any_of("bare_option"), re.IGNORECASE)
_VERB_AT_END = re.compile(r" (?:entschieden|entschlossen)$")
_REJECTED_VERB_AT_END = re.compile(r" (?:zu [a-zäöü]+|entschieden|entschlossen)$")
# "We settled on Redis": a name says enough alone.
_NAME = re.compile(r"[A-Z][A-Za-z]*[a-z\d][\w.+#-]*")
_AGAINST = re.compile(rf"\b{any_of('against')}$", re.IGNORECASE)

_AFTER_ASSUMPTION = re.compile(
    r",(?= (?:i|we|you|the|it|this|that|then|what|how|can|my|our|there|here|wir|ist|nous|on|le|"
    r"la|el|podemos)\b)|;| \(|(?<!\\)\)| but | then |, (?:so|but) |"
    r",? (?:and|und|et|y) (?:i|we|you|it|then|try|see|find|proceed|run|go|move|use|continue)\b",
    re.IGNORECASE,
)
_COMMA = re.compile(r"[,;]")
# "Let's assume you have a file" sets up an example.
_EXAMPLE = re.compile(r"let['’]s|let us|we['’]?(?:ll| will)", re.IGNORECASE)
_HAVING = re.compile(r"(?:you|we) have ", re.IGNORECASE)
_LISTING = re.compile(r",? (?:and|or) ")
# "Let's assume the load is \\( L_1 \\)" gives a name in a calculation.
_FORMULA = re.compile(r"\\[(\[]|\$.*\$")
_SHORTEST, _FEWEST_WORDS = 2, 2
_WORDS_BEFORE = 2


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision that a speaker mentions.

    Attributes:
        text: What was chosen.
        rationale: Why; empty if it is not said.
        rejected: What it was chosen instead of.
        dropped: What it is against: an earlier choice, perhaps.
    """

    text: str
    rationale: str = ""
    rejected: tuple[str, ...] = ()
    dropped: str = ""


def decision_in(sentence: str, *, by_user: bool) -> Decision | None:
    """Return the decision that a sentence mentions, or `None`.

    Args:
        sentence: The sentence.
        by_user: Whether the user said it; an assistant says "Let's use" of each of its steps.

    Example:
        >>> sentence = "We decided to use Go instead of Java because it starts fast."
        >>> decision_in(sentence, by_user=True)
        Decision(text='use Go', rationale='it starts fast', rejected=('Java',), dropped='')
    """
    if is_question(sentence) or sentence.endswith(":"):
        return None
    match = pattern("decided").search(sentence) or (
        _USER_DECIDED.match(sentence) if by_user else None
    )
    front = sentence[: match.start()] if match else ""
    if match is None or is_quoted(sentence, len(front)) or pattern("undecided").search(front):
        return None
    rest = sentence[match.end() :]
    rejected: list[str] = []
    if before := _REJECTING.match(front):  # "Instead of Java, we decided to use Go"
        rejected.append(front[before.end() :])
    parts = _BECAUSE.split(rest, maxsplit=1)
    rest, reason = parts[0], parts[1] if len(parts) > 1 else ""
    if over := _rejection(match[0], rest):
        rejected.append(rest[over.end() :])
        rest = rest[: over.start()]
    if reason and (over := _REJECTING.search(reason)):
        rejected.append(reason[over.end() :])
        reason = reason[: over.start()]
    chosen, dropped = as_item(_first_clause(rest)), ""
    if against := _AGAINST.search(match[0]):
        dropped = _OR.split(chosen)[0]
        chosen = f"{against[0]} {chosen}"
    if match[0].lower().endswith(" use"):
        chosen = f"use {chosen}"
    chosen = _VERB_AT_END.sub("", chosen)
    is_named = _NAME.fullmatch(chosen)
    says_enough = _says_enough(chosen, 1 if reason or rejected or is_named else _FEWEST_WORDS)
    if not says_enough or _OPTION.fullmatch(chosen) or rest.startswith(","):
        return None
    alternatives = [
        _REJECTED_VERB_AT_END.sub("", as_item(part))
        for text in rejected
        for part in _OR.split(_first_clause(text))
    ]
    reason = as_item(_first_clause(reason))
    return Decision(_capitalised(chosen), reason, tuple(filter(None, alternatives)), dropped)


def is_about(decision: str, name: str) -> bool:
    """Return whether a decision is about one thing: "use Redis as a cache" about "Redis"."""
    bare, chosen = without_lead(_DETERMINER, name), _REJECTING.split(decision)[0]
    if len(bare) < _SHORTEST or needs_context(bare) or _OR.search(chosen):
        return False
    return has_word(chosen, bare)


def _rejection(decided: str, rest: str) -> re.Match[str] | None:
    """Return where the rejected part begins; "over" marks it only after a choice of things."""
    return _REJECTING.search(rest) or (_OVER.search(rest) if _CHOSEN_OVER.search(decided) else None)


def _first_clause(text: str) -> str:
    end = _NEXT_CLAUSE.search(text)
    return text[: end.start()] if end else text


def _says_enough(text: str, fewest: int = _FEWEST_WORDS) -> bool:
    words = text.split()
    return len(text) >= _SHORTEST and len(words) >= fewest and not needs_context(text)


def _capitalised(text: str) -> str:
    """Return a text with a capital in front, if it begins with a plain word."""
    return f"{text[0].upper()}{text[1:]}" if _VERB.match(text) else text


def assumption_in(sentence: str) -> str | None:
    """Return what a sentence takes for granted, or `None`.

    Example:
        >>> assumption_in("Assuming that the API is stable, we can ship in May.")
        'the API is stable'
    """
    match = pattern("assuming").search(sentence)
    if not match or is_question(sentence) or sentence.endswith(":"):
        return None
    if pattern("not_assumed").search(" ".join(sentence[: match.start()].split()[-_WORDS_BEFORE:])):
        return None
    rest = sentence[match.end() :].lstrip(" ,:")
    is_english = "assum" in match[0].lower()
    leads = match.start() == 0 and not _LISTING.search(rest)  # "Assuming it is so, we go on"
    end = (_AFTER_ASSUMPTION if is_english and not leads else _COMMA).search(rest)
    text = as_item(rest[: end.start()] if end else rest)
    if not _says_enough(text, _FEWEST_WORDS + 1) or _FORMULA.search(text):
        return None
    if _EXAMPLE.match(match[0]) and _HAVING.match(text):
        return None
    return text
