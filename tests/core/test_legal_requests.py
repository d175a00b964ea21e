"""Legal requests: tool calls with their results, roles, ids and system text as providers ask."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from tests.core.test_token_budget import memory_of, tool_loop
from tests.strategies import conversations


def ids(messages):
    return [m.id for m in messages]


# Characters, and two messages of 128 must fit: below 500 some histories are refused.
@given(conversations(), st.integers(500, 4_000), st.booleans())
def test_no_view_repeats_an_id_however_broken_the_history(messages, window, compact):
    memory = memory_of(window)
    view = memory.view(messages, memory.compact(messages) if compact else None).messages
    assert len(set(ids(view))) == len(view)
    called = [c["id"] for m in view if isinstance(m, AIMessage) for c in m.tool_calls]
    answered = [m.tool_call_id for m in view if isinstance(m, ToolMessage)]
    assert len(set(called)) == len(called)
    assert sorted(called) == sorted(answered)


@pytest.mark.parametrize("role", ["human", "system"])
def test_system_texts_are_merged_once_in_front_with_the_summary_behind_them(role):
    memory = memory_of(4_000, summary_role=role)
    rules = SystemMessage("Rules.", id="s1")
    messages = [
        rules,
        HumanMessage("a", id="h"),
        SystemMessage("Rules.", id="s2"),
        SystemMessage("Be brief.", id="s3"),
        *tool_loop(30)[1:],
        HumanMessage("b", id="h9"),
    ]
    state = memory.compact(messages)
    view = memory.view(messages, state)
    assert [m.type for m in view.messages].count("system") == 1
    system, first = view.messages[0].text, view.messages[1]
    own = "Rules.\n\nBe brief."
    assert "<conversation_summary " in (system if role == "system" else first.text)
    assert system == own if role == "human" else system.startswith(f"{own}\n\n[Notes on earlier")
    assert system.count("Rules.") == 1
    assert first.text.startswith("a")
