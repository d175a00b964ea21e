"""The parts that settings make: on one store, with what was given."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel

from langchain_tokenmem import TokenMemoryChatHistory, TokenMemorySettings
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


@pytest.mark.parametrize(("given", "meant"), [("false", None), (False, None), ("True", True)])
def test_limit_output_is_off_or_on_by_a_word_too(given, meant):
    assert MiddlewareSettings(limit_output=given).limit_output is meant
