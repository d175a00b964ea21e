"""Counts, window and corrections of the model that is called."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.chat_models import window_of
from langchain_tokenmem.tokens.counters import counter_for
from langchain_tokenmem.types import Shares
from tests.contract.chats import Talker

SENTENCE = "The parcel with the two lamps goes to Bonn and not to Cologne. "
CODE = 'def send(parcel, *, to="Bonn"):\n    return {"id": parcel["id"], "to": to}\n'


def named(name: str = "", **fields: Any) -> Talker:
    return Talker(name_=name, **fields)


def usage(memory: TokenMemory):
    return memory.view([HumanMessage(SENTENCE * 20)]).usage


@pytest.mark.parametrize("name", ["", "somebodys-model-7"])
def test_a_model_whose_vocabulary_is_not_known_is_never_counted_exactly(name):
    assert usage(TokenMemory(8_000).for_model(named(name))).is_estimate is True
    exact = TokenMemory(TokenBudget(8_000, model="gpt-4o")).for_model(named(name))
    assert usage(exact).is_estimate is True
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


def cl100k_plus(message: BaseMessage) -> int:
    """A provider's own count: 30 % more than ours."""
    return round(1.3 * counter_for(None).message(message))


def talk(
    memory: TokenMemory, turns: int, state: Any = None, said: Any = (), true=cl100k_plus, **meta
):
    """Return messages, state, and the error of each request, where replies report the truth."""
    messages, errors = list(said), []
    for _ in range(turns):
        number = len(messages)
        messages.append(HumanMessage(f"{number}: " + SENTENCE * 10, id=f"h{number}"))
        state, view = memory.compact_and_view(messages, state)
        tokens = 3 + sum(map(true, view.messages))
        errors.append((view.usage.input_tokens - tokens) / tokens)
        reported = {"input_tokens": tokens, "output_tokens": 9, "total_tokens": tokens + 9}
        answer = f"{number}: " + CODE * 5
        messages.append(
            AIMessage(answer, id=f"a{number}", usage_metadata=reported, response_metadata=meta)
        )
    return messages, state, errors


@pytest.mark.slow
def test_no_request_is_under_the_truth_by_more_than_the_margin():
    dear = lambda message: round(1.15 * counter_for(None).message(message))  # noqa: E731
    memory = TokenMemory(8_000).for_model(named())
    messages, state = [], None
    for turn in range(40):
        messages.append(HumanMessage(f"{turn}: " + SENTENCE * (turn % 7) * 12, id=f"h{turn}"))
        state, view = memory.compact_and_view(messages, state)
        tokens = 3 + sum(map(dear, view.messages))
        assert tokens - view.usage.input_tokens <= 0.1 * 8_000
        assert tokens + view.usage.parts["reserved_output"] <= 8_000
        reported = {"input_tokens": tokens, "output_tokens": 9, "total_tokens": tokens + 9}
        messages.append(AIMessage(CODE * 9, id=f"a{turn}", usage_metadata=reported))


@pytest.mark.slow
def test_corrections_are_forgotten_when_the_model_changes():
    dear = TokenMemory(8_000).for_model(named("somebodys-a"))
    messages, state, _ = talk(dear, 30)
    question = [*messages, HumanMessage("And now?", id="q")]
    plain = TokenMemory(8_000).for_model(named("somebodys-b"))
    new, view = plain.compact_and_view(question, state)
    assert view.usage.input_tokens == plain.count(view.messages).tokens
    assert new["reports"]["model"] == "somebodys-b"
    assert new["reports"]["ratio"] is None
    # and replies of the one before do not count for the new one later
    cheap = lambda message: round(0.9 * counter_for(None).message(message))  # noqa: E731
    _, _, errors = talk(plain, 8, new, question, true=cheap)
    assert max(map(abs, errors[4:])) < 0.03


def reporting(*ratios: float, cached: float = 0.0) -> list[BaseMessage]:
    """Return a talk; each reply reports the tokens of its request times one of the ratios.

    The share that came from the provider's cache is reported beside the others.
    """
    said: list[BaseMessage] = []
    for number, ratio in enumerate(ratios):
        said.append(HumanMessage(f"{number} " + SENTENCE * 20, id=f"h{number}"))
        tokens = round(ratio * counter_for("claude-sonnet-4-5").count(said).tokens)
        read = round(cached * tokens)
        used: Any = {"input_tokens": tokens - read, "output_tokens": 9, "total_tokens": tokens + 9}
        used["input_token_details"] = {"cache_read": read}
        meta = {"model_name": "claude-sonnet-4-5"}
        said.append(AIMessage("Yes.", id=f"a{number}", usage_metadata=used, response_metadata=meta))
    return [*said, HumanMessage("And now?", id="q")]


def corrected(*ratios: float, cached: float = 0.0) -> float:
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
    giant = ToolMessage(SENTENCE * 400, tool_call_id="c", id="t")
    call = AIMessage("", id="c0", tool_calls=[{"name": "read", "args": {}, "id": "c"}])
    begun = [HumanMessage("Read it.", id="h"), call, giant]
    state, view = memory.compact_and_view(begun)
    sent = list(view.messages)
    for factor in (1.05, 1.1, 1.2):
        true = round(factor * counter_for(None).count(sent).tokens)
        reported = {"input_tokens": true, "output_tokens": 9, "total_tokens": true + 9}
        begun.append(AIMessage("Yes.", id=f"a{factor}", usage_metadata=reported))
        begun.append(HumanMessage("Go on.", id=f"h{factor}"))
        state, view = memory.compact_and_view(begun, state)
        assert view.messages[: len(sent)] == sent
        sent = list(view.messages)
    assert view.usage.input_tokens > 1.05 * memory.count(view.messages).tokens
