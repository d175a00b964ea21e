"""An explanation adds up, is what is sent, fits a terminal, and says why."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, HumanMessage, message_to_dict

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.explained_request import _divided, change_between
from langchain_tokenmem.core.explanation import Explanation, Part
from langchain_tokenmem.state import new_state
from langchain_tokenmem.types import MemoryState
from tests.golden.recordings import recorded_agent

RECORDING = recorded_agent()
AROUND = {"system": RECORDING.system, "tools": RECORDING.tools}


def played(window: int) -> list[tuple[Explanation, list[BaseMessage]]]:
    """Return for each call its explanation, and what is sent."""
    memory = TokenMemory(TokenBudget(context_window=window))
    state: MemoryState | None = None
    found = []
    for place in RECORDING.calls:
        state, view = memory.compact_and_view(RECORDING.messages[:place], state, **AROUND)
        found.append((view.explain(), view.messages))
    return found


def assert_adds_up(part: Part) -> None:
    if part.children:
        assert part.tokens == sum(child.tokens for child in part.children), part.name
    assert part.tokens >= 0
    for child in part.children:
        assert_adds_up(child)


@pytest.mark.slow
def test_every_call_of_a_recorded_agent_is_explained_as_it_was_sent():
    calls = played(6_000)
    for told, sent in calls:
        assert [*map(message_to_dict, told.messages)] == [*map(message_to_dict, sent)]
        assert_adds_up(told.parts)
        assert told.parts.tokens == told.tokens <= told.limit
        assert json.loads(json.dumps(told.as_dict()))["tokens"] == told.tokens
        assert max(map(len, str(told).splitlines())) <= 80
        assert all(message.after < message.before for message in told.hidden.shortened)
    assert any(told.hidden.shortened for told, _ in calls)
    last, sent = calls[-1]
    assert last.hidden.summarized
    hidden = sum(entry.messages for entry in last.hidden.summarized)
    assert hidden + len(sent) >= RECORDING.calls[-1], "every message is shown or accounted for"
    assert all(names for entry in last.hidden.summarized for _, names in entry.lines)


def test_the_report_says_what_is_hidden_and_why():
    calls = [told for told, _ in played(6_000)]
    assert "Nothing is hidden." in str(calls[0])
    assert calls[0].change is None
    both = next(told for told in calls if told.hidden.summarized and told.hidden.shortened)
    assert both.change is not None
    assert both.change.before is not None
    for words in (
        f"from {both.change.before:,} to at most ",
        "Summarized: ",
        "Shortened: ",
        f"({both.change.reason}, ",
        "tail",
        "because the",
    ):
        assert words in str(both)


def test_what_compact_would_do_next_is_told_before_it_is_done():
    memory = TokenMemory(TokenBudget(context_window=6_000))
    said = RECORDING.messages[: RECORDING.calls[-1]]
    told = memory.explain(said, **AROUND)
    plan = memory.plan(said, **AROUND)
    assert told.planned is not None
    assert (told.planned.reason, told.planned.before) == (plan.reason, plan.before)
    assert "Next: " in str(told)
    assert told.hidden.left_out == memory.view(said, **AROUND).left_out > 0
    state = memory.compact(said, **AROUND)
    done = change_between(None, state)
    assert done is not None
    assert (done.reason, done.summarized) == (told.planned.reason, told.planned.summarized)
    assert (done.before, done.after) == (state["change"]["before"], state["change"]["after"])
    assert TokenBudget.loaded(json.loads(json.dumps(state["change"]["budget"]))).limit == told.limit
    assert change_between(state, state) is None


def test_shortening_alone_has_its_reason_and_time():
    told = next(told for told, _ in played(6_000) if told.hidden.shortened)
    assert told.change is not None
    assert not told.hidden.summarized
    assert (told.change.reason, told.change.shortened) == ("compact_at", len(told.hidden.shortened))
    assert told.change.at is not None


def test_a_message_that_is_too_long_is_a_cut_and_no_compaction():
    memory = TokenMemory(TokenBudget(context_window=2_000))
    long = HumanMessage("Where is parcel P-7? " * 900, id="h1")
    state = memory.compact([long])
    assert "change" not in state
    change = change_between(new_state(), state)
    assert change is not None
    assert (change.reason, change.shortened) == ("cut", 1)


@pytest.mark.parametrize("weights", [[], [0, 0], [3]])
def test_nothing_is_lost_where_there_is_nothing_to_divide_by(weights: list[int]):
    assert sum(_divided(7, weights)) == 7


@given(st.integers(0, 10**6), st.lists(st.integers(0, 10**6), min_size=1))
def test_divided_tokens_add_up(total: int, weights: list[int]):
    shares = _divided(total, weights)
    assert sum(shares) == total
    assert len(shares) == len(weights)
    assert min(shares) >= 0


def test_a_warning_is_printed_whole():
    told = TokenMemory(2_000).explain([HumanMessage("word " * 5_000, id="a" * 36)])
    (warning,) = told.warnings
    assert warning in " ".join(str(told).split())
    assert max(map(len, str(told).splitlines())) <= 80
