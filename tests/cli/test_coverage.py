"""Literals of the recorded answer that a request holds, on messages with known ones."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem.cli.measures import (
    MessageTexts,
    ReferenceCounter,
    are_whole,
    far_literals,
    held_literals,
    needed_literals,
)

TEXTS = MessageTexts(ReferenceCounter(lambda text: len(text.split())))
HISTORY = [
    SystemMessage("Use tool_x."),
    HumanMessage("Fix src/app.py."),
    AIMessage("", tool_calls=[{"name": "run", "args": {}, "id": "c1"}]),
    ToolMessage("user_id: ada_4711", tool_call_id="c1"),
]
ACTION = AIMessage("tool_x writes src/app.py for ada_4711, not for bob_12345.")


def test_needed_are_literals_of_the_history_that_the_system_text_does_not_hold():
    assert needed_literals(TEXTS, HISTORY, ACTION) == ["src/app.py", "ada_4711"]


def test_held_are_those_of_the_messages_that_are_sent():
    needed = ["src/app.py", "ada_4711"]
    assert held_literals(TEXTS, HISTORY, needed) == needed
    assert held_literals(TEXTS, HISTORY[:2], needed) == ["src/app.py"]
    assert held_literals(TEXTS, [], needed) == []


def test_far_are_those_outside_of_the_newest_part_of_the_window():
    needed = ["src/app.py", "ada_4711"]
    assert far_literals(TEXTS, HISTORY, needed, 20) == ["src/app.py"]
    assert far_literals(TEXTS, HISTORY, needed, 1_000) == []


def test_fresh_results_are_whole_only_if_all_of_them_are():
    one, two = (ToolMessage(f"found {key}", tool_call_id=key) for key in "ab")
    cut = ToolMessage("found [...]", tool_call_id="b")
    assert are_whole([one, two], [one, two])
    assert not are_whole([one, two], [one, cut])
    assert not are_whole([one], [AIMessage("found a")])
