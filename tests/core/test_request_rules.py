"""Rules of the application: when summaries are due, how many messages, what stays whole."""

import copy
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_tokenmem.core.messages import groups, is_pinned, with_ids
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.core.request_options import Trigger
from langchain_tokenmem.errors import BudgetExceededError
from langchain_tokenmem.modes import TurnMemorySettings
from langchain_tokenmem.types import RequestRules
from tests import fakes
from tests.fakes import newest_entry, talk, tool_round
from tests.features import with_features, with_work
from tests.providers import CHECKS, problems
from tests.strategies import conversations


def memory_of(window=4_000, *, trigger="auto", **rules):
    return fakes.memory_of(window, trigger=trigger, request=RequestRules(**rules))


# When summaries are due


@pytest.mark.parametrize(
    ("trigger", "due"),
    [
        (("messages", 30), True),
        (("messages", 90), False),
        (("tokens", 500), True),
        (("fraction", 0.2), True),
        ([("fraction", 0.7), ("messages", 30)], True),
        ({"fraction": 0.7, "messages": 30}, False),
        ({"fraction": 0.2, "messages": 30}, True),
        ((("fraction", 0.7), ("messages", 30)), True),
        ("auto", False),
    ],
)
def test_trigger_conditions_combine_by_any_or_all(trigger, due):
    memory = memory_of(trigger=trigger)
    messages = talk(30)
    assert 1_200 < memory.count(messages).tokens < 2_000
    assert bool(memory.compact(messages)["summary"]) == due


@pytest.mark.parametrize("window", [8_000, 128_000])
@pytest.mark.parametrize("trigger", [("messages", 40), ("tokens", 1_000), ("fraction", 0.05)])
def test_a_fold_by_a_trigger_leaves_room_for_many_messages(trigger, window):
    """Below the recent share it would fold nothing, or one message at each call."""
    memory, messages, state, folds = memory_of(window, trigger=trigger), [], None, 0
    kind, size = trigger
    size = size * window if kind == "fraction" else size
    while memory.count(messages).tokens < 8_000:
        messages += talk(1, len(messages) // 2)
        before, (state, view) = state, memory.compact_and_view(messages, state)
        folds += before is not None and before["summary"] != state["summary"]
        tail = len(messages) - (state["summary"]["covered"] if state["summary"] else 0)
        assert (tail if kind == "messages" else view.usage.input_tokens) < size
        assert memory.compact(messages, state) == state
    assert 0 < folds <= len(messages) / (20 if kind == "messages" else 8), folds


def test_a_summary_by_hand_leaves_half_of_a_small_request_in_a_large_window():
    memory, messages = memory_of(128_000), talk(60)
    state = memory.compact(messages, force=True)
    after = memory.view(messages, state).usage.input_tokens
    assert 0.2 < after / memory.count(messages).tokens <= 0.55
    assert 60 < state["summary"]["covered"] < 100


@pytest.mark.slow
def test_a_cap_on_the_tail_moves_in_batches_of_ten():
    memory = memory_of(max_tail_messages=30)
    messages, state, folded = [], None, [0]
    for n in range(100):
        messages += talk(1, n)
        state = memory.compact(messages, state)
        covered = state["summary"]["covered"] if state["summary"] else 0
        assert len(messages) - covered <= 30
        if covered != folded[-1]:
            folded.append(covered)
            assert newest_entry(state)["reason"] == "tail"
    moved = [after - before for before, after in pairwise(folded)]
    assert min(moved) >= 10
    assert len(moved) <= 20


# How many messages: the system message and the log are counted, too


def ids(view):
    return [message.id for message in view.messages if message.type != "system"]


def allowed(messages, *, pin_first):
    """Return the ids of the messages that `max_messages` never removes, with their groups."""
    body = [message for message in with_ids(messages) if message.type != "system"]
    humans = [message.id for message in body if message.type == "human"]
    whole = [[message.id for message in group.messages] for group in groups(body)]
    first = humans[:1] if pin_first else []
    required = {*first, *humans[-1:], *(message.id for message in body if is_pinned(message))}
    staying = [group for group in whole if not required.isdisjoint(group)]
    return {one for group in [*staying, *whole[-1:]] for one in group}


@given(
    conversations(),
    st.integers(2, 8),
    st.sampled_from([600, 4_000, 50_000]),
    st.sampled_from(sorted(PROFILES)),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["Be brief.", None]),
    st.sampled_from([None, Trigger(), Trigger.of(("messages", 4))]),
)
def test_a_view_never_has_more_unless_what_has_to_be_there_is_more_and_is_legal(
    messages, most, window, legality, pin_first, compact, system, trigger
):
    rules = {"max_messages": most, "legality": legality, "pin_first": pin_first}
    memory = memory_of(window, trigger=trigger, **rules)
    state = memory.compact(messages) if compact else None
    view = memory.view(messages, state, system=system)
    assert memory.view(messages, state, system=system) == view
    assert view.usage.input_tokens <= memory.budget.limit
    if any(message.type != "system" for message in view.messages):
        assert problems(view.messages) == []
    is_more = len(view.messages) > most
    assert any("more messages than max_messages" in w for w in view.warnings) == is_more
    if is_more:
        known = {message.id for message in with_ids(messages)}
        assert {one for one in ids(view) if one in known} <= allowed(messages, pin_first=pin_first)


SHOWN = TurnMemorySettings(include_partial=True, project_root="/app", shown="always")
ROOM = st.fixed_dictionaries(
    {
        "max_messages": st.sampled_from([None, 2, 3, 5, 8]),
        "pin_first": st.booleans(),
        "show_times": st.sampled_from([None, "human", "all"]),
    }
)
MEMORY = st.fixed_dictionaries(
    {
        "window": st.sampled_from([600, 900, 2_000, 8_000, 50_000]),
        "mode": st.sampled_from([None, "code", "reasoning"]),
        "trigger": st.sampled_from(["auto", None, Trigger(), ("messages", 4)]),
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("profile", sorted(PROFILES))
@given(conversations(18), st.randoms(use_true_random=False), ROOM, MEMORY)
@settings(max_examples=settings.default.max_examples // 2)
def test_a_view_with_all_features_is_legal_within_the_limit_and_has_what_has_to_be_there(
    profile, said, dice, room, options
):
    """Times, notes, pins, recalled blocks and turn memory, and a bound on messages."""
    rules = RequestRules(legality=profile, **room)
    memory = fakes.memory_of(request=rules, turn_memory=SHOWN, summarizer=None, **options)
    messages, state = with_work(dice, said), None
    before = copy.deepcopy(messages)
    for end in (len(messages) // 2, len(messages)):
        shown = messages[:end]
        try:
            state = with_features(dice, state, shown)
            state, view = memory.compact_and_view(shown, state, system="Be brief.")
        except BudgetExceededError:
            return
        assert view.usage.input_tokens == memory.count(view.messages).tokens
        assert view.usage.input_tokens <= memory.budget.limit
        assert view.output_left >= 1
        if ids(view):
            assert problems(view.messages) == []
            CHECKS.get(profile, problems)(view.messages)
        is_more = len(view.messages) > (room["max_messages"] or len(view.messages))
        assert any("more messages than max_messages" in w for w in view.warnings) == is_more
        if is_more:
            known = {message.id for message in with_ids(shown)}
            left = known.intersection(ids(view))
            assert left <= allowed(shown, pin_first=room["pin_first"])
    assert messages == before
    again, same = memory.compact_and_view(messages, state, system="Be brief.")
    assert same.messages == view.messages
    if options["trigger"] == "auto" and room["max_messages"] is None:
        assert again == state


def test_what_has_to_be_there_stays_and_the_view_reports_it():
    asked = [*talk(3), HumanMessage("and now?", id="n")]
    view = memory_of(max_messages=2).view(asked, system="Be brief.")
    assert ids(view) == ["h0", "n"]
    assert "more messages than max_messages, 2" in view.warnings[-1]
    assert "pin_first=False" in view.warnings[-1]
    view = memory_of(max_messages=2, pin_first=False).view(asked, system="Be brief.")
    assert (ids(view), view.warnings) == (["n"], ())


# Which results stay whole


def first_change(window=6_000, said="", args=(), **rules):
    """Return a tool loop up to its first change of the prefix, the state, and the memory."""
    memory, state = memory_of(window, **rules), None
    messages = [HumanMessage("Fix the build.", id="h0")]
    for number in range(40):
        messages += tool_round(number, "a long line of output\n" * 50, said, **dict(args))
        state = memory.compact(messages, state)
        if state["cuts"] or state["summary"]:
            return messages, state, memory
    raise AssertionError("The prefix has not changed.")


def test_the_newest_results_and_those_of_some_tools_stay_whole_where_it_is_asked_for():
    messages, state, _ = first_change()
    usual = [*state["cuts"]]
    results = [message.id for message in messages if message.type == "tool"]
    assert len(usual) > 1
    newest = len(results) - results.index(usual[1])
    fewer = [*first_change(keep_results=newest)[1]["cuts"]]
    assert {*fewer}.isdisjoint(results[-newest:])
    assert {*fewer} < {*usual}
    assert first_change(whole_tools={"other"})[1]["cuts"]
    assert not first_change(whole_tools=["read"])[1]["cuts"]


@pytest.mark.slow
def test_the_arguments_of_shortened_calls_are_left_out_where_the_application_asks_for_it():
    given_ = {"path": "file.txt", "text": "line of the file\n" * 20}
    loop = {"window": 9_000, "said": "I write it.", "args": given_}
    messages, state, memory = first_change(**loop)
    assert "tool calls left out" not in str(memory.view(messages, state).messages)
    _, kept, _ = first_change(**loop, clear_tool_inputs=True, keep_results=99)
    assert not [key for key in kept["cuts"] if key.startswith("a")]
    messages, state, memory = first_change(**loop, clear_tool_inputs=True)
    results = {m.tool_call_id for m in messages if m.type == "tool" and m.id in state["cuts"]}
    assert results
    for message in memory.view(messages, state).messages:
        for call in getattr(message, "tool_calls", ()):
            is_cleared = call["id"] in results
            assert (call["args"] == {}) == is_cleared
            assert ("arguments of tool calls left out" in message.text) == is_cleared
            assert message.text.startswith("I write it.")
