"""Operations of a model on working notes: what they change, and what they never do."""

from __future__ import annotations

import copy

import pytest

from langchain_tokenmem.core.working_notes.mode_profiles import CODE, REASONING, ModeProfile
from langchain_tokenmem.core.working_notes.operations import (
    with_entry_operations,
    with_operations,
)
from langchain_tokenmem.notes_state import ModesState, NoteOperation
from tests.core.working_notes.notes_reading import assistant, bash, read, texts, user

SAID = (
    user("Fix the port in src/api.py. We must never use telnet."),
    *bash("pytest -q", "ValueError: port 80", 1),
    assistant("We decided to use 8443 instead of 80 because it needs no rights."),
)


def operation(op: str, section: str, source: int = 9, **fields: object) -> NoteOperation:
    return {"op": op, "section": section, "source": source, **fields}  # type: ignore[typeddict-item]


def applied(
    *operations: NoteOperation, state: ModesState | None = None, limits: ModeProfile = REASONING
) -> ModesState:
    return with_operations(state or read(SAID), operations, limits)


def test_an_added_item_is_by_the_model_with_its_source_and_a_new_turn():
    before = read(SAID)
    kept = copy.deepcopy(before)
    state = applied(operation("add", "assumptions", 4, text="The proxy ends TLS"), state=before)
    assert state["sections"]["assumptions"] == [
        {"text": "The proxy ends TLS", "turn": 1, "source": 4, "by": "model"}
    ]
    assert state["changed"]["assumptions"] == 1
    assert before == kept
    assert state["read_to"] == before["read_to"]


def test_a_decision_of_the_model_has_the_next_number_and_the_reason_that_came_with_it():
    new = operation("add", "decisions", text="use TLS", rationale="it is asked", rejected=["none"])
    decision = applied(new)["sections"]["decisions"][-1]
    assert decision["number"] == 2
    assert (decision["rationale"], decision["rejected"]) == ("it is asked", ["none"])


def test_a_replaced_decision_keeps_its_number_and_not_the_reason_of_another_source():
    state = applied(operation("replace", "decisions", before="use 8443", text="use 9443"))
    (decision,) = state["sections"]["decisions"]
    assert (decision["number"], decision["text"], decision["by"]) == (1, "use 9443", "model")
    assert "rationale" not in decision
    assert state["next_number"] == 2


def test_a_resolved_decision_goes_and_its_number_is_never_used_again():
    state = applied(
        operation("resolve", "decisions", before="use 8443"),
        operation("add", "decisions", text="use a proxy"),
    )
    assert [one["number"] for one in state["sections"]["decisions"]] == [2]


def test_an_error_that_the_model_resolves_goes_and_a_later_success_changes_nothing():
    (error,) = texts(read(SAID), "errors")
    state = applied(operation("resolve", "errors", before=error))
    assert texts(state, "errors") == []
    assert texts(read([*SAID, *bash("pytest -q")], state), "progress") == []


def test_an_error_that_the_model_replaces_is_resolved_by_the_same_call():
    (error,) = texts(read(SAID), "errors")
    state = applied(operation("replace", "errors", before=error, text="The port is too low"))
    assert texts(state, "errors") == ["The port is too low"]
    assert texts(read([*SAID, *bash("pytest -q")], state), "errors") == []


def test_a_constraint_that_the_model_replaces_keeps_its_label():
    said = [user("The budget is $50k.")]
    (before,) = texts(read(said), "constraints")
    changed = operation("replace", "constraints", before=before, text="Budget: $50k a year")
    state = applied(changed, state=read(said))
    again = read([*said, user("The budget is $60k.")], state)
    assert len(texts(again, "constraints")) == 1
    assert "$60k" in texts(again, "constraints")[0]


@pytest.mark.parametrize("section", ["task", "objective"])
def test_of_a_section_with_one_item_a_new_one_takes_the_place(section: str):
    state = applied(operation("add", section, text="Move the port"))
    assert texts(state, section) == ["Move the port"]


def test_what_a_newer_message_has_said_stays():
    said = [*SAID, user("Write the docs now.")]
    before = read(said)
    state = applied(
        operation("add", "task", 4, text="Move the port"),
        operation("replace", "task", 4, before="Write the docs now", text="Move the port"),
        operation("resolve", "task", 4, before="Write the docs now"),
        state=before,
    )
    assert state["sections"] == before["sections"]


def test_what_the_application_wrote_stays():
    before = read(SAID)
    before["sections"]["constraints"][0]["by"] = "application"
    text = before["sections"]["constraints"][0]["text"]
    state = applied(operation("resolve", "constraints", before=text), state=before)
    assert texts(state, "constraints") == [text]


def test_an_item_that_is_gone_is_neither_replaced_nor_resolved():
    state = applied(
        operation("replace", "decisions", before="use 22", text="use 23"),
        operation("resolve", "decisions", before="use 22"),
    )
    assert texts(state, "decisions") == ["use 8443"]


def test_what_is_noted_already_is_not_said_twice_and_stays_by_whom_it_was():
    state = applied(operation("add", "decisions", text="Use 8443"))
    assert [one["by"] for one in state["sections"]["decisions"]] == ["rule"]


@pytest.mark.parametrize("section", ["files", "commands", "topics", "entities", "nonsense"])
def test_what_is_read_from_calls_and_counted_is_no_models_to_write(section: str):
    before = read(SAID)
    assert applied(operation("add", section, text="x.py"), state=before) == before


def test_the_limits_of_the_mode_hold():
    most = ModeProfile(
        "own", window=5, sections=("decisions",), max_decisions=3, max_alternatives=1
    )
    many = [operation("add", "decisions", text=f"way {n}", rejected=["a", "b"]) for n in range(6)]
    state = applied(*many, limits=most)
    assert [one["number"] for one in state["sections"]["decisions"]] == [5, 6, 7]
    assert state["sections"]["decisions"][0]["rejected"] == ["a"]


def _log(*entries: dict) -> dict:
    return {"entries": list(entries), "covers_to": "x", "covered": 1}


def test_the_operations_of_an_entry_are_applied_once():
    first = {"id": "e1", "operations": [operation("add", "assumptions", text="one")]}
    second = {"id": "e2", "operations": [operation("add", "assumptions", text="two")]}
    state = with_entry_operations(read(SAID), _log(first), REASONING)
    assert with_entry_operations(state, _log(first), REASONING) is state
    gone = with_operations(state, [operation("resolve", "assumptions", before="one")], REASONING)
    state = with_entry_operations(gone, _log(first, second), REASONING)
    assert texts(state, "assumptions") == ["two"]
    condensed = {"id": "c", "condensed": ["e1", "e2"]}
    assert with_entry_operations(state, _log(condensed), REASONING) is state


def test_without_operations_nothing_is_written():
    state = read(SAID)
    assert with_entry_operations(state, None, CODE) is state
    assert with_entry_operations(state, _log({"id": "e1"}), CODE) is state
