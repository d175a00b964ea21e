"""Facts that were told once stand in the entry about a long run of tool calls."""

from __future__ import annotations

import random
import re
from itertools import chain

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_tokenmem.core.facts.reader import FactsReader
from langchain_tokenmem.core.facts.utterances import make_statement
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.extractive import ExtractiveSummarizer
from langchain_tokenmem.summarize.extractive.worth import Weighting
from tests.summarize.planted_facts import KINDS, make_facts
from tests.summarize.survival import Survival, plant_in_run


def count_text(text: str) -> int:
    """Count words and signs, digits in threes: near a tokenizer's count, and quick."""
    return len(re.findall(r"\d{1,3}|[^\W\d]{1,6}|[^\w\s]", text))


def tool_run(calls: int = 40) -> list[BaseMessage]:
    """Return a run of an agent: one request, then searches that list files and ids."""
    rng = random.Random(7)
    messages: list[BaseMessage] = [HumanMessage("Please find out why the import is slow.")]
    for number in range(calls):
        call = {"id": f"c{number}", "name": "bash", "args": {"command": f"grep -rn q{number} ."}}
        messages.append(AIMessage("Let me look at it.", tool_calls=[call]))
        rows = [f"src/part_{rng.getrandbits(24):06x}.py: {rng.getrandbits(32)}" for _ in range(12)]
        messages.append(ToolMessage("\n".join(rows), tool_call_id=f"c{number}"))
    return messages


@pytest.mark.slow
@pytest.mark.parametrize("by_user", [1.0, 0.0], ids=["by the user", "by the model"])
def test_facts_told_once_outrank_tool_traffic(by_user: float) -> None:
    survival = Survival()
    for seed in range(6):
        planted = plant_in_run(tool_run(), seed, by_user=by_user, by_tool=0)
        batch = list(chain.from_iterable(planted.rounds))
        request = SummaryRequest(batch, max_tokens=400, count_text=count_text)
        survival.add(planted, ExtractiveSummarizer().summarize(request).text)
    assert survival.mean >= 7.5


def test_facts_are_of_twenty_kinds_and_say_what_must_be_kept() -> None:
    facts = [fact for seed in range(40) for fact in make_facts(random.Random(seed))]
    assert {fact.kind for fact in facts} == set(KINDS)
    for fact in facts:
        assert all(one in text for text in fact.said for one in fact.literals)


CHOICES = (
    "Picked plain text over tables for the report.",
    "Kafka was ruled out because nobody here runs it.",
)
NO_CHOICES = (
    "Redis is a store for the session cache.",
    "I picked up where the last run stopped.",
)


@pytest.mark.parametrize("sentence", CHOICES + NO_CHOICES)
def test_a_choice_of_the_model_is_told_without_any_new_literal(sentence: str) -> None:
    statement = make_statement(sentence, 3, by_user=False, is_last=False)
    assert statement is not None
    assert Weighting(FactsReader()).tells(statement) is (sentence in CHOICES)
