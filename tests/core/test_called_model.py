"""Counts, window and corrections of the model that is called."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.chat_models import window_of
from langchain_tokenmem.tokens.counters import counter_for
from langchain_tokenmem.types import Shares
from tests.contract.chats import Talker
from tests.fakes import tool_round

SENTENCE = "The parcel with the two lamps goes to Bonn and not to Cologne. "
CODE = 'def send(parcel, *, to="Bonn"):\n    return {"id": parcel["id"], "to": to}\n'


def named(name="", **fields):
    return Talker(name_=name, **fields)


def report(tokens):
    """Return the usage of a reply to a request of this many tokens."""
    return {"input_tokens": tokens, "output_tokens": 9, "total_tokens": tokens + 9}


@pytest.mark.parametrize("name", ["", "somebodys-model-7"])
def test_a_model_whose_vocabulary_is_not_known_is_never_counted_exactly(name):
    for budget in (8_000, TokenBudget(8_000, model="gpt-4o")):
        view = TokenMemory(budget).for_model(named(name)).view([HumanMessage(SENTENCE * 20)])
        assert view.usage.is_estimate is True
    assert counter_for(named(name)).count([]).accuracy > 0


def test_models_of_several_vocabularies_are_counted_by_the_dearest():
    cheap, dear = named("gpt-4o"), named("claude-sonnet-4-5")
    for model in (cheap.with_fallbacks([dear]), dear.with_fallbacks([cheap])):
        counter = counter_for(model)
        assert counter.method == "estimate"
        assert counter.text(SENTENCE) == counter_for(dear).text(SENTENCE)
    same = cheap.with_fallbacks([named("gpt-4o-mini")])
    assert counter_for(same).method == "exact"


def test_no_budget_goes_beyond_the_window_of_the_called_model():
    small = named("gpt-4o", profile={"max_input_tokens": 3_000.0})  # from a file
    memory = TokenMemory(20_000).for_model(small)
    call = TokenBudget(16_000, reserve_output=2_000)
    said = [HumanMessage(SENTENCE * 40) for _ in range(30)]
    for options in ({}, {"budget": call}):
        view = memory.view(said, **options)
        assert memory.count(view.messages).tokens <= 3_000 - view.usage.parts["reserved_output"]
    assert memory.budget.context_window == 3_000
    assert window_of(named(profile={"max_input_tokens": 100})) is None
    assert window_of(Talker.model_construct(profile={"max_input_tokens": math.inf})) is None
    large = named("gpt-4o", profile={"max_input_tokens": 200_000})
    assert memory.for_model(large).budget == TokenBudget(20_000)


# Corrections by what replies report.


def times(factor):
    """Return a provider's own count, which is ours times a factor."""
    return lambda messages: round(factor * counter_for(None).count(messages).tokens)


def talk(memory, turns, true, state=None, said=()):
    """Return messages, state, and the true tokens and the usage of each request.

    Replies report the truth.
    """
    messages, requests = list(said), []
    for turn in range(turns):
        number = len(messages)
        words = SENTENCE * (5 + turn % 7 * 8)
        messages.append(HumanMessage(f"{number}: {words}", id=f"h{number}"))
        state, view = memory.compact_and_view(messages, state)
        requests.append((true(view.messages), view.usage))
        used = report(requests[-1][0])
        messages.append(AIMessage(f"{number}: " + CODE * 5, id=f"a{number}", usage_metadata=used))
    return messages, state, requests


@pytest.mark.slow
def test_no_request_is_under_the_truth_by_more_than_the_margin():
    memory = TokenMemory(8_000).for_model(named())
    for tokens, usage in talk(memory, 40, times(1.15))[2]:
        assert tokens - usage.input_tokens <= 0.1 * 8_000
        assert tokens + usage.parts["reserved_output"] <= 8_000


@pytest.mark.slow
def test_corrections_are_forgotten_when_the_model_changes():
    dear = TokenMemory(8_000).for_model(named("somebodys-a"))
    messages, state, _ = talk(dear, 30, times(1.3))
    question = [*messages, HumanMessage("And now?", id="q")]
    plain = TokenMemory(8_000).for_model(named("somebodys-b"))
    new, view = plain.compact_and_view(question, state)
    assert view.usage.input_tokens == plain.count(view.messages).tokens
    assert (new["reports"]["model"], new["reports"]["ratio"]) == ("somebodys-b", None)
    # and replies of the one before do not count for the new one later
    _, _, requests = talk(plain, 8, times(0.9), new, question)
    errors = [abs(usage.input_tokens - tokens) / tokens for tokens, usage in requests[4:]]
    assert max(errors) < 0.03


def reporting(*ratios, cached=0.0):
    """Return a talk; each reply reports the tokens of its request times one of the ratios.

    The share that came from the provider's cache is reported beside the others.
    """
    said, meta = [], {"model_name": "claude-sonnet-4-5"}
    for number, ratio in enumerate(ratios):
        said.append(HumanMessage(f"{number} " + SENTENCE * 20, id=f"h{number}"))
        tokens = round(ratio * counter_for("claude-sonnet-4-5").count(said).tokens)
        read = round(cached * tokens)
        used = {**report(tokens), "input_tokens": tokens - read}
        used["input_token_details"] = {"cache_read": read}
        said.append(AIMessage("Yes.", id=f"a{number}", usage_metadata=used, response_metadata=meta))
    return [*said, HumanMessage("And now?", id="q")]


def corrected(*ratios, cached=0.0):
    """Return counted by estimated tokens of the request behind such replies."""
    memory = TokenMemory(32_000).for_model(named("claude-sonnet-4-5"))
    view = memory.view(reporting(*ratios, cached=cached))
    return view.usage.input_tokens / memory.count(view.messages).tokens


def test_a_report_that_leaves_out_cached_tokens_corrects_as_one_that_has_them():
    assert corrected(1.3, 1.3, 1.3, cached=0.9) == corrected(1.3, 1.3, 1.3) > 1.2


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=6))
def test_a_correction_never_leaves_its_bounds_whatever_is_reported(ratios):
    assert 0.49 <= corrected(*ratios) <= 3.01


def test_a_new_correction_changes_no_byte_of_what_was_sent():
    memory = TokenMemory(TokenBudget(4_000, shares=Shares(message=0.6))).for_model(named())
    begun = [HumanMessage("Read it.", id="h"), *tool_round(0, SENTENCE * 400)]
    state, view = memory.compact_and_view(begun)
    for factor in (1.05, 1.1, 1.2):
        sent, used = list(view.messages), report(times(factor)(view.messages))
        begun.append(AIMessage("Yes.", id=f"a{factor}", usage_metadata=used))
        begun.append(HumanMessage("Go on.", id=f"h{factor}"))
        state, view = memory.compact_and_view(begun, state)
        assert view.messages[: len(sent)] == sent
    assert view.usage.input_tokens > 1.05 * memory.count(view.messages).tokens
