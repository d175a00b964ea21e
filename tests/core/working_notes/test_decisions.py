"""Decisions and assumptions by rules of words, in the languages that the docs name."""

from __future__ import annotations

import pytest

from langchain_tokenmem.core.working_notes.decisions import Decision, assumption_in, decision_in


@pytest.mark.parametrize(
    ("sentence", "decision"),
    [
        (
            "We decided to use event-driven instead of direct API calls due to better decoupling.",
            Decision("Use event-driven", "better decoupling", ("direct API calls",)),
        ),
        (
            "Instead of Java, we decided to use Go.",
            Decision("use Go", "", ("Java",)),
        ),
        (
            "I've chosen SQLite over Postgres or MySQL since it needs no server.",
            Decision("SQLite", "it needs no server", ("Postgres", "MySQL")),
        ),
        ("We settled on two-week sprints.", Decision("two-week sprints")),
        ("We settled on Redis.", Decision("Redis")),
        ("Decision: Postgres", Decision("Postgres")),
        ("Decision #2: use TLS", Decision("use TLS")),
        (
            "Wir haben entschieden, PostgreSQL statt MySQL zu verwenden, weil es JSON kann.",
            Decision("PostgreSQL", "es JSON kann", ("MySQL",)),
        ),
        (
            "Wir haben uns für Kafka statt RabbitMQ entschieden.",
            Decision("Kafka", "", ("RabbitMQ",)),
        ),
        ("I've decided against microservices for now.", Decision("Against microservices for now")),
        (
            "We went with Redis rather than Memcached.",
            Decision("Redis", "", ("Memcached",)),
        ),
        (
            "Wir haben uns für PostgreSQL statt MySQL entschieden, weil es JSON kann.",
            Decision("PostgreSQL", "es JSON kann", ("MySQL",)),
        ),
        (
            "Wir haben beschlossen, die API zu versionieren.",
            Decision("die API zu versionieren"),
        ),
        (
            "Nous avons choisi PostgreSQL plutôt que MySQL parce que le JSON est mieux géré.",
            Decision("PostgreSQL", "le JSON est mieux géré", ("MySQL",)),
        ),
        (
            "Hemos decidido usar PostgreSQL en lugar de MySQL porque maneja mejor JSON.",
            Decision("usar PostgreSQL", "maneja mejor JSON", ("MySQL",)),
        ),
    ],
)
def test_a_decision_is_read_with_its_reason_and_what_was_rejected(
    sentence: str, decision: Decision
) -> None:
    assert decision_in(sentence, by_user=True) == decision
    assert decision_in(sentence, by_user=False) == decision


@pytest.mark.parametrize(
    "sentence",
    [
        "Should we decide to use Go?",
        "If we decided to use Go, we would need new servers.",
        "We haven't decided on a database yet.",
        "When we decided to move, the kids were small.",
        "Last year we decided to visit Rome together.",
        "I'm glad you decided to use Go here.",
        "Your decision to use Go over Java seems sound.",
        "I decided to do it.",
        "I decided not to, thanks.",
        "I went with some friends.",
        "I picked up some milk on the way.",
        "We agreed to meet at noon.",
        "I'll go with option 2.",
        "Here is what we decided to do first:",
    ],
)
def test_what_is_open_told_of_or_points_elsewhere_is_no_decision(sentence: str) -> None:
    assert decision_in(sentence, by_user=True) is None


def test_the_capital_in_front_makes_no_other_name() -> None:
    told = decision_in("I'd like to go with flight HAT052 on Monday.", by_user=True)
    assert told is not None
    assert told.text == "flight HAT052 on Monday"


def test_lets_use_is_a_decision_of_the_user_only() -> None:
    assert decision_in("Let's use pytest for the tests.", by_user=True) == Decision(
        "Use pytest for the tests"
    )
    assert decision_in("Let's use grep for the search.", by_user=False) is None


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("Assuming the API is stable, we can ship in May.", "the API is stable"),
        ("Let's assume that all users have accounts.", "all users have accounts"),
        ("I assume the tests run on Linux.", "the tests run on Linux"),
        ("Assumption: traffic doubles every year.", "traffic doubles every year"),
        ("Angenommen, dass der Server 8 GB hat, reicht das.", "der Server 8 GB hat"),
        ("Wir gehen davon aus, dass alle Kunden EU-Bürger sind.", "alle Kunden EU-Bürger sind"),
        ("Supposons que le serveur ait 8 Go.", "le serveur ait 8 Go"),
        (
            "En supposant que les données soient propres, c'est rapide.",
            "les données soient propres",
        ),
        ("Supongamos que el servidor tiene 8 GB.", "el servidor tiene 8 GB"),
        ("Asumimos que los datos están limpios.", "los datos están limpios"),
    ],
)
def test_an_assumption_is_read(sentence: str, text: str) -> None:
    assert assumption_in(sentence) == text


@pytest.mark.parametrize(
    "sentence",
    [
        "Don't assume that the file exists.",
        "Can we assume that all is well here?",
        "If we assume the triangle is right, the sides follow.",
        "She will assume the role of a manager.",
        "I assume so.",
        "Let's assume the load is \\( L_1 \\).",
        "Let's assume you have a file with the following lines:",
        "You assume that all of the users have accounts.",
    ],
)
def test_what_is_not_taken_for_granted_is_no_assumption(sentence: str) -> None:
    assert assumption_in(sentence) is None
