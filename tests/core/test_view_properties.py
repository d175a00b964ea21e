"""The promises with "never", over conversations as broken as they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tokenmem.errors import BudgetExceededError
from tests.fakes import entries_of, memory_of
from tests.providers import problems
from tests.strategies import conversations

WINDOWS = st.sampled_from([600, 1_000, 4_000, 50_000])


@given(conversations(), WINDOWS)
def test_view_and_compact_are_pure(messages, window):
    memory = memory_of(window)
    first, second = memory.compact(messages), memory.compact(messages)
    for state in (first, second):
        for entry in entries_of(state):
            entry |= {"created_at": "now", "id": "by the time"}
        state.get("change", {})["at"] = "now"
    assert first == second
    assert memory.view(messages, first) == memory.view(messages, second)


def test_fixed_parts_over_the_limit_are_named_with_their_tokens():
    memory = memory_of(1_000)
    with pytest.raises(BudgetExceededError, match=r"system 2,\d+.*limit is 880") as caught:
        memory.view([HumanMessage("hi")], system="rule " * 2_000)
    assert caught.value.limit == 880


@pytest.mark.slow
def test_room_is_kept_for_the_opening_where_the_assistant_speaks_first():
    memory = memory_of(600)
    messages = [
        AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c"}], id="a"),
        HumanMessage("word " * 250, id="h"),
        HumanMessage("x" * 800, id="h2"),
    ]
    for size in range(200):
        view = memory.view([*messages, HumanMessage("y" * size, id="h3")])
        assert view.usage.input_tokens <= memory.budget.limit
        assert problems(view.messages) == []


def test_a_kept_message_whose_signed_thinking_a_cut_hides_has_one_form():
    memory = memory_of(600)
    thought = {"type": "thinking", "thinking": "Hm. " * 300, "signature": "s" * 80}
    calls = [{"name": "read", "args": {"path": ""}, "id": key} for key in ("c1", "c2")]
    messages = [
        HumanMessage("Fix it. " * 100, id="h0"),
        AIMessage([thought], tool_calls=calls, id="a0"),
        HumanMessage("And now?", id="h1"),
        ToolMessage("ok", tool_call_id="c1", id="t1"),
        AIMessage("Done.", id="a1"),
    ]
    state, view = memory.compact_and_view(messages)
    assert "a0" in state["kept"]
    assert "a0" in state["cuts"]
    assert memory.view(messages, state).messages == view.messages
