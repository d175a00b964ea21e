"""Sections of reasoning: objective, sub-goals, phase, constraints, decisions, assumptions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from langchain_tokenmem.core.facts.sentences import any_of, strip_bullet
from langchain_tokenmem.core.working_notes.constraints import constraints_in
from langchain_tokenmem.core.working_notes.decisions import assumption_in, decision_in
from langchain_tokenmem.core.working_notes.notes_draft import NotesDraft
from langchain_tokenmem.core.working_notes.requests import objective_in
from langchain_tokenmem.core.working_notes.word_rules import as_item, may_choose
from langchain_tokenmem.notes_state import NoteItem

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


def read_user_words(draft: NotesDraft, sentences: Sequence[str], source: int) -> None:
    """Read what only a user says: the goal, when named as such, and constraints."""
    for sentence in sentences:
        if goal := objective_in(sentence):
            set_objective(draft, goal, source)
        for constraint in constraints_in(sentence):
            item = draft.item(constraint.text, source)
            if constraint.label:
                item["key"] = constraint.label
            draft.add("constraints", item, draft.limits.max_constraints)


def set_objective(draft: NotesDraft, text: str, source: int) -> None:
    """Put a goal in the place of the one before."""
    if [text] != [one["text"] for one in draft.items("objective")]:
        draft.set_items("objective", [draft.item(text, source)])


def read_choices(
    draft: NotesDraft, sentences: Sequence[str], source: int, *, by_user: bool
) -> None:
    """Read decisions and assumptions, whoever says them.

    Args:
        draft: The sections.
        sentences: Sentences of the message.
        source: Its number.
        by_user: Whether the user said it.
    """
    told: NoteItem | None = None
    for sentence in sentences:
        may_tell = may_choose(sentence)
        if may_tell and (text := assumption_in(sentence)):
            draft.add("assumptions", draft.item(text, source), draft.limits.max_assumptions)
        if told and (more := _addition(told, sentence, draft.limits.max_alternatives)):
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


def read_plan(draft: NotesDraft, text: str, source: int) -> None:
    """Read sub-goals, the phase and assumptions where they are listed under their names.

    Args:
        draft: The sections.
        text: What was said.
        source: Number of the message.
    """
    lowered = text.lower()
    if not any(sign in lowered for sign in _SIGNS):
        return
    phases = [(match[1] or match[2]).strip(" *_") for match in _PHASE.finditer(text)]
    if phases and phases[-1] not in [one["text"] for one in draft.items("phase")]:
        draft.set_items("phase", [draft.item(as_item(phases[-1]), source)])
    for assumed in _listed_under(_ASSUMPTIONS, text):
        draft.add("assumptions", draft.item(assumed, source), draft.limits.max_assumptions)
    goals = list(dict.fromkeys(_listed_under(_SUBGOALS, text)))[: draft.limits.max_subgoals]
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
