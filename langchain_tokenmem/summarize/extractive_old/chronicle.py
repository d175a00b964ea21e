"""Lines of an entry about new messages: each turn in order, what was done, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from langchain_tokenmem.core.facts.call_kinds import CallKind
from langchain_tokenmem.core.facts.reader import Fact, FactsReader, ToolCallFact
from langchain_tokenmem.core.facts.sentences import one_line, prose
from langchain_tokenmem.core.facts.tool_results import ResultValue
from langchain_tokenmem.core.facts.utterances import Cue, Utterance, closed_items
from langchain_tokenmem.summarize.extractive.clauses import clauses_of
from langchain_tokenmem.summarize.extractive.selection import Form, Line, Mark, Piece
from langchain_tokenmem.summarize.extractive.worth import Weighting, worth_of

_SHORT_CALL, _LONG_CALL = 60, 140
_STEP = {
    CallKind.READ: 0.3,
    CallKind.SEARCH: 0.3,
    CallKind.RUN: 0.8,
    CallKind.EDIT: 2.5,
    CallKind.OTHER: 1.5,
}
_FAILED = 4.0
_CLAUSE_SHARE, _ORDER_SHARE = 0.6, 0.9
"""Share of the worth of its words that a sentence keeps with each shorter form."""
_PASTED = 20
_OUTCOME = 1.0
_SHORT_OUTCOME = 40
_PASSED_SHARE = 0.5
_LISTED = 10
_COPIED = frozenset({"path", "address", "id"})
_FAILED_SHARE = 0.4
_NAME = re.compile(r"[^\w.-]+")


def chronicle_lines(reader: FactsReader, weighting: Weighting, prior: str | None) -> list[Line]:
    """Return the lines of an entry, all that it could say.

    Args:
        reader: The facts of the batch.
        weighting: The worth of what they hold.
        prior: The entries before, for commands that failed there.
    """
    facts = _without_superseded(reader.facts)
    said = (one for one in facts if isinstance(one, Utterance))
    weighting = weighting.among(said, _shown(reader.facts))
    lines: list[Line] = []
    for told, run in groupby(facts, key=_message_of):
        if told is None:
            calls = (one for one in run if isinstance(one, ToolCallFact))
            lines += [_step_line(call, weighting, prior) for call in calls]
        else:
            statements = [one for one in run if isinstance(one, Utterance)]
            pieces = tuple(_sentence_pieces(statements, weighting, prior))
            lines += [Line(told[0], pieces)] if pieces else []
    return lines


def _shown(facts: Sequence[Fact]) -> frozenset[str]:
    """Return the identifiers that results brought, of a path its last part, too."""
    shown = {
        one.text
        for fact in facts
        if isinstance(fact, ToolCallFact)
        for value in (*fact.values, *fact.passed)
        for one in value.identifiers
    }
    return frozenset(shown | {text.rpartition("/")[2] for text in shown})


def _message_of(fact: Fact) -> tuple[Mark, int] | None:
    """Return who says a statement, and in which message; None for a call."""
    if isinstance(fact, ToolCallFact):
        return None
    if not fact.by_user:
        return Mark.ASSISTANT, fact.place
    return Mark.CORRECTION if fact.corrects else Mark.USER, fact.place


def _without_superseded(facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts: no closed items, no words of the user twice; of each call the last one.

    That call tells of the failure before it.
    """
    said = [one for one in facts if isinstance(one, Utterance)]
    closed = {id(said[at]) for at in closed_items(said)}
    last = {one.key: at for at, one in enumerate(facts) if isinstance(one, ToolCallFact)}
    past: dict[str, str] = {}
    told: set[str] = set()
    kept: list[Fact] = []
    for at, fact in enumerate(facts):
        if not isinstance(fact, ToolCallFact):
            if id(fact) not in closed and fact.text not in told:
                kept.append(fact)
            if fact.by_user:
                told.add(fact.text)
        elif last[fact.key] == at:
            kept.append(replace(fact, failed_before=past.get(fact.key, "")))
        elif fact.failure is not None:
            past.setdefault(fact.key, fact.failure)
    return kept


def _sentence_pieces(
    said: Sequence[Utterance], weighting: Weighting, prior: str | None
) -> Iterator[Piece]:
    """Yield the statements of one message, each whole and as its clauses with literals."""
    listed = sum(len(one.literals) for one in said)
    share = min(1.0, _PASTED / len(said)) ** 0.5
    for one in said:
        if one.cue is not Cue.ANNOUNCEMENT and not (prior and one.text in prior):
            literals = weighting.literals(one.literals, by_user=one.by_user, listed=listed)
            worth = share * worth_of(one) + weighting.told(one)
            forms = sentence_forms(one, weighting.asked_for(worth, one.text))
            yield Piece(forms, literals, (one.place,), one.topic)


def sentence_forms(statement: Utterance, worth: float) -> tuple[Form, ...]:
    """Return a statement whole and as its clauses, the shortest first."""
    share = _ORDER_SHARE if statement.cue is Cue.ORDER else _CLAUSE_SHARE
    short = clauses_of(statement)
    forms = [Form(text, worth * share ** (len(short) - at)) for at, text in enumerate(short)]
    return (*forms, Form(statement.text, worth))


def _step_line(call: ToolCallFact, weighting: Weighting, prior: str | None) -> Line:
    """Return a call with what it brought."""
    said = [_ended(text, call, prior) for text in _call_texts(call)]
    is_empty = not (call.arguments or call.path or call.command or call.outcome)
    worth = 0.1 if is_empty else _STEP[call.kind]
    worth += _FAILED if call.failed_before or call.failure is not None else 0.0
    worth = weighting.asked_for(worth, said[-1])
    forms = [Form(text, worth * share) for text, share in zip(said, (0.7, 1.0), strict=True)]
    if forms[0].text == forms[1].text:
        forms.pop(0)
    own = weighting.identifiers(said[-1], call.places[0])
    pieces = [Piece(tuple(forms), own, call.places)]
    if call.outcome and call.failure is None:
        if call.outcome not in said[-1]:
            inside = weighting.identifiers(call.outcome, call.places[-1])
            pieces.append(Piece((Form(call.outcome, _OUTCOME),), inside, call.places))
    else:
        share = 1.0 if call.failure is None else _FAILED_SHARE
        values = _without_content(call, call.values, CallKind.READ, weighting)
        pieces += _value_pieces(values, call.places, weighting, share=share)
    passed = _without_content(call, call.passed, CallKind.EDIT, weighting)
    pieces += _value_pieces(passed, call.places[:1], weighting, share=_PASSED_SHARE)
    return Line(Mark.STEP, tuple(pieces))


def _call_texts(call: ToolCallFact) -> Iterator[str]:
    """Yield a call in two lengths: `read a.py`, `ran pytest`, `get_user(user_id=ada_4711)`."""
    for limit in (_SHORT_CALL, _LONG_CALL):
        if call.command:
            command = one_line(prose(call.command[: 4 * limit]), limit)
            yield "ran " + command.replace("; ", ";")
        elif call.path and call.kind in (CallKind.READ, CallKind.EDIT):
            verb = "read" if call.kind is CallKind.READ else "edited"
            yield f"{verb} {one_line(call.path, 200)}"
        else:
            shown = ", ".join(f"{key}={text}" for key, text in call.arguments if text)
            name = _NAME.sub("_", call.name)[:60] or "tool"
            yield f"{name}({one_line(prose(shown), limit)})"


def _ended(text: str, call: ToolCallFact, prior: str | None) -> str:
    """Return a call with how it ended, where that must be told."""
    worked = "passed" if call.kind is CallKind.RUN else "succeeded"
    if call.failure is not None:
        return f"{text}: failed ({call.failure})"
    if not call.has_result:
        return f"{text}: no result"
    is_shown = 0 < len(call.outcome) <= _SHORT_OUTCOME and call.outcome not in text
    outcome = call.outcome.rstrip(":") if is_shown else ""
    behind = f" ({outcome})" if outcome else ""
    if call.failed_before:
        return f"{text}: failed ({call.failed_before}), later {worked}{behind}"
    if prior and f"{text}: failed" in prior:
        return f"{text}: {worked} now, failed before{behind}"
    return f"{text}: {outcome}" if outcome else text


def _without_content(
    call: ToolCallFact, values: Sequence[ResultValue], kind: CallKind, weighting: Weighting
) -> Sequence[ResultValue]:
    """Return values, of a file's content none with mere names that nobody used since."""
    if call.kind is not kind or call.path is None:
        return values
    return [
        value
        for value in values
        if any(
            one.kind in _COPIED or weighting.is_used(one, call.places[-1])
            for one in value.identifiers
        )
    ]


def _value_pieces(
    values: Sequence[ResultValue], places: tuple[int, ...], weighting: Weighting, *, share: float
) -> Iterator[Piece]:
    """Yield the values of a result; of a long list, those that nobody used count less each."""
    unused = share * min(1.0, _LISTED / max(1, len(values))) ** 0.5
    for value in values:
        worth = {
            one.text: (share if weighting.is_used(one, places[-1]) else unused)
            * weighting.identifier(one, places[-1])
            for one in value.identifiers
        }
        yield Piece((Form(value.text, 0.0),), worth, places, is_bare=value.is_bare)
