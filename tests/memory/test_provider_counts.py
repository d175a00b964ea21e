"""A provider's count decides near a threshold: a turn asks at most once, and goes on without."""

from itertools import pairwise

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory, with_token_memory
from langchain_tokenmem.counting import ProviderCounter, counter_for
from langchain_tokenmem.memory import call_counts
from tests.adapters.integrations import session
from tests.tokens.test_provider_counter import TOOL, CountedModel

BUDGET = TokenBudget(context_window=4_000, reserve_output=200)
# limit 3,400; scaled thresholds: compact_at 3,000, summarize_at 3,200
LIMIT = BUDGET.for_counts(exact=False).limit
WORDS = "The parcel with the two lamps goes to Bonn and not to Cologne. "


def talk(tokens):
    """Return a conversation of about so many estimated tokens."""
    said = []
    while not said or estimated(said) < tokens:
        kind, number = (AIMessage, HumanMessage)[len(said) % 2 == 0], len(said)
        said.append(kind(f"{number} " + WORDS * 3, id=f"m{number}"))
    return said if said[-1].type == "human" else said[:-1]


def estimated(messages, tools=None):
    return counter_for("claude").count(messages, tools=tools).tokens


def scaled(factor):
    return lambda messages, tools: round(factor * estimated(messages, tools))


def memory_of(model):
    return TokenMemory(BUDGET, counter=ProviderCounter(model))


FAR, NEAR = (300, 1_500, 2_100, 9_000), (2_700, 2_900, 3_100, 3_400, 3_700)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [*FAR, *NEAR])
def test_the_provider_is_asked_once_near_a_threshold_and_not_far_from_all(tokens):
    model = CountedModel(answer=scaled(1.0))
    memory_of(model).compact_and_view(talk(tokens))
    assert len(model.asked) == (tokens in NEAR)


def test_the_whole_request_is_asked_for_and_the_view_has_the_tokens_of_the_answer():
    model, said = CountedModel(answer=scaled(0.9)), talk(2_900)
    memory = memory_of(model)
    before = memory.view(said, system="Be brief.", tools=[TOOL])
    state, view = memory.compact_and_view(said, system="Be brief.", tools=[TOOL])
    messages, tools = model.asked[0]
    assert [message.type for message in messages][:2] == ["system", "human"]
    assert (len(messages), tools) == (1 + len(said), [TOOL])
    assert before.usage.is_estimate
    assert not view.usage.is_estimate
    assert view.usage.input_tokens == scaled(0.9)(messages, tools)
    names = ("system", "tools", "pinned", "summary", "memory_block", "tail")
    assert sum(view.usage.parts[name] for name in names) == view.usage.input_tokens
    assert view.messages == before.messages
    assert state["summary"] is None
    _, around = memory_of(CountedModel(answer=2_700)).compact_and_view(said, overhead_tokens=100)
    assert around.usage.input_tokens == 2_800


def test_the_count_decides_against_the_estimate_and_its_ratio_is_kept():
    plain, said = TokenMemory(BUDGET, counter=counter_for("claude")), talk(3_500)
    assert plain.compact(said)["summary"]
    state, view = memory_of(CountedModel(answer=scaled(0.8))).compact_and_view(said)
    assert (state["summary"], view.left_out) == (None, 0)
    said = talk(2_700)
    assert plain.compact(said)["summary"] is None
    state, view = memory_of(CountedModel(answer=scaled(1.3))).compact_and_view(said)
    assert state["summary"] is not None
    assert view.usage.is_estimate
    assert state["reports"]["ratio"] == pytest.approx(1.3, abs=0.05)
    uncorrected = {key: value for key, value in state.items() if key != "reports"}
    request = plain.view(said, uncorrected).usage.input_tokens
    assert view.usage.input_tokens == pytest.approx(1.3 * request, rel=0.1)


@pytest.mark.parametrize("factor", [0.3, 4.0])
def test_a_count_that_cannot_be_of_this_request_is_not_used_and_reported_once(factor, caplog):
    call_counts._report_unused.cache_clear()
    memory = memory_of(CountedModel(answer=scaled(factor)))
    for tokens in (2_700, 2_800):
        _, view = memory.compact_and_view(talk(tokens))
        assert view.usage.is_estimate
        assert view.usage.input_tokens == estimated(view.messages)
    assert caplog.text.count("is not between 0.5 and 3 times the estimate") == 1


def test_a_view_by_hand_asks_nobody_and_knows_what_was_answered():
    model, said = CountedModel(answer=scaled(0.9)), talk(2_900)
    memory = memory_of(model)
    assert memory.view(said).usage.is_estimate
    assert memory.plan(said).before == estimated(said)
    assert model.asked == []
    memory.compact(said)
    assert not memory.view(said).usage.is_estimate
    assert len(model.asked) == 1


@pytest.mark.slow
def test_each_turn_of_a_chain_asks_at_most_once(store):
    model = CountedModel(answer=scaled(1.1), responses=["Noted. " + WORDS * 4])
    chain, asked = with_token_memory(model, memory_of(model), store), [0]
    for number in range(40):
        chain.invoke(f"{number} " + WORDS * 4, session(user_id="u"))
        asked.append(len(model.asked))
    assert {after - before for before, after in pairwise(asked)} == {0, 1}
    assert asked[-1] < 20


async def test_an_async_turn_asks_off_the_event_loop():
    model = CountedModel(answer=scaled(0.9), seconds=0.05)
    memory, said = memory_of(model), talk(2_900)
    with blockbuster_ctx():
        _, view = await memory.acompact_and_view(said)
    assert not view.usage.is_estimate
    assert model.threads == ["tokenmem-count"]


@pytest.mark.slow
@given(factor=st.floats(0.55, 2.9), tokens=st.integers(2_700, 3_700))
def test_no_request_that_was_asked_for_is_over_the_limit_by_the_corrected_count(factor, tokens):
    said = talk(tokens)
    memory = memory_of(CountedModel(answer=scaled(factor)))
    _, view = memory.compact_and_view(said, system="Be brief.")
    assert not view.usage.exceeds_limit
    assert factor * estimated(view.messages) <= 1.02 * LIMIT
