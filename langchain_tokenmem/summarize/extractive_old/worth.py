"""Worth of what an entry may say: sentences by their cue, identifiers by their use.

The unit is that of `literals.KIND_WEIGHTS`; only relations matter.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_tokenmem.core.facts.literals import (
    KIND_WEIGHTS,
    WEIGHTS,
    Identifier,
    Literal,
    find_identifiers,
)
from langchain_tokenmem.core.facts.reader import FactsReader
from langchain_tokenmem.core.facts.sentences import cues, terms
from langchain_tokenmem.core.facts.utterances import Cue, Utterance, is_order

_ORDER = 36.0
_CORRECTION = 6.0
_WORTHS = {
    Cue.ORDER: (6.0, 0.8),
    Cue.DECISION: (6.0, 3.5),
    Cue.SETTING: (5.0, 2.5),
    Cue.REQUEST: (5.0, 0.8),
    Cue.ERROR: (5.0, 2.5),
    Cue.OPEN: (5.0, 3.0),
    Cue.QUESTION: (2.0, 0.3),
    Cue.REPORT: (1.2, 3.0),
    Cue.STATEMENT: (1.2, 0.8),
    Cue.ANNOUNCEMENT: (1.2, 0.0),
}
"""Worth of a sentence by its cue: of one that the user says, and of one of the assistant."""

_FIX_BONUS = 2.0
_TOLD, _TOLD_BY_ASSISTANT = 24.0, 16.0
"""Worth of a fact that somebody told among few others: it stands above what tools showed."""
_FEW_TERMS = 2
_SHORT_TOLD, _LONG_TOLD = 70, 2.0
_FEW_TOLD, _FEW_BESIDE, _TOLD_FADING = 10, 4, 1.0
_NOT_TOLD = frozenset({Cue.QUESTION, Cue.ANNOUNCEMENT})
_TELLING_KINDS = frozenset(KIND_WEIGHTS) - {
    "name",
    "acronym",
    "word",
    "number",
    "quoted",
    "image",
}
_ENOUGH_TERMS = 8
_USER_LITERALS, _ASSISTANT_LITERALS = 4.0, 3.0
_LISTING = 2
_MANY, _FADING = 4, 0.7
_CHARACTERS = 14.0
"""Characters of an identifier that are worth one unit: four tokens."""
_LONGEST = 110
_SHORTEST = 2.2
_DIGIT = 1.5
_TOOL = 0.6
_PASSED, _MANY_PASSED = 1.6, 3
_SAID = 0.8
_KNOWN = 0.3
_ID_KEY = re.compile(
    r"(?:.*_)?(?:id|ids|uuid|sha|key|number|email|path|file|filename|name|url|code|branch|ref)_?"
    r"|.*(?:Id|Key|Name|Path|Url)",
)
_NAMED = 1.5


@dataclass(frozen=True)
class Weighting:
    """Worth of identifiers in a batch, by what was done with them.

    Attributes:
        reader: Who knows where each was passed on or said.
        known: Identifiers that earlier entries hold.
        wanted: Terms of the instruction.
        rarity: Share of their worth that literals of a kind keep.
    """

    reader: FactsReader
    known: frozenset[str] = frozenset()
    wanted: frozenset[str] = frozenset()
    rarity: Mapping[str, float] = field(default_factory=dict)
    shown: frozenset[str] = frozenset()
    few_told: Mapping[bool, float] = field(default_factory=dict)

    def told(self, statement: Utterance) -> float:
        """Return the worth that a statement has as a fact that somebody told.

        A user tells with every sentence that asks nothing; a model with one that holds a literal
        which no tool showed or was given, or a choice. It counts less where much is told.
        """
        if not self.tells(statement):
            return 0.0
        share = _few_beside(statement) * self.few_told.get(statement.by_user, 1.0)
        worth = _TOLD if statement.by_user else _TOLD_BY_ASSISTANT
        size = min(_LONG_TOLD, max(1.0, len(statement.text) / _SHORT_TOLD))
        return worth * share * size * min(1.0, len(statement.topic) / _FEW_TERMS)

    def tells(self, statement: Utterance) -> bool:
        """Return whether a statement tells a fact, see `told`."""
        if statement.cue in _NOT_TOLD:
            return False
        is_choice = statement.cue is Cue.DECISION and cues("choice").search(statement.text)
        return bool(statement.by_user or is_choice or any(map(self._is_new, statement.literals)))

    def _is_new(self, one: Literal) -> bool:
        """Return whether a literal stands in no call and no result; names of code are in files."""
        if one.kind not in _TELLING_KINDS or one.text in self.reader.passed_at:
            return False
        if one.kind == "identifier" and not any(map(str.isdigit, one.text)):
            return False
        return one.text not in self.shown and one.text.rpartition("/")[2] not in self.shown

    def among(
        self, statements: Iterable[Utterance], shown: frozenset[str] = frozenset()
    ) -> Weighting:
        """Return the weighting for these statements: of what is much of a kind, each counts less.

        Args:
            statements: What was said.
            shown: Identifiers that tools showed.
        """
        said = list(statements)
        found = {(one.kind, one.text) for statement in said for one in statement.literals}
        numbers = Counter(kind for kind, _ in found)
        rarity = {kind: min(1.0, (_MANY / n) ** _FADING) for kind, n in numbers.items()}
        weighting = replace(self, rarity=rarity, shown=shown)
        told: defaultdict[bool, float] = defaultdict(float)
        for one in said:
            if weighting.tells(one):
                told[one.by_user] += _few_beside(one)
        few = {who: min(1.0, _FEW_TOLD / n) ** _TOLD_FADING for who, n in told.items()}
        return replace(weighting, few_told=few)

    def identifier(self, one: Identifier, place: int) -> float:
        """Return the worth of an identifier that stands in a message.

        Args:
            one: The identifier.
            place: Number of the message; what is passed on behind it is used.
        """
        worth = WEIGHTS[one.kind] * size_of(one.text) * _TOOL
        passed = _after(self.reader.passed_at, one.text, place)
        worth *= 1 + _PASSED * min(passed, _MANY_PASSED)
        if one.text in self.reader.said_at:
            worth *= 1 + _SAID
        if one.key and _ID_KEY.fullmatch(one.key):
            worth *= _NAMED
        return worth * (_KNOWN if one.text in self.known else 1.0)

    def identifiers(self, text: str, place: int) -> dict[str, float]:
        """Return the worth of the identifiers of a text that stands in a message."""
        return {one.text: self.identifier(one, place) for one in find_identifiers(text)}

    def is_used(self, one: Identifier, place: int) -> bool:
        """Return whether an identifier was passed on behind a message, or said."""
        return one.text in self.reader.said_at or _after(self.reader.passed_at, one.text, place) > 0

    def literals(
        self, found: Sequence[Literal], *, by_user: bool, listed: int = 0
    ) -> dict[str, float]:
        """Return the worth of the literals of a sentence, less of each where many are listed.

        Args:
            found: The literals.
            by_user: Whether the user said them.
            listed: How many its whole message holds.
        """
        share = _USER_LITERALS if by_user else _ASSISTANT_LITERALS
        share *= min(1.0, _LISTING / max(1, len(found), listed)) ** 0.5
        return {
            one.text: share
            * KIND_WEIGHTS[one.kind]
            * self.rarity.get(one.kind, 1.0)
            * max(_SHORTEST, size_of(one.text))
            * (_KNOWN if one.text in self.known else 1.0)
            for one in found
        }

    def asked_for(self, worth: float, text: str) -> float:
        """Raise a worth by the words that its text shares with the instruction."""
        shared = min(3, len(terms(text) & self.wanted)) if self.wanted else 0
        return (worth + 2.0) * (1 + shared) - 2.0 if shared else worth


def worth_of(statement: Utterance) -> float:
    """Return the worth of the words of a statement, without its literals."""
    if statement.by_user and statement.cue is Cue.ORDER and is_order(statement.text):
        return _ORDER
    of_user, of_assistant = _WORTHS[statement.cue]
    worth = of_user if statement.by_user else of_assistant
    if statement.cue is Cue.ERROR and cues("fix").search(statement.text):
        worth += _FIX_BONUS
    if statement.corrects:
        worth += _CORRECTION
    # A longer sentence says more; without this, fillers of three words come first.
    return worth * min(1.0, len(statement.topic) / _ENOUGH_TERMS)


def size_of(literal: str) -> float:
    """Return about the tokens of a literal, in units of four; digits take more of them."""
    digits = sum(map(str.isdigit, literal))
    return min(_LONGEST, len(literal) + _DIGIT * digits) / _CHARACTERS


def _few_beside(statement: Utterance) -> float:
    return min(1.0, _FEW_BESIDE / statement.beside)


def _after(places: Mapping[str, list[int]], word: str, place: int) -> int:
    found = places.get(word)
    return len(found) - bisect_right(found, place) if found else 0
