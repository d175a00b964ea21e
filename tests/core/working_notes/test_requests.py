"""Requests of a user: which sentence asks for something, in the languages that the docs name."""

from __future__ import annotations

import pytest

from langchain_tokenmem.core.working_notes.requests import (
    objective_in,
    reported_problem,
    request_in,
)
from langchain_tokenmem.core.working_notes.word_rules import note_sentences


def asked(text: str) -> str | None:
    return request_in(list(note_sentences(text)))


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("Fix the login bug in auth.py. It fails.", "Fix the login bug in auth.py."),
        ("Thanks, that works! Now add tests for the parser.", "Now add tests for the parser."),
        ("Can you refactor the cache module?", "Can you refactor the cache module?"),
        ("I need a script that renames files.", "I need a script that renames files."),
        ("The login page is broken. Please fix it.", "The login page is broken."),
        ("Hallo! Bitte behebe den Fehler im Parser.", "Bitte behebe den Fehler im Parser."),
        ("Füge Tests für den Parser hinzu.", "Füge Tests für den Parser hinzu."),
        ("Kannst du die Datei umbenennen?", "Kannst du die Datei umbenennen?"),
        ("Ajoute des tests pour le parseur.", "Ajoute des tests pour le parseur."),
        ("Peux-tu corriger le module de cache ?", "Peux-tu corriger le module de cache ?"),
        ("Añade pruebas para el analizador.", "Añade pruebas para el analizador."),
        ("¿Puedes corregir el módulo de caché?", "¿Puedes corregir el módulo de caché?"),
    ],
)
def test_the_task_is_the_first_sentence_that_asks_for_something(text: str, task: str) -> None:
    assert asked(text) == task


@pytest.mark.parametrize(
    "text",
    [
        "ok",
        "continue",
        "Please continue.",
        "Yes, please.",
        "Thanks a lot, that looks good!",
        "Great, go ahead.",
        "Keep going with the next step.",
        "Why does the parser fail?",
        "What does this module do?",
        "ja, mach weiter",
        "Danke, sehr gut!",
        "Warum schlägt der Test fehl?",
        "d'accord, continue",
        "Merci beaucoup !",
        "Pourquoi le test échoue-t-il ?",
        "vale, sigue",
        "Muchas gracias, perfecto",
        "¿Por qué falla la prueba?",
    ],
)
def test_assent_thanks_and_questions_ask_for_nothing(text: str) -> None:
    assert asked(text) is None


def test_a_task_has_at_most_160_characters() -> None:
    task = asked("Add a test for " + "the parser and " * 40)
    assert task is not None
    assert len(task) <= 160


def test_a_problem_that_is_reported_stands_in_where_nothing_is_asked() -> None:
    assert reported_problem(["Why?", "The login page crashes."]) == "The login page crashes."
    assert reported_problem(["I live in Lyon.", "Why does it fail?"]) is None


@pytest.mark.parametrize(
    ("sentence", "goal"),
    [
        ("The goal is to design a scalable architecture.", "design a scalable architecture"),
        ("Objective: Design scalable architecture", "Design scalable architecture"),
        ("Unser Ziel ist es, die Kosten zu halbieren.", "die Kosten zu halbieren"),
        ("Notre objectif est de réduire les coûts.", "réduire les coûts"),
        ("Nuestro objetivo es reducir los costes.", "reducir los costes"),
        ("Is the goal to design a service?", None),
        ("That was a great goal in the match.", None),
    ],
)
def test_a_goal_is_read_where_it_is_named_as_such(sentence: str, goal: str | None) -> None:
    assert objective_in(sentence) == goal
