"""Literals of recorded answers, found in requests as whole words."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from langchain_tokenmem.cli import measures as literals


def calling(**arguments):
    return AIMessage("", tool_calls=[{"name": "book", "args": arguments, "id": "c"}])


def test_literals_of_an_action_are_copied_values_without_counts_and_dates():
    action = calling(flight="EHGLP3", on="2024-05-20", bags=2, to="Ada Lovelace", cabin="eco")
    assert literals.literals_of_action(action) == ["EHGLP3", "Ada Lovelace"]
    assert literals.find_literals("see a/b.py, fooBar, x_y, v1.2.3 and 12 of 1,250") == [
        *("a/b.py", "fooBar", "x_y", "v1.2.3", "1,250")
    ]


def test_a_literal_is_held_as_whole_words_with_the_escapes_of_json_undone():
    assert literals.holds("in app.py:3", "app.py")
    assert not literals.holds("in myapp.py", "app.py")
    assert not literals.holds("in app.pyc", "app.py")
    assert literals.holds(literals.plain('{\\"id\\": \\"x\\\\nEHGLP3\\"}'), "EHGLP3")


def test_an_answer_without_calls_is_searched_itself():
    assert literals.literals_of_action(AIMessage("I wrote src/app.py.")) == ["src/app.py"]


def test_the_words_of_a_message_are_its_text_and_its_calls():
    assert literals.said(calling(path="a.py", lines=[{"first": 1}])) == (
        "book\npath: a.py\nfirst: 1"
    )
    assert literals.said(ToolMessage("a\\nb", tool_call_id="c")) == "a\nb"


@pytest.mark.parametrize("word", ["2024-05-20", "12", "ab", "word", "20.05.2024"])
def test_what_can_be_guessed_is_no_literal(word):
    assert not literals.is_literal(word)
