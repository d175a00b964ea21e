"""Counters for any model name; context windows from the model's own profile."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.prompts import ChatPromptTemplate

from langchain_tokenmem import TokenBudget
from langchain_tokenmem.tokens.counters import _family_of, counter_for

EXACT = {
    "o200k_base": (
        "gpt-4o chatgpt-4o-latest gpt-4.1-nano gpt-5.2-pro o1-preview o3-mini gpt-4.5-preview "
        "openai:gpt-4o azure/gpt-4o ft:gpt-4o-mini:acme::id GPT-4o gpt-oss-120b"
    ),
    "cl100k_base": "gpt-4 gpt-4-turbo gpt-4-0613 gpt-3.5-turbo gpt-35-turbo-16k azure/gpt-4-32k",
}
OTHERS = (
    "claude-sonnet-4-5 anthropic:claude-3-haiku us.anthropic.claude-opus-4-1-v1:0 gemini-2.5-pro "
    "models/gemini-3-flash gemma-3-27b mistral-large-latest meta-llama/Llama-3.3-70B llama3.2:8b "
    "qwen3:32b deepseek-chat grok-4 command-r-plus us.meta.llama3-70b-instruct-v1:0 kimi-k2"
)


@pytest.mark.parametrize("encoding", EXACT)
def test_models_of_openai_are_counted_exactly(encoding):
    counters = [counter_for(name) for name in EXACT[encoding].split()]
    assert {counter.method for counter in counters} == {"exact"}
    assert {counter.id.partition("/")[0] for counter in counters} == {encoding}


@pytest.mark.parametrize("name", OTHERS.split())
def test_models_of_other_vendors_get_estimates_on_the_safe_side(name, caplog):
    counter = counter_for(name)
    said = "Yesterday we discussed the architecture of the new system. " * 20
    assert counter.method == "estimate"
    assert counter.count([HumanMessage(said)]).accuracy > 0
    assert counter.text(said) >= 1.1 * counter_for(None).text(said)
    assert caplog.records == []


def test_unknown_model_names_work_with_one_warning(caplog):
    caplog.set_level(logging.WARNING)
    _family_of.cache_clear()
    for _ in range(3):
        assert counter_for("my-company-model-7").count([HumanMessage("hi")]).tokens > 3
    assert counter_for("my-company-model-7").method == "estimate"
    assert [("my-company-model-7" in record.message) for record in caplog.records] == [True]


def test_no_model_is_exact_o200k():
    counter = counter_for(None)
    assert counter is counter_for(None)
    assert counter.method == "exact"
    assert counter.count([HumanMessage("hi")]).accuracy == 0.0
    assert int(counter.count([HumanMessage("hi")])) == 8


PROMPT = ChatPromptTemplate.from_messages([("user", "{q}")])


class NamedModel(FakeListChatModel):
    model_name: str = "gpt-4o"


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda model: model,
        lambda model: model.with_fallbacks([NamedModel(responses=["b"])]),
        lambda model: (PROMPT | model.bind(stop=["x"])).with_retry().with_config(tags=["x"]),
    ],
)
def test_counter_and_window_of_a_model_are_found_inside_wrappers(wrapped):
    model = wrapped(NamedModel(responses=["a"], profile={"max_input_tokens": 123_456}))
    assert counter_for(model) is counter_for("gpt-4o")
    assert TokenBudget.for_model(model).context_window == 123_456


def test_the_page_about_counting_names_every_rule():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "counting.md").read_text(encoding="utf-8")
    for module in ("content", "media"):
        source = (root / "langchain_tokenmem" / "tokens" / f"{module}.py").read_text("utf-8")
        for names, values in re.findall(r"^([A-Z][A-Z_, ]+) = ([^\n]+)$", source, re.MULTILINE):
            for name in names.split(", "):
                assert f"`{name}`" in page, f"{name} = {values} is not documented"
