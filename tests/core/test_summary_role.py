"""Place of the running summary: in the system message, or in the first human one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.errors import ConfigurationError
from tests.fakes import CharCounter, ListSummarizer
from tests.legality import problems
from tests.strategies import conversations

FENCE = "<conversation_summary>"


def memory_of(role="human", window=1_500, **options):
    return TokenMemory(
        TokenBudget(context_window=window),
        counter=CharCounter(),
        summarizer=ListSummarizer(),
        summary_role=role,
        **options,
    )


def talk(turns, start=0):
    return [
        message
        for n in range(start, start + turns)
        for message in (
            HumanMessage(f"question {n} " * 10, id=f"h{n}"),
            AIMessage(f"answer {n} " * 10, id=f"a{n}"),
        )
    ]


def test_the_summary_stands_fenced_in_the_first_human_message_and_nowhere_else():
    memory, messages = memory_of(), talk(30)
    view = memory.view(messages, memory.compact(messages), system="Be brief.").messages
    assert [m.type for m in view[:2]] == ["system", "human"]
    assert view[0].content == "Be brief."
    assert view[1].id == "h0"
    assert view[1].content.startswith(FENCE)
    assert view[1].content.endswith(messages[0].content)
    assert "history, not instructions" in view[1].content
    assert str(view).count(FENCE) == 1


def test_without_a_prompt_there_is_no_system_message_at_all():
    memory, messages = memory_of(), talk(30)
    view = memory.view(messages, memory.compact(messages)).messages
    assert {m.type for m in view} == {"human", "ai"}


def test_the_marker_of_what_does_not_fit_stands_in_the_first_human_message():
    view = memory_of().view(talk(30))
    assert view.left_out
    assert "earlier messages are left out here" in view.messages[0].content
    assert {m.type for m in view.messages} == {"human", "ai"}


def test_the_first_human_message_changes_only_when_the_summary_does():
    memory, messages, state = memory_of(), [], None
    fronts, summaries = [], []
    for n in range(60):
        messages = [*messages, *talk(1, n)]
        state = memory.compact(messages, state)
        fronts.append(memory.view(messages, state).messages[0].content)
        summaries.append(state["summary"] and state["summary"]["text"])
    for n in range(1, 60):
        assert (fronts[n] == fronts[n - 1]) == (summaries[n] == summaries[n - 1])
    assert len(set(fronts)) > 2


@given(
    conversations(),
    st.integers(300, 4_000),
    st.sampled_from(sorted(PROFILES)),
    st.booleans(),
    st.booleans(),
)
def test_a_summary_in_the_human_message_never_makes_a_request_illegal_or_too_long(
    messages, window, legality, pin_first, force
):
    memory = memory_of(window=window, legality=legality, pin_first=pin_first)
    view = memory.view(messages, memory.compact(messages, force=force))
    if any(m.type != "system" for m in view.messages):
        assert problems(view.messages) == []
    assert memory.count(view.messages).tokens <= view.usage.max_tokens
    assert memory.count(view.messages).tokens <= view.usage.input_tokens


@pytest.mark.parametrize("role", ["system", "human"])
def test_both_places_hold_the_same_conversation_and_about_the_same_tokens(role):
    messages = talk(30)
    one, two = memory_of("system"), memory_of(role)
    state = one.compact(messages)
    here, there = one.view(messages, state), two.view(messages, state)
    assert [m.id for m in here.messages[1:]] == [m.id for m in there.messages if m.type != "system"]
    assert abs(here.usage.input_tokens - there.usage.input_tokens) < 10
    assert there.usage.parts["summary"] > 0


@pytest.mark.parametrize(
    ("messages", "expected"),
    [(talk(30), "human"), ([SystemMessage("Rules.", id="s"), *talk(30)], "system")],
)
def test_where_the_prompt_is_not_known_the_summary_adds_no_system_message(messages, expected):
    memory = memory_of("auto")
    state = memory.compact(messages)
    view = memory.view(messages, state, summary_role="auto").messages
    assert FENCE in view[0].content
    assert view[0].type == expected
    assert memory.view(messages, state).messages[0].type == "system"


def test_an_unknown_place_is_refused():
    with pytest.raises(ConfigurationError, match="auto"):
        memory_of("tool")
