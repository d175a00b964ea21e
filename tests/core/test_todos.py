"""To-do lists: which calls write them, and what becomes of them in the running summary."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tokenmem.core.todos import todo_lists, todos_in, todos_text
from tests.fakes import memory_of, talk

MILK = {"content": "Buy milk", "status": "pending"}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([MILK], [("Buy milk", "pending")]),
        ([{"step": "Buy\nmilk", "status": "In_Progress"}], [("Buy milk", "in_progress")]),
        ([], []),
        ([MILK, {"content": "no status"}], None),
        ([MILK, "text"], None),
        ([{"status": "pending"}], None),
        ("Buy milk", None),
        (None, None),
    ],
)
def test_the_shape_of_a_value_decides(value, found):
    assert todos_in(value) == found


def wrote(args, status="success", key="c1"):
    call = {"name": "plan", "args": args, "id": key}
    result = ToolMessage("x", tool_call_id=key, status=status, id=f"r-{key}")
    return [AIMessage("", tool_calls=[call], id=f"a-{key}"), result]


def test_calls_that_failed_write_nothing_and_an_empty_list_clears():
    assert [*todo_lists(wrote({"todos": [MILK]}))] == [todos_text([("Buy milk", "pending")])]
    assert not [*todo_lists(wrote({"todos": [MILK]}, "error"))]
    assert [*todo_lists(wrote({"todos": []}))] == [""]
    assert not [*todo_lists(wrote({"rows": []}))]
    again = [*wrote({"todos": []}, "error"), *wrote({"todos": [MILK]})]
    assert [*todo_lists(again)] == [todos_text([("Buy milk", "pending")])], "an id is used again"


@pytest.mark.slow
def test_an_entry_that_is_condensed_or_edited_has_the_list_of_its_messages():
    said = [HumanMessage("Go.", id="h"), *wrote({"todos": [MILK]}), *talk(40, words=6)]
    memory, state = memory_of(1_000), None
    for end in range(4, len(said), 2):
        state = memory.compact(said[:end], state)
        assert "Buy milk" in str(memory.view(said[:end], state).messages)
    assert any("condensed" in entry for entry in state["summary"]["entries"])
    bread = wrote({"todos": [{**MILK, "content": "Buy bread"}]})
    edited = [said[0], *bread, *said[3:]]
    shown = str(memory.view(edited, state).messages)
    assert "Buy bread" in shown
    assert "Buy milk" not in shown


def test_a_list_that_has_no_room_is_left_out_and_said():
    todos = [{"content": f"{n} " * 60, "status": "pending"} for n in range(30)]
    said = [HumanMessage("Go.", id="h"), *wrote({"todos": todos}), *talk(6, words=6)]
    view = memory_of(900).view(said)
    assert view.usage.input_tokens <= view.usage.max_tokens
    assert "The to-do list did not fit beside the newest messages." in view.warnings
