"""A change of the prefix goes down to the target: first requests shrink, cuts never grow back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.messages import marked
from tests.fakes import CharCounter, own_words, tool_round

BUDGET = TokenBudget(context_window=2_000)
MEMORY = TokenMemory(BUDGET, counter=CharCounter())


def log_of(number, tokens):
    return tool_round(number, f"{number} of the log. " * (tokens // 4))


def run_of(first_tokens, rounds, result_tokens=60):
    said = [HumanMessage("Fix it. " * (first_tokens // 2), id="first")]
    for number in range(rounds):
        said += log_of(number, result_tokens)
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
    calls = calls_of(MEMORY, run_of(first_tokens=1_100, rounds=60))
    changes = [planned for planned, _, _ in calls if planned.reason]
    assert 2 <= len(changes) <= len(calls) / 5
    assert all(planned.after <= BUDGET.target_tokens for planned in changes)
    count = CharCounter().text
    sizes = [count(own_words(shown(view, "first"))) for _, _, view in calls]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 1_000
    assert BUDGET.pinned_tokens * 0.5 < sizes[-1] < 1_000


@pytest.mark.slow
def test_a_message_that_the_application_has_pinned_is_not_cut_for_the_target():
    said = run_of(first_tokens=900, rounds=60)
    said[0] = marked(said[0], pinned=True)
    calls = calls_of(MEMORY, said)
    assert any(planned.reason for planned, _, _ in calls)
    assert {own_words(shown(view, "first")) for _, _, view in calls} == {said[0].content}


def with_humans_behind(rounds, result_tokens, humans):
    """Return a run in which human messages stand behind each result."""
    said = [HumanMessage("Fix it.", id="first")]
    for number in range(rounds):
        said += log_of(number, result_tokens)
        said += [HumanMessage(f"Remember: fix it. {number}.{n}") for n in range(humans)]
    return said


@pytest.mark.slow
@pytest.mark.parametrize("humans", [1, 3])
def test_a_result_behind_which_human_messages_stand_is_shown_whole_once(humans):
    said = with_humans_behind(20, 1_000, humans)
    state, folds = None, 0
    for end in range(3 + humans, len(said) + 1, 2 + humans):
        folds += bool(MEMORY.plan(said[:end], state).fold)
        state, view = MEMORY.compact_and_view(said[:end], state)
        result = said[end - humans - 1]
        assert shown(view, result.id).content == result.content
        assert view.usage.input_tokens <= BUDGET.for_counts(exact=True).limit
    assert folds >= 10


@pytest.mark.slow
@given(
    first=st.integers(2, 1_400),
    sizes=st.lists(st.integers(4, 1_200), min_size=5, max_size=25),
    asks=st.sets(st.integers(0, 24), max_size=4),
)
@settings(max_examples=settings.default.max_examples // 2)
def test_cuts_only_shrink(first, sizes, asks):
    said = [HumanMessage("Fix it. " * (first // 2), id="first")]
    for number, size in enumerate(sizes):
        if number in asks:
            said.append(HumanMessage("And now? " * (size // 3), id=f"h{number}"))
        said += log_of(number, size)
    before = {}
    for _, state, view in calls_of(MEMORY, said):
        assert view.usage.input_tokens <= BUDGET.for_counts(exact=True).limit
        for key, cut in state["cuts"].items():
            old = before.get(key, cut)
            assert cut["head"] <= old["head"]
            assert cut["tail"] <= old["tail"]
        kept = {*state["kept"]}
        assert {key for key in before if key in kept} <= state["cuts"].keys()
        before = state["cuts"]
