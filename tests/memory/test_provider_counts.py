"""A provider's count decides near a threshold: a turn asks at most once, and goes on without."""

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory, TranscriptStore, with_token_memory
from langchain_tokenmem.counting import ProviderCounter, counter_for
from langchain_tokenmem.memory import call_counts
from langchain_tokenmem.memory.call_counts import is_near_threshold
from tests.tokens.counted_model import CountedModel

BUDGET = TokenBudget(context_window=4_000, reserve_output=200)
# limit 3,400; scaled thresholds: compact_at 3,000, summarize_at 3,200
LIMIT = BUDGET.for_counts(exact=False).limit
WORDS = "The parcel with the two lamps goes to Bonn and not to Cologne. "
TOOL = {
    "type": "function",
    "function": {"name": "read", "description": "Read a file.", "parameters": {}},
}


def talk(tokens: int) -> list:
    """Return a conversation of about so many estimated tokens."""
    counter, said, total, number = counter_for("claude"), [], 0, 0
    while total < tokens:
        kind = AIMessage if number % 2 else HumanMessage
        said.append(kind(f"{number} " + WORDS * 3, id=f"m{number}"))
        total, number = total + counter.message(said[-1]), number + 1
    return said if said[-1].type == "human" else said[:-1]


def estimated(messages, tools=None) -> int:
    return counter_for("claude").count(messages, tools=tools).tokens


def scaled(factor: float):
    return lambda messages, tools: round(factor * estimated(messages, tools))


def memory_of(model: CountedModel, **keywords) -> TokenMemory:
    return TokenMemory(BUDGET, counter=ProviderCounter(model), **keywords)


FAR, NEAR = (300, 1_500, 2_100, 9_000), (2_700, 2_900, 3_100, 3_400, 3_700)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [*FAR, *NEAR])
def test_the_provider_is_asked_once_near_a_threshold_and_not_far_from_all(tokens):
    model = CountedModel(answer=scaled(1.0))
    memory_of(model).compact_and_view(talk(tokens))
    assert len(model.asked) == (tokens in NEAR)


def test_near_is_within_six_per_cent_of_what_replies_have_reported_and_the_margin_of_the_rest():
    budget = BUDGET.for_counts(exact=False)
    edge = int(budget.compact_tokens)
    for new in (0, 20, 500):
        nearest = (edge - 0.04 * new) / 1.06
        assert is_near_threshold(int(nearest) + 1, budget, int(nearest) + 1 - new)
        assert not is_near_threshold(int(nearest) - 1, budget, int(nearest) - 1 - new)


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


def test_what_the_application_puts_around_the_request_comes_on_top():
    model, said = CountedModel(answer=2_700), talk(2_700)
    _, view = memory_of(model).compact_and_view(said, overhead_tokens=100)
    assert view.usage.input_tokens == 2_800


def test_a_larger_count_compacts_where_the_estimate_would_not_and_the_ratio_is_kept():
    said = talk(2_700)
    plain = TokenMemory(BUDGET, counter=counter_for("claude"))
    assert plain.compact(said)["summary"] is None
    state, view = memory_of(CountedModel(answer=scaled(1.3))).compact_and_view(said)
    assert state["summary"] is not None
    assert view.usage.is_estimate
    assert state["reports"]["ratio"] == pytest.approx(1.3, abs=0.05)
    uncorrected = {key: value for key, value in state.items() if key != "reports"}
    request = plain.view(said, uncorrected).usage.input_tokens
    assert view.usage.input_tokens == pytest.approx(1.3 * request, rel=0.1)


def test_a_smaller_count_leaves_alone_what_the_estimate_would_compact():
    said = talk(3_500)
    assert TokenMemory(BUDGET, counter=counter_for("claude")).compact(said)["summary"]
    state, view = memory_of(CountedModel(answer=scaled(0.8))).compact_and_view(said)
    assert state["summary"] is None
    assert view.left_out == 0


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
def test_each_turn_of_a_chain_asks_at_most_once():
    model = CountedModel(answer=scaled(1.1), responses=["Noted. " + WORDS * 4])
    with TranscriptStore("sqlite://") as store:
        chain = with_token_memory(model, memory_of(model), store)
        asked = []
        for number in range(40):
            before = len(model.asked)
            chain.invoke(
                f"{number} " + WORDS * 4, {"configurable": {"session_id": "s", "user_id": "u"}}
            )
            asked.append(len(model.asked) - before)
    assert set(asked) == {0, 1}
    assert sum(asked) < 20


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
