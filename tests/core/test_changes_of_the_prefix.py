"""Changes of the prefix go down to the target, cuts never grow back, and room that views keep."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.messages import marked
from langchain_tokenmem.errors import BudgetExceededError
from tests.fakes import CharCounter, memory_of, own_words, tool_round
from tests.providers import problems

BUDGET = TokenBudget(context_window=2_000)
MEMORY = TokenMemory(BUDGET, counter=CharCounter())


def log_of(number, tokens):
    return tool_round(number, f"{number} of the log. " * (tokens // 4))


def run_of(first_tokens, rounds):
    said = [HumanMessage("Fix it. " * (first_tokens // 2), id="first")]
    return [*said, *(message for number in range(rounds) for message in log_of(number, 60))]


def calls_of(memory, said):
    """Return plan, state and view of each model call of a run."""
    found, state = [], None
    for end in range(1, len(said) + 1):
        if end == len(said) or said[end].type == "ai":
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


@pytest.mark.slow
@pytest.mark.parametrize("humans", [1, 3])
def test_a_result_behind_which_human_messages_stand_is_shown_whole_once(humans):
    said, state, folds = [HumanMessage("Fix it.", id="first")], None, 0
    for number in range(20):
        call, result = log_of(number, 1_000)
        said += [call, result]
        said += [HumanMessage(f"Remember: fix it. {number}.{n}") for n in range(humans)]
        folds += bool(MEMORY.plan(said, state).fold)
        state, view = MEMORY.compact_and_view(said, state)
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
