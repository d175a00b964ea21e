"""The parts that settings make: on one store, with what was given."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage

from langchain_tokenmem import (
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemorySettings,
    with_token_memory,
)
from langchain_tokenmem.adapters.chains.runnable import memory_for
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.recall import HashingEmbeddings
from langchain_tokenmem.types import Trigger

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


def test_memory_opens_no_store_where_nothing_needs_one(tmp_path):
    TokenMemorySettings().memory()
    assert list(tmp_path.iterdir()) == []


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


def test_the_profile_of_a_chat_model_gives_the_window():
    model = FakeListChatModel(responses=["x"], profile={"max_input_tokens": 50_000})
    settings = TokenMemorySettings(models={"*": {"max_input_tokens": 9_000}})
    assert settings.middleware(model).memory.budget.context_window == 50_000


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


def requests_of_router(settings, said):
    """Return the tokens of an agent's request to a model that a router has chosen."""
    sent = []

    class Router(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request.override(model=Unprofiled(responses=["Yes."])))

    class Last(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            sent.append(TokenMemory().count(request.messages).tokens)
            return handler(request)

    model = FakeListChatModel(responses=["No."])
    middleware = [Router(), settings.middleware(), Last()]
    create_agent(model, middleware=middleware).invoke({"messages": said})
    return sent[-1]


@pytest.mark.slow
def test_the_model_that_a_router_chooses_has_its_window_from_models():
    said = [HumanMessage("word " * 900) for _ in range(12)]
    assert 5_000 < requests_of_router(TokenMemorySettings(models=GLM, trigger=None), said) < 11_000
    few = TokenMemorySettings(models={"glm-*": {"max_input_tokens": 4_000}}, budget=50_000)
    assert requests_of_router(few, said) < 4_000


def test_the_model_of_a_chain_has_its_window_from_models():
    settings = TokenMemorySettings(models={"glm-*": {"max_input_tokens": 4_000}}, **STORE)
    chain = with_token_memory(
        Unprofiled(responses=["Yes."]), settings.memory(), settings.store(), limit_output=True
    )
    chain.invoke("word " * 9_000, {"configurable": {"session_id": "s"}})
    assert memory_for(chain.chain, settings.memory()).budget.context_window == 4_000
    settings.close()


def test_options_that_are_objects_go_to_the_part():
    settings = TokenMemorySettings(trigger={"messages": 40}, summarizer="extractive", **STORE)
    memory = settings.memory()
    assert memory.policy.trigger == Trigger(messages=40)
    assert settings.memory(trigger=None).policy.trigger is None
    assert settings.recall(count_tokens=len).count_tokens("four") == 4
    assert settings.recall() is settings.recall()
    settings.close()


@pytest.mark.slow
def test_chroma_of_the_settings_takes_embeddings_by_keyword(tmp_path):
    chroma = {"path": str(tmp_path / "chroma"), "embeddings": "nobody's"}
    settings = TokenMemorySettings(recall={"chroma": chroma}, **STORE)
    with pytest.raises(ConfigurationError, match="mbeddings"):
        settings.recall()
    recall = settings.recall(embeddings=HashingEmbeddings(dim=64))
    assert recall.search("x", session_id="s") == []
    recall.close()
    settings.close()


def test_a_mode_of_ones_own_and_a_changed_one():
    own = {"name": "support", "window": 20, "sections": ["facts"]}
    assert TokenMemorySettings(mode=own).memory().engine.annotations.mode.window == 20
    changed = (
        TokenMemorySettings(mode={"name": "code", "recall_k": 7}).memory().engine.annotations.mode
    )
    assert (changed.name, changed.recall_k, changed.window) == ("code", 7, 30)
