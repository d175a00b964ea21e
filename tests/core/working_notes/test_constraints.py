"""Constraints of a user by rules of words, in the languages that the docs name."""

from __future__ import annotations

import pytest

from langchain_tokenmem.core.working_notes.constraints import Constraint, constraints_in


def texts(sentence: str) -> list[str]:
    return [one.text for one in constraints_in(sentence)]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Our budget is $50k.", ["Budget: $50k"]),
        (
            "Budget: $50k, timeline: 3 months, team of 4 developers.",
            ["Budget: $50k", "Timeline: 3 months", "Team: 4 developers"],
        ),
        ("I have a deadline of March 15, 2024 for the release.", ["Deadline: March 15, 2024"]),
        ("The deadline is Friday.", ["Deadline: Friday"]),
        (
            "The deadline is March 3. Team: 4 developers.",
            ["Deadline: March 3", "Team: 4 developers"],
        ),
        ("My total budget is less than 400 USD.", ["Budget: less than 400 USD"]),
        ("We adjusted the travel budget to 3,500 €.", ["Travel budget: 3,500 €"]),
        ("Unser Budget beträgt 50.000 €.", ["Budget: 50.000 €"]),
        ("Die Frist ist am 3. Mai.", ["Frist: am 3. Mai"]),
        ("Notre budget est de 50 000 €.", ["Budget: 50 000 €"]),
        ("El presupuesto es de 50.000 €.", ["Presupuesto: 50.000 €"]),
        ("El plazo es de 3 meses.", ["Plazo: 3 meses"]),
    ],
)
def test_a_limit_is_read_with_its_label(sentence: str, expected: list[str]) -> None:
    assert texts(sentence) == expected


def test_the_label_tells_which_limit_a_later_one_replaces() -> None:
    [first], [second] = (
        list(constraints_in("The budget is $50k.")),
        list(constraints_in("The budget is now $60k.")),
    )
    assert first == Constraint("Budget: $50k", "budget")
    assert (second.text, second.label) == ("Budget: $60k", "budget")


@pytest.mark.parametrize(
    "sentence",
    [
        "Never push to main.",
        "Please don't touch the database schema.",
        "Only use the standard library.",
        "The API must answer within 200 ms.",
        "Responses should not exceed 500 tokens.",
        "Passwords must never be logged.",
        "We need to keep the bundle under 150 KB.",
        "Verwende nur die Standardbibliothek.",
        "Die API darf höchstens 200 ms brauchen.",
        "Passwörter dürfen nicht geloggt werden.",
        "Du darfst niemals direkt auf main pushen.",
        "Wir dürfen nie auf main pushen.",
        "Vous ne devez jamais utiliser telnet.",
        "No debes usar telnet en producción.",
        "N'utilise jamais de bibliothèque externe.",
        "L'API doit répondre en 200 ms au plus.",
        "No uses bibliotecas externas.",
        "La API debe responder en 200 ms.",
    ],
)
def test_a_rule_of_the_user_is_a_constraint(sentence: str) -> None:
    assert texts(sentence) in (
        [sentence.rstrip(".")],
        [sentence.removeprefix("Please ").rstrip(".")],
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "I must say that was great fun.",
        "That must be hard for the whole family.",
        "Must be awesome to see your work on display!",
        "I never liked the old parser.",
        "Never mind, that was my mistake.",
        "Always nice to see you around here.",
        "Don't worry about the old tests.",
        "Must the API answer within 200 ms?",
        "That is above my budget.",
        "It must be done by then.",
        'Reviews are needed and require approval from designated reviewers must hold."',
        "If you must know, the old one broke.",
        "Ich muss jetzt leider los, bis morgen.",
        "Ich niemals auf so eine Idee gekommen wäre.",
    ],
)
def test_what_tells_of_a_person_or_guesses_is_no_constraint(sentence: str) -> None:
    assert texts(sentence) == []
