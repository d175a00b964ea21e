"""Facts about the user by rules of words, in the languages that the docs name."""

from __future__ import annotations

import pytest

from langchain_tokenmem.core.working_notes.talk_sections import fact_key, facts_in


@pytest.mark.parametrize(
    ("sentence", "fact"),
    [
        ("Hi, my name is Ada.", "my name is Ada"),
        (
            "I'm a software engineer from Lyon, can you help me?",
            "I'm a software engineer from Lyon",
        ),
        ("I live in Berlin and I work as a nurse.", "I live in Berlin"),
        ("I'm allergic to peanuts.", "I'm allergic to peanuts"),
        ("I have two dogs named Rex and Max.", "I have two dogs named Rex and Max"),
        ("My sister is a doctor in Rome.", "My sister is a doctor in Rome"),
        ("I prefer tabs over spaces.", "I prefer tabs over spaces"),
        ("I'm using Flask 2.3.1 and SQLite.", "I'm using Flask 2.3.1 and SQLite"),
        ("Ich wohne in Hamburg.", "Ich wohne in Hamburg"),
        ("Ich bin Lehrerin an einer Grundschule.", "Ich bin Lehrerin an einer Grundschule"),
        ("Mein Name ist Greta.", "Mein Name ist Greta"),
        ("Ich habe zwei Kinder im Alter von 3 und 5.", "Ich habe zwei Kinder im Alter von 3 und 5"),
        ("Je m'appelle Luc.", "Je m'appelle Luc"),
        ("J'habite à Paris depuis 2010.", "J'habite à Paris depuis 2010"),
        ("Je travaille comme infirmier.", "Je travaille comme infirmier"),
        ("Me llamo Lucía.", "Me llamo Lucía"),
        ("Vivo en Madrid.", "Vivo en Madrid"),
        ("Soy alérgica a las nueces.", "Soy alérgica a las nueces"),
        ("Tengo dos hijos pequeños.", "Tengo dos hijos pequeños"),
    ],
)
def test_what_users_say_of_themselves_is_a_fact(sentence: str, fact: str) -> None:
    assert fact in facts_in(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "I'm a bit tired.",
        "I have a question about the parser.",
        "I'm trying to fix the login page.",
        "I love it!",
        "I like your idea a lot.",
        "Do I live in Berlin?",
        "My favorite one is this one.",
        "I am going to the store.",
        "I'm the only one there.",
        "My problem is the parser.",
        "Ich habe eine Frage zum Parser.",
        "J'ai une question.",
        "Tengo una pregunta.",
    ],
)
def test_moods_plans_and_pointers_are_no_facts(sentence: str) -> None:
    assert facts_in(sentence) == []


def test_a_fact_of_the_same_kind_has_the_same_key() -> None:
    assert fact_key("My name is Ada") == fact_key("my name is Eve") == "name"
    assert fact_key("I live in Berlin") == ""
