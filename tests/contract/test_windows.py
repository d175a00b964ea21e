"""One default window everywhere: that of the called model, by its profile, settings or name."""

import json
import sys

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import (
    TokenBudget,
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySettings,
    TranscriptStore,
    with_token_memory,
)
from langchain_tokenmem.counting import counter_for
from tests.contract.chats import Chat, Talker, Way
from tests.providers import StrictModel

SMALL, LARGE, UNKNOWN = 2_000, 60_000, 16_384


def long_talk() -> list[BaseMessage]:
    """Return a conversation of 20,000 tokens."""
    kinds = (HumanMessage, AIMessage)
    return [kinds[n % 2](f"{n}: {'word ' * 1_800}") for n in range(11)]


def model_of(window: int | None) -> Talker:
    return Talker(profile=None if window is None else {"max_input_tokens": window})


def chat_with_default_memory(way: Way, model: Talker) -> Chat:
    """Return a conversation with `TokenMemory()`, told its model where it cannot see it.

    A model without a window is not passed on.
    """
    memory = TokenMemory(background=False)
    if way.name in ("by-hand", "history") and model.profile:
        memory = memory.for_model(model)
    keywords = {"model": model} if way.name in ("node", "nodes") else {}
    return way.chat(memory, model=model, keywords=keywords)


def tokens_of(request: list[BaseMessage]) -> int:
    return counter_for("gpt-4o").count(request).tokens


@pytest.mark.parametrize("window", [SMALL, LARGE])
async def test_a_default_memory_has_the_window_of_the_called_model(way: Way, window: int):
    request = await chat_with_default_memory(way, model_of(window)).last(long_talk())
    assert tokens_of(request) <= window
    if window == LARGE:
        assert tokens_of(request) > 19_000, "all of it fits"


async def test_where_no_window_is_known_it_is_16384_tokens_with_one_warning(way: Way, caplog):
    chat = chat_with_default_memory(way, model_of(None))
    assert 3_000 < tokens_of(await chat.last(long_talk())) <= UNKNOWN
    await chat.ask("And now?")
    assert sum("16,384" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.slow
def test_without_any_argument_an_agent_and_a_chain_have_the_window_of_their_model():
    agent, chain = model_of(SMALL), model_of(SMALL)
    middleware = TokenMemoryMiddleware()
    create_agent(agent, middleware=[middleware]).invoke({"messages": long_talk()})
    with TranscriptStore("sqlite://") as store:
        session = {"configurable": {"session_id": "s"}}
        with_token_memory(chain, store=store).invoke(long_talk(), session)
    for model in (agent, chain):
        assert 500 < tokens_of(model.requests[-1]) <= SMALL


def test_each_model_that_a_default_memory_serves_has_its_own_window():
    memory = TokenMemory()
    windows = [memory.for_model(model_of(n)).budget.context_window for n in (SMALL, LARGE, None)]
    assert windows == [SMALL, LARGE, UNKNOWN]
    assert TokenMemory(9_000).for_model(model_of(LARGE)).budget.context_window == 9_000


NAMES = [
    ("gemini-3-flash", 1_048_576),
    ("gemini-3-pro-preview", 1_048_576),
    ("gemini-2.5-flash", 1_048_576),
    ("google_genai:gemini-2.5-flash-preview-09-2025", 1_048_576),
    ("gemini-2.5-pro", 1_048_576),
    ("vertex_ai/gemini-2.5-pro-preview-05-06", 1_048_576),
    ("gemini-2.0-flash-001", 1_048_576),
    ("glm-4.7", 128_000),
    ("zai/GLM-4.7-20260115", 128_000),
]


@pytest.mark.parametrize(("name", "window"), NAMES)
def test_the_listed_models_are_known_on_a_bare_install(name, window, monkeypatch):
    TokenMemory().count([])  # imports tiktoken, while it can be found
    monkeypatch.setattr(sys, "path", [])
    assert TokenBudget.for_model(name).context_window == window
    named = Talker(name_=name)  # a chat model that brings no profile
    assert TokenMemory().for_model(named).budget.context_window == window


def test_the_longest_answer_of_a_listed_model_bounds_the_output():
    model = StrictModel(family="gemini", name_="gemini-2.5-flash")
    agent = create_agent(model, middleware=[TokenMemoryMiddleware(limit_output=True)])
    agent.invoke({"messages": "Hi"})
    assert model.keywords[-1]["max_output_tokens"] == 8_192


def test_profiles_packages_and_settings_override_the_list(monkeypatch, tmp_path):
    told = Talker(name_="glm-4.7", profile={"max_input_tokens": 200_000})
    assert TokenMemory().for_model(told).budget.context_window == 200_000
    file = tmp_path / "litellm" / "model_prices_and_context_window_backup.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"glm-4.7": {"max_input_tokens": 202_752, "mode": "chat"}}))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert TokenBudget.for_model("glm-4.7").context_window == 202_752
    models = {"glm-4*": {"max_input_tokens": 9_000}}
    assert TokenBudget.for_model("openai:glm-4.7", models=models).context_window == 9_000
    assert TokenMemory(50_000, models=models).for_model("glm-4.7").limit_of({}) < 9_000
    settings = TokenMemorySettings(models={"glm-4.7": {"max_input_tokens": 96_000}})
    assert settings.memory("glm-4.7").budget.context_window == 96_000
    assert settings.memory().for_model(Talker(name_="glm-4.7")).budget.context_window == 96_000
