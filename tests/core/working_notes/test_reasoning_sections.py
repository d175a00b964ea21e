"""Sections of reasoning: objective, sub-goals, phase, constraints, decisions, assumptions."""

from __future__ import annotations

from dataclasses import replace

from langchain_tokenmem.core.working_notes.mode_profiles import REASONING
from tests.core.working_notes.notes_reading import assistant, bash, items, read, texts, user


def test_the_objective_is_the_first_task_until_a_goal_is_named() -> None:
    messages = [user("Design a scalable architecture."), user("Compare three databases.")]
    state = read(messages)
    assert texts(state, "objective") == ["Design a scalable architecture"]
    state = read([*messages, user("Our goal is to halve the cost of storage.")], state)
    assert texts(state, "objective") == ["halve the cost of storage"]


def test_constraints_come_from_the_user_only() -> None:
    said = "The API must answer within 200 ms."
    assert texts(read([user(said)]), "constraints") == [said.rstrip(".")]
    assert texts(read([assistant(said), *bash("cat rules.md", said)]), "constraints") == []


def test_limits_of_one_word_and_a_number_are_read_beside_others() -> None:
    state = read([user("Our goal is to ship it. Budget: $50k. Timeline: 3 months. Team: 4.")])
    assert texts(state, "constraints") == ["Budget: $50k", "Timeline: 3 months", "Team: 4"]


def test_a_constraint_of_the_same_label_replaces_the_one_before() -> None:
    state = read(
        [user("Our budget is $50k and the timeline is 3 months."), user("The budget is now $60k.")]
    )
    assert texts(state, "constraints") == ["Budget: $60k", "Timeline: 3 months"]
    assert [one["turn"] for one in items(state, "constraints")] == [2, 1]


def test_decisions_have_numbers_with_rationale_and_rejected_alternatives() -> None:
    state = read(
        [
            user("We decided to use event-driven instead of direct calls or polling."),
            assistant("We settled on Kafka because it keeps the order."),
        ]
    )
    first, second = items(state, "decisions")
    assert (first["number"], first["text"]) == (1, "Use event-driven")
    assert first["rejected"] == ["direct calls", "polling"]
    assert (second["number"], second["text"]) == (2, "Kafka")
    assert second["rationale"] == "it keeps the order"


def test_decision_21_keeps_its_number_when_decision_1_goes() -> None:
    messages = [user(f"We decided to use tool{n} for step {n}.") for n in range(1, 22)]
    state = read(messages)
    assert [one["number"] for one in items(state, "decisions")] == list(range(2, 22))
    state = read([*messages, user("We decided to use Go for the server.")], state)
    assert [one["number"] for one in items(state, "decisions")] == list(range(3, 23))


def test_a_decision_that_is_said_again_keeps_its_number() -> None:
    state = read(
        [user("We decided to use Go for all."), assistant("We decided to use Go for all.")]
    )
    assert [one["number"] for one in items(state, "decisions")] == [1]
    assert state["next_number"] == 2


def test_lines_behind_a_decision_give_its_reason_and_what_was_rejected() -> None:
    state = read(
        [
            assistant(
                "Decision: use event sourcing\nRationale: better audit\nRejected: CRUD; polling"
            )
        ]
    )
    [decision] = items(state, "decisions")
    assert decision["text"] == "Use event sourcing"
    assert decision["rationale"] == "better audit"
    assert decision["rejected"] == ["CRUD", "polling"]
    assert decision["number"] == 1


def test_a_decision_keeps_at_most_so_many_alternatives() -> None:
    limits = replace(REASONING, max_alternatives=2)
    said = "We decided to use Go instead of Java, Rust, Ada, or Perl."
    [decision] = items(read([user(said)], limits=limits), "decisions")
    assert decision["rejected"] == ["Java", "Rust"]


def test_a_tool_result_that_says_we_decided_makes_no_decision() -> None:
    state = read(bash("cat notes.md", "We decided to use Java instead of Go."))
    assert texts(state, "decisions") == []
    assert state["next_number"] == 1


def test_assumptions_come_from_user_and_assistant() -> None:
    state = read(
        [user("Assuming the API is stable, plan it."), assistant("I assume that traffic is low.")]
    )
    assert texts(state, "assumptions") == ["the API is stable", "traffic is low"]


def test_sub_goals_and_phase_are_read_under_their_names_only() -> None:
    state = read(
        [
            assistant(
                "Phase: evaluation\n\nSub-goals:\n- Evaluate patterns\n- Plan migration\n\nDone."
            )
        ]
    )
    assert texts(state, "subgoals") == ["Evaluate patterns", "Plan migration"]
    assert texts(state, "phase") == ["evaluation"]
    same = read([assistant("Some goals:\n- Evaluate patterns"), user("The phase of the moon.")])
    assert texts(same, "subgoals") == texts(same, "phase") == []


def test_a_phase_is_read_where_it_is_entered() -> None:
    state = read(
        [user("Let's move on to the testing phase."), user("Teilziele: A messen; B planen")]
    )
    assert texts(state, "phase") == ["testing"]
    assert texts(state, "subgoals") == ["A messen", "B planen"]
