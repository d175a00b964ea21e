"""Lines of an entry that is made of earlier entries: read back, the last outcome of a call kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.facts.literals import WEIGHTS, find_identifiers, find_literals
from langchain_tokenmem.core.facts.sentences import message_text, split_sentences, terms
from langchain_tokenmem.core.facts.utterances import (
    Cue,
    Utterance,
    classify,
    closed_items,
)
from langchain_tokenmem.summarize.extractive.chronicle import sentence_forms
from langchain_tokenmem.summarize.extractive.selection import NOTHING, Form, Line, Mark, Piece
from langchain_tokenmem.summarize.extractive.worth import Weighting, size_of, worth_of

_STEP = re.compile(r"ran |read \S|edited \S|[\w.-]{1,60}\(")
_HEAD = re.compile(r"(?:read|edited) [^:;]+|ran .*?(?=: |$)|[\w.-]{1,60}\(.*?\)(?=: |$)")
_BARE = re.compile(r"[^\s=]+")
_BULLET = re.compile(r"[-*•]\s+")
_CUE = re.compile(r"(?:failed|no result|passed|succeeded)\b")
_OLDEST = 0.4
"""Share of its worth that the oldest entry keeps; decisions, constraints and errors keep all."""
_AGELESS = frozenset({Cue.ORDER, Cue.DECISION, Cue.SETTING, Cue.OPEN})
_SPOKEN = (Mark.USER, Mark.CORRECTION, Mark.ASSISTANT)
_STEP_WORTH, _FAILED_WORTH = 0.6, 2.0
_NOTE_WORTH = 2.0
_VALUE_WORTH = 0.1


@dataclass(frozen=True, slots=True)
class _Note:
    """A line of an earlier entry: steps, or sentences with who said them."""

    mark: Mark
    text: str
    place: int
    statements: tuple[Utterance, ...] = ()


def condensed_lines(notes: Sequence[BaseMessage], weighting: Weighting) -> list[Line]:
    """Return the lines of earlier entries, without those that a later one repeats or closes.

    Args:
        notes: The entries, the oldest first.
        weighting: The worth of what they hold.
    """
    found = [
        note
        for place, message in enumerate(notes)
        for line in message_text(message).splitlines()
        if (note := _note(line.strip(), place))
    ]
    often = Counter(
        word
        for message in notes
        for word in {one.text for one in find_identifiers(message_text(message))}
    )
    said = [one for note in found for one in note.statements]
    steps = (note.text for note in found if note.mark is Mark.STEP)
    shown = frozenset(one.text for text in steps for one in find_identifiers(text))
    weighting = weighting.among(said, shown)
    left_out = {id(said[at]) for at in closed_items(said)} | _repeated(said)
    lines: list[Line] = []
    for note in found:
        age = _OLDEST + (1 - _OLDEST) * (note.place + 1) / len(notes)
        if note.mark is Mark.STEP:
            lines += _steps(note.text, note.place, age, weighting, often)
        pieces = [
            _piece(note, one, age, weighting) for one in note.statements if id(one) not in left_out
        ]
        if pieces:
            lines.append(Line(note.mark, tuple(pieces)))
    return _without_repeats(lines)


def _repeated(said: Sequence[Utterance]) -> set[int]:
    """Return the ids of statements that say the same again; of each the user's own stays."""
    kept: dict[str, Utterance] = {}
    for one in said:
        before = kept.get(one.text)
        if before is None or (one.by_user and not before.by_user):
            kept[one.text] = one
    return {id(one) for one in said if kept[one.text] is not one}


def _note(text: str, place: int) -> _Note | None:
    bullet = _BULLET.match(text)
    bare = text[bullet.end() :] if bullet else text
    if not bare or bare.startswith("#") or bare == NOTHING:
        return None
    mark = next((one for one in _SPOKEN if bare.startswith(one.value)), Mark.NOTE)
    if mark is Mark.NOTE and not bullet and _STEP.match(text):
        return _Note(Mark.STEP, text, place)
    by_user = mark in (Mark.USER, Mark.CORRECTION)
    statements = [
        _statement(sentence, place, by_user=by_user, corrects=mark is Mark.CORRECTION)
        for sentence in split_sentences(bare.removeprefix(mark.value))
    ]
    return _Note(mark, text, place, tuple(statements))


def _statement(sentence: str, place: int, *, by_user: bool, corrects: bool) -> Utterance:
    literals = find_literals(sentence)
    cue = classify(sentence, literals, is_user=by_user)
    return Utterance(by_user, sentence, cue, place, tuple(literals), terms(sentence), corrects)


def _piece(note: _Note, one: Utterance, age: float, weighting: Weighting) -> Piece:
    worth = worth_of(one) + (_NOTE_WORTH if note.mark is Mark.NOTE else 0.0)
    worth = weighting.asked_for(worth, one.text) * (1.0 if one.cue in _AGELESS else age)
    worth += weighting.told(one)
    listed = sum(len(other.literals) for other in note.statements)
    values = weighting.literals(one.literals, by_user=one.by_user, listed=listed)
    return Piece(sentence_forms(one, worth), values, (one.place,), one.topic)


def _steps(
    text: str, place: int, age: float, weighting: Weighting, often: Counter[str]
) -> Iterator[Line]:
    """Yield the steps of a line: one with its values, or several without."""
    parts = text.split("; ")
    starts = [at for at, part in enumerate(parts) if _STEP.match(part)]
    has_values = len(starts) == 1
    for at in starts:
        part = parts[at]
        head = _HEAD.match(part)
        said = head[0] if head else part
        rest = part[len(said) :].removeprefix(": ")
        if _CUE.match(rest):  # how it ended stands with the call
            said, rest = part, ""
        values = [rest, *parts[at + 1 :]] if has_values else [rest]
        yield _step_line(said, [one for one in values if one], place, age, weighting, often)


def _step_line(
    said: str, values: list[str], place: int, age: float, weighting: Weighting, often: Counter[str]
) -> Line:
    worth = _FAILED_WORTH if ": failed" in said else _STEP_WORTH
    head = Form(said, weighting.asked_for(worth, said) * age)
    pieces = [Piece((head,), _worths(said, age, often), (place,))]
    for text in values:
        form, is_bare = Form(text, _VALUE_WORTH * age), bool(_BARE.fullmatch(text))
        pieces.append(Piece((form,), _worths(text, age, often), (place,), is_bare=is_bare))
    return Line(Mark.STEP, tuple(pieces))


def _worths(text: str, age: float, often: Counter[str]) -> dict[str, float]:
    return {
        one.text: WEIGHTS[one.kind] * size_of(one.text) * 0.6 * age * often[one.text]
        for one in find_identifiers(text)
    }


def _without_repeats(lines: list[Line]) -> list[Line]:
    """Keep of each call the last line."""
    last: dict[str, int] = {}
    for at, line in enumerate(lines):
        if line.is_step:
            last[_call_of(line)] = at
    return [line for at, line in enumerate(lines) if not line.is_step or last[_call_of(line)] == at]


def _call_of(line: Line) -> str:
    head = line.pieces[0].forms[-1].text
    found = _HEAD.match(head)
    return found[0] if found else head
