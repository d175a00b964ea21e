"""Names of speakers leave a question before it is embedded."""

from __future__ import annotations

import pytest

from langchain_tokenmem.recall.results import without_names


@pytest.mark.parametrize(
    ("question", "names", "left"),
    [
        ("What did Anna say?", ["Anna"], "What did say?"),
        ("Did anna meet BOB?", ["Anna", "Bob"], "Did meet ?"),
        ("Annabel sings", ["Anna"], "Annabel sings"),
        ("Anna Lee and Anna", ["Anna", "Anna Lee"], "and"),
        ("Anna", ["Anna"], "Anna"),
        ("Who is 李雷?", ["李雷"], "Who is ?"),
        ("C++ or C?", ["C++"], "or C?"),
        ("nothing", [], "nothing"),
        ("nothing", ["", " "], "nothing"),
    ],
)
def test_names_leave_the_question(question, names, left):
    assert without_names(question, names) == left
