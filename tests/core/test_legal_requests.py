"""Legal requests: tool calls with their results, roles, ids and system text as providers ask."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.messages import groups
from langchain_tokenmem.core.repair import INTERRUPTED
from langchain_tokenmem.types import RequestRules
from tests.core.test_token_budget import call, memory_of, result, tool_loop
from tests.fakes import CharCounter
from tests.legality import problems
from tests.strategies import conversations


def ids(messages):
    return [m.id for m in messages]


def test_an_orphaned_result_beside_a_matched_one_is_left_out_and_summarized():
    memory = memory_of(1_000)
    orphan = ToolMessage("lost reading 4711", tool_call_id="gone", id="o")
    messages = [HumanMessage("go", id="h"), call(1), result(1, "fine"), orphan]
    view = memory.view(messages)
    assert ids(view.messages) == ["h", "a1", "t1"]
    assert view.warnings == ("Tool result o has no call; left out of the view.",)
    more = [*messages, *[HumanMessage(f"talk {n} " * 30, id=f"m{n}") for n in range(24)]]
    state = memory.compact(more)
    assert "lost reading 4711" in str([r.messages for r in memory.summarizer.requests])
    assert state["summary"]


def test_parallel_tool_calls_are_kept_or_summarized_together():
    memory = memory_of(1_500)
    messages = [HumanMessage("go", id="h")]
    for n in range(20):
        keys = [f"c{n}-{k}" for k in range(4)]
        messages.append(
            AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": k} for k in keys], id=f"a{n}")
        )
        messages += [ToolMessage("data " * 20, tool_call_id=k, id=f"t{k}") for k in keys]
    state = memory.compact(messages)
    shown = ids(memory.view(messages, state).messages)
    parts = [len({f"a{n}", *[f"tc{n}-{k}" for k in range(4)]} & set(shown)) for n in range(20)]
    assert set(parts) == {0, 5}
    assert parts == sorted(parts)


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


@pytest.mark.parametrize("dangling", ["answer", "drop"])
def test_a_dangling_tool_call_is_repaired_by_policy_with_one_warning(dangling):
    memory = TokenMemory(
        TokenBudget(4_000), counter=CharCounter(), request=RequestRules(dangling=dangling)
    )
    messages = [HumanMessage("go", id="h"), call(1), HumanMessage("hello?", id="h2")]
    view = memory.view(messages)
    assert problems(view.messages) == []
    answered = [m.content for m in view.messages if m.type == "tool"]
    assert answered == ([INTERRUPTED] if dangling == "answer" else [])
    assert len(view.warnings) == 1


def test_kept_assistant_messages_are_the_same_objects_with_their_reasoning():
    memory = memory_of(4_000)
    thinking = AIMessage(
        [
            {"type": "thinking", "thinking": "let me see", "signature": "SIG=="},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "read", "input": {"n": 1}},
        ],
        tool_calls=[{"name": "read", "args": {"n": 1}, "id": "c1"}],
        id="a1",
    )
    before = thinking.model_copy(deep=True)
    messages = [HumanMessage("go", id="h"), thinking, result(1, "ok")]
    view = memory.view(messages, memory.compact(messages))
    assert view.messages[1] is thinking
    assert thinking == before


def test_provider_extras_of_a_tool_call_survive_the_view():
    memory = memory_of(4_000)
    extra = call(
        1, additional_kwargs={"__gemini_function_call_thought_signatures__": {"c1": "T=="}}
    )
    view = memory.view([HumanMessage("go", id="h"), extra, result(1, "ok")])
    assert view.messages[1].additional_kwargs == extra.additional_kwargs


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


def test_a_late_result_never_welds_the_conversation_into_one_group():
    messages = [
        call(1),
        HumanMessage("?", id="h"),
        AIMessage("well", id="x"),
        *[HumanMessage(str(n), id=f"h{n}") for n in range(5)],
        result(1, "late"),
    ]
    assert [len(g.messages) for g in groups(messages)] == [1] * 9
