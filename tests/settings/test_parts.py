"""The parts that settings make: on one store, with what was given."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel

from langchain_tokenmem import TokenBudget, TokenMemoryChatHistory, TokenMemorySettings
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.settings.groups import MiddlewareSettings

STORE = {"store": "sqlite://"}


def test_the_parts_work_together_on_one_store():
    settings = TokenMemorySettings(budget=4_000, recall=True, notes=True, **STORE)
    memory = settings.memory(max_wait_s=1)
    assert memory.recall is settings.recall()
    assert memory.recall.store is settings.store() is settings.saver().store
    assert memory.max_wait_s == 1
    model = FakeListChatModel(responses=["42"])
    agent = create_agent(model, middleware=[settings.middleware()], checkpointer=settings.saver())
    agent.invoke({"messages": "How many?"}, {"configurable": {"thread_id": "t", "user_id": "u"}})
    history = TokenMemoryChatHistory("t", memory=memory, store=settings.store(), user_id="u")
    assert [m.content for m in history.full_history()] == ["How many?", "42"]
    settings.notebook().add("Use tabs.", level="global", user_id="u")
    assert memory.notes.list(user_id="u")[0].content == "Use tabs."
    settings.close()


def test_a_model_without_a_profile_takes_its_limits_from_models():
    models = {"glm-*": {"max_input_tokens": 128_000, "max_output_tokens": 4_096}}
    settings = TokenMemorySettings(models=models)
    budget = settings.memory("zai:glm-4.7").budget
    assert (budget.context_window, budget.reserve_output) == (128_000, 4_096)
    assert TokenMemorySettings(models=models, budget={"model": "glm-4.7"}).memory().budget == (
        settings.memory("glm-4.7").budget
    )
    with pytest.raises(ConfigurationError, match="my-own"):
        settings.memory("my-own")
    given = TokenMemorySettings(models=models, budget=9_000).memory("glm-4.7").budget
    assert given.context_window == 9_000


class Unprofiled(FakeListChatModel):
    """A chat model that tells its name and no window."""

    model_name: str = "glm-4.7"


GLM = {"glm-*": {"max_input_tokens": 12_000, "max_output_tokens": 500}}


def windows_of(memory):
    """Return the windows that calls of models without and with a profile have."""
    told = FakeListChatModel(responses=["x"], profile={"max_input_tokens": 50_000})
    models = (Unprofiled(responses=["x"]), told, FakeListChatModel(responses=["x"]))
    return [memory.for_model(model).budget.context_window for model in models]


def test_limits_of_models_hold_for_each_model_that_is_called():
    given = TokenMemorySettings(models=GLM, budget=20_000)
    assert windows_of(given.memory()) == [12_000, 20_000, 20_000]
    assert windows_of(given.middleware().memory) == [12_000, 20_000, 20_000]
    own = given.memory(budget=TokenBudget(30_000))
    assert windows_of(own) == [12_000, 30_000, 30_000]


def test_without_a_window_the_memory_follows_the_model_that_is_called():
    settings = TokenMemorySettings(models=GLM, budget={"target": 0.35})
    assert windows_of(settings.memory()) == [12_000, 50_000, 16_384]
    called = settings.memory().for_model(Unprofiled(responses=["x"])).budget
    assert (called.target, called.reserve_output) == (0.35, 500)
    assert called == replace(settings.budget.made("glm-4.7", GLM), model=None)
    fixed = settings.memory(FakeListChatModel(responses=["x"], profile={"max_input_tokens": 9_000}))
    assert windows_of(fixed) == [9_000, 9_000, 9_000]


@pytest.mark.parametrize(("given", "meant"), [("false", None), (False, None), ("True", True)])
def test_limit_output_is_off_or_on_by_a_word_too(given, meant):
    assert MiddlewareSettings(limit_output=given).limit_output is meant
