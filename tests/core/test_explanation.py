"""An explanation adds up, is what is sent, fits a terminal, and says why."""

import json

import pytest
from langchain_core.messages import HumanMessage, message_to_dict

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.explained_request import change_between
from langchain_tokenmem.state import new_state
from tests.golden.recordings import recorded_agent

RECORDING = recorded_agent()
AROUND = {"system": RECORDING.system, "tools": RECORDING.tools}


@pytest.fixture(scope="module")
def calls():
    """Return for each call of the recorded agent its explanation, and what is sent."""
    memory, state, found = TokenMemory(6_000), None, []
    for place in RECORDING.calls:
        state, view = memory.compact_and_view(RECORDING.messages[:place], state, **AROUND)
        found.append((view.explain(), view.messages))
    return found


def assert_adds_up(part):
    if part.children:
        assert part.tokens == sum(child.tokens for child in part.children), part.name
    assert part.tokens >= 0
    for child in part.children:
        assert_adds_up(child)


@pytest.mark.slow
def test_every_call_of_a_recorded_agent_is_explained_as_it_was_sent(calls):
    for told, sent in calls:
        assert [*map(message_to_dict, told.messages)] == [*map(message_to_dict, sent)]
        assert_adds_up(told.parts)
        assert told.parts.tokens == told.tokens <= told.limit
        assert json.loads(json.dumps(told.as_dict()))["tokens"] == told.tokens
        assert max(map(len, str(told).splitlines())) <= 80
        assert all(message.after < message.before for message in told.hidden.shortened)
    last, sent = calls[-1]
    hidden = sum(entry.messages for entry in last.hidden.summarized)
    assert hidden + len(sent) >= RECORDING.calls[-1], "every message is shown or accounted for"
    assert all(names for entry in last.hidden.summarized for _, names in entry.lines)


@pytest.mark.slow
def test_the_report_says_what_is_hidden_and_why(calls):
    told = [told for told, _ in calls]
    assert "Nothing is hidden." in str(told[0])
    assert told[0].change is None
    shortened = next(one for one in told if one.hidden.shortened)
    assert not shortened.hidden.summarized
    assert shortened.change.reason == "compact_at"
    assert shortened.change.shortened == len(shortened.hidden.shortened)
    assert shortened.change.at is not None
    both = next(one for one in told if one.hidden.summarized and one.hidden.shortened)
    change = f"from {both.change.before:,} to at most ", f"({both.change.reason}, "
    for words in (*change, "Summarized: ", "Shortened: ", "tail", "because the"):
        assert words in str(both)


def test_what_compact_would_do_next_is_told_before_it_is_done():
    memory, said = TokenMemory(6_000), RECORDING.messages[: RECORDING.calls[14]]
    told, plan = memory.explain(said, **AROUND), memory.plan(said, **AROUND)
    assert (told.planned.reason, told.planned.before) == (plan.reason, plan.before)
    assert "Next: " in str(told)
    assert told.hidden.left_out == memory.view(said, **AROUND).left_out > 0
    state = memory.compact(said, **AROUND)
    done = change_between(None, state)
    assert (done.reason, done.summarized) == (told.planned.reason, told.planned.summarized)
    assert (done.before, done.after) == (state["change"]["before"], state["change"]["after"])
    assert TokenBudget.loaded(json.loads(json.dumps(state["change"]["budget"]))).limit == told.limit
    assert change_between(state, state) is None


@pytest.mark.parametrize(
    ("options", "due"),
    [
        ({}, "at 102,400 tokens"),
        ({"trigger": None}, "only by hand"),
        ({"trigger": ("tokens", 6_000)}, "at 6,000 tokens"),
        ({"trigger": {"fraction": 0.25, "messages": 40}}, "at 32,000 tokens and 40 messages"),
        ({"trigger": [("tokens", 6_000), ("messages", 40)]}, "at 6,000 tokens or 40 messages"),
    ],
)
def test_the_report_says_when_a_summary_is_due(options, due):
    told = TokenMemory(128_000, **options).explain([HumanMessage("Hello")])
    assert told.due == due
    assert f"Window 128,000; summaries {due}\n" in str(told)


def test_a_message_that_is_too_long_is_a_cut_with_a_warning_that_is_printed_whole():
    memory, long = TokenMemory(2_000), HumanMessage("Where is P-7? " * 900, id="a" * 36)
    state = memory.compact([long])
    assert "change" not in state
    change = change_between(new_state(), state)
    assert (change.reason, change.shortened) == ("cut", 1)
    told = memory.explain([long])
    (warning,) = told.warnings
    assert warning in " ".join(str(told).split())
    assert max(map(len, str(told).splitlines())) <= 80
