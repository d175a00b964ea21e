"""A change of the prefix goes down to the target: first requests shrink, cuts never grow back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.messages import marked
from tests.fakes import CharCounter, own_words

BUDGET = TokenBudget(context_window=2_000)


def memory_of(budget=BUDGET, **keywords):
    return TokenMemory(budget, counter=CharCounter(), **keywords)


def tool_round(number, tokens):
    call = {"name": "read", "args": {"n": number}, "id": f"c{number}"}
    return [
        AIMessage("", tool_calls=[call], id=f"a{number}"),
        ToolMessage(
            f"{number} of the log. " * (tokens // 4), tool_call_id=f"c{number}", id=f"t{number}"
        ),
    ]


def run_of(first_tokens, rounds, result_tokens=60):
    said = [HumanMessage("Fix it. " * (first_tokens // 2), id="first")]
    for number in range(rounds):
        said += tool_round(number, result_tokens)
    return said


def calls_of(memory, said):
    """Return plan, state and view of each model call of a run."""
    found, state = [], None
    for end in range(1, len(said) + 1):
        if end < len(said) and said[end].type != "ai":
            continue
        planned = memory.plan(said[:end], state)
        state, view = memory.compact_and_view(said[:end], state)
        found.append((planned, state, view))
    return found


def shown(view, key):
    return next(message for message in view.messages if message.id == key)


@pytest.mark.slow
def test_a_long_first_request_is_cut_so_that_each_change_reaches_the_target():
    calls = calls_of(memory_of(), run_of(first_tokens=1_100, rounds=60))
    changes = [planned for planned, _, _ in calls if planned.reason]
    assert 2 <= len(changes) <= len(calls) / 5
    assert all(planned.after <= BUDGET.target_tokens for planned in changes)
    count = CharCounter().text
    sizes = [count(own_words(shown(view, "first"))) for _, _, view in calls]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 1_000
    assert BUDGET.pinned_tokens * 0.5 < sizes[-1] < 1_000


@pytest.mark.slow
def test_a_first_request_that_is_cut_leaves_room_for_the_summary_to_grow():
    calls = calls_of(memory_of(), run_of(first_tokens=1_100, rounds=60))
    logs = {len(state["summary"]["entries"]) for _, state, _ in calls if state["summary"]}
    assert max(logs) >= 3
    assert len({own_words(shown(view, "first")) for _, _, view in calls}) == 2


@pytest.mark.slow
def test_a_short_first_request_stays_whole():
    said = run_of(first_tokens=100, rounds=60)
    calls = calls_of(memory_of(), said)
    assert any(planned.reason for planned, _, _ in calls)
    assert {own_words(shown(view, "first")) for _, _, view in calls} == {said[0].content}


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.45, 0.6])
@pytest.mark.parametrize("window", [4_000, 16_000])
def test_a_long_system_text_leaves_room_for_an_entry(window, share):
    budget = TokenBudget(context_window=window)
    system = "Be kind. " * int(share * window / CharCounter().text("Be kind. "))
    said = run_of(first_tokens=20, rounds=60, result_tokens=window // 50)
    memory, state, rooms = memory_of(budget), None, []
    for end in range(3, len(said) + 1, 2):
        planned = memory.plan(said[:end], state, system=system)
        rooms += [planned.summary_tokens] if planned.fold else []
        state, view = memory.compact_and_view(said[:end], state, system=system)
        assert view.usage.input_tokens <= view.usage.max_tokens
    assert len(rooms) >= 2
    assert min(rooms) >= 0.05 * (view.usage.max_tokens - view.usage.parts["system"])


@pytest.mark.slow
def test_a_message_that_the_application_has_pinned_is_not_cut_for_the_target():
    said = run_of(first_tokens=900, rounds=60)
    said[0] = marked(said[0], pinned=True)
    calls = calls_of(memory_of(), said)
    assert any(planned.reason for planned, _, _ in calls)
    assert {own_words(shown(view, "first")) for _, _, view in calls} == {said[0].content}


@pytest.mark.slow
def test_what_is_cut_from_the_first_request_is_given_to_the_summarizer():
    batches = []

    def summarize(messages, _prior, _instruction, _max_tokens):
        batches.append([message.id for message in messages])
        return "Summary."

    calls = calls_of(memory_of(summarizer=summarize, background=False), run_of(1_100, 60))
    cut_in = next(number for number, (_, state, _) in enumerate(calls) if "first" in state["cuts"])
    folds = [number for number, (planned, _, _) in enumerate(calls) if planned.fold]
    assert "first" in batches[folds.index(cut_in)]


@pytest.mark.parametrize(
    ("window", "system", "result_tokens"),
    [
        pytest.param(1_500, None, 1_250, id="nothing is left to fold"),
        pytest.param(4_000, "More rules. " * 800, 1_250, id="the system text has grown"),
        pytest.param(500, None, 60, id="a fold that has no room for a text"),
    ],
)
def test_a_first_request_that_is_cut_without_an_entry_is_told_by_the_next_one(
    window, system, result_tokens
):
    batches = []

    def summarize(messages, _prior, _instruction, _max_tokens):
        batches.append([message.id for message in messages])
        return "Summary."

    large = TokenBudget(context_window=4_000)
    memory = memory_of(large, summarizer=summarize, background=False)
    said = run_of(300, 4_000 // result_tokens, result_tokens)
    state = memory.compact(said, force=True)
    assert state["kept"] == ["first"]
    assert "first" not in state["cuts"]
    assert "first" not in batches[-1]

    tight = memory_of(TokenBudget(context_window=window), summarizer=summarize, background=False)
    folds = len(batches)
    state = tight.compact(said, state, system=system)
    assert state["cuts"]["first"]["untold"]
    assert len(batches) == folds
    assert tight.compact(said, state, system=system)["cuts"] == state["cuts"]

    said += [*tool_round(100, 20), *tool_round(101, 1_000)]
    state = memory.compact(said, state, force=True)
    assert len(batches) == folds + 1
    assert "first" in batches[-1]
    assert "untold" not in state["cuts"]["first"]
    said += [*tool_round(102, 20), *tool_round(103, 1_000)]
    memory.compact(said, state, force=True)
    assert len(batches) == folds + 2
    assert "first" not in batches[-1]


@pytest.mark.slow
def test_the_newest_human_message_is_cut_only_where_the_limit_forces_the_change():
    said = [*run_of(100, 4), HumanMessage("Now this. " * 400, id="newest")]
    for number in range(4, 60):
        said += tool_round(number, 60)
    was_cut = False
    for planned, state, _ in calls_of(memory_of(), said):
        if "newest" in state["cuts"] and not was_cut:
            was_cut = True
            assert planned.reason == "limit"
    assert was_cut


def with_humans_behind(rounds, result_tokens, humans):
    """Return a run in which human messages stand behind each result."""
    said = [HumanMessage("Fix it.", id="first")]
    for number in range(rounds):
        said += tool_round(number, result_tokens)
        said += [HumanMessage(f"Remember: fix it. {number}.{n}") for n in range(humans)]
    return said


@pytest.mark.slow
@pytest.mark.parametrize("humans", [1, 3])
def test_a_result_behind_which_human_messages_stand_is_shown_whole_once(humans):
    said = with_humans_behind(20, 1_000, humans)
    state, folds = None, 0
    memory = memory_of()
    for end in range(3 + humans, len(said) + 1, 2 + humans):
        folds += bool(memory.plan(said[:end], state).fold)
        state, view = memory.compact_and_view(said[:end], state)
        result = said[end - humans - 1]
        assert shown(view, result.id).content == result.content
        assert view.usage.input_tokens <= BUDGET.for_counts(exact=True).limit
    assert folds >= 10


@pytest.mark.parametrize(("humans", "is_shown"), [(3, True), (4, False)])
def test_only_the_newest_four_groups_stay_for_a_result_that_was_not_seen(humans, is_shown):
    said = run_of(10, 1, result_tokens=1_000)
    said += [HumanMessage(f"{number} more. " * 150) for number in range(humans)]
    view = memory_of().view(said)
    assert view.usage.input_tokens <= BUDGET.for_counts(exact=True).limit
    assert ("t0" in {message.id for message in view.messages}) is is_shown


def test_where_a_result_and_the_human_message_behind_it_do_not_fit_the_result_is_cut():
    result = run_of(10, 1, result_tokens=1_400)
    newest = HumanMessage("Now this. " * 400, id="newest")
    view = memory_of().view([*result, newest])
    assert view.usage.input_tokens <= BUDGET.for_counts(exact=True).limit
    assert 0 < len(shown(view, "t0").content) < len(result[-1].content)
    assert shown(view, "newest").content == newest.content


@pytest.mark.slow
@given(
    first=st.integers(2, 1_400),
    sizes=st.lists(st.integers(4, 1_200), min_size=5, max_size=25),
    asks=st.sets(st.integers(0, 24), max_size=4),
)
def test_cuts_only_shrink(first, sizes, asks):
    said = [HumanMessage("Fix it. " * (first // 2), id="first")]
    for number, size in enumerate(sizes):
        if number in asks:
            said.append(HumanMessage("And now? " * (size // 3), id=f"h{number}"))
        said += tool_round(number, size)
    before = {}
    for _, state, view in calls_of(memory_of(), said):
        assert view.usage.input_tokens <= BUDGET.for_counts(exact=True).limit
        for key, cut in state["cuts"].items():
            old = before.get(key, cut)
            assert cut["head"] <= old["head"]
            assert cut["tail"] <= old["tail"]
        kept = {*state["kept"]}
        assert {key for key in before if key in kept} <= state["cuts"].keys()
        before = state["cuts"]
