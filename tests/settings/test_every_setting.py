"""Every setting is taken from a keyword, the environment and a file, and makes the part."""

import inspect
import json
from datetime import timedelta
from typing import get_args

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel

from langchain_tokenmem import (
    Notebook,
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TokenMemorySettings,
    TranscriptStore,
)
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.modes import ModeProfile, ToolKinds, TurnMemorySettings
from langchain_tokenmem.recall import ChromaIndex
from langchain_tokenmem.recall.fusion import Boosts, Floor
from langchain_tokenmem.settings import groups
from langchain_tokenmem.settings.sources import settings_in, variable_of
from langchain_tokenmem.types import BackgroundSummaries, RequestRules, Shares

SETTINGS = {one.name: one for one in settings_in(TokenMemorySettings)}

# Values that no rule gives.
OTHERS = {
    "budget.target": 0.35,
    "budget.summarize_at": 0.9,
    "request.legality": "openai",
    "mode.name": "code",
    "notes.project": "shop",
    "recall.language": "german",
    "notes.language": "german",
    "recall.chroma.collection": "other",
    "store.url": "sqlite://",
    "middleware.name": "other",
    "middleware.agent_tools": ["memory"],
    "saver.transcript_channel": "talk",
}


def sample(setting):
    """Return a value other than the default, as a file holds it."""
    default, literals = setting.default, get_args(setting.field.annotation)
    if setting.name in OTHERS:
        return OTHERS[setting.name]
    if setting.field.examples:
        return setting.field.examples[0]
    if words := [one for one in literals if isinstance(one, str) and one != default]:
        return words[0]
    by_rule = {bool: lambda: not default, int: lambda: default + 1}
    return by_rule.get(type(default), lambda: round(default * 0.95, 6))()


def value_of(settings, path):
    """Return a value as a file holds it."""
    for key in path:
        fields = type(settings).model_fields
        attribute = next(name for name, field in fields.items() if (field.alias or name) == key)
        settings = getattr(settings, attribute)
    if isinstance(settings, dict):
        limits = groups.LimitSettings
        return {k: v.given() if isinstance(v, limits) else v for k, v in settings.items()}
    return f"P{settings.days}D" if isinstance(settings, timedelta) else settings


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_taken_from_keyword_environment_and_file(name, tmp_path):
    path, value = SETTINGS[name].path, sample(SETTINGS[name])
    assert value != SETTINGS[name].default
    whole = value
    for key in reversed(path):
        whole = {key: whole}
    variable, file = variable_of(path), tmp_path / "own.yaml"
    file.write_text(json.dumps(whole), encoding="utf-8")
    written = value if isinstance(value, str) else json.dumps(value)
    for place, keywords, environment in (
        (f"keyword {name}", whole, {}),
        (f"variable {variable}", {}, {variable: written}),
        (str(file), {}, {"TOKENMEM_CONFIG": str(file)}),
    ):
        with pytest.MonkeyPatch.context() as patch:
            for key, text in environment.items():
                patch.setenv(key, text)
            settings = TokenMemorySettings(**keywords)
        assert value_of(settings, path) == value, place
        places = [at for key, at in settings.places().items() if key[: len(path)] == path]
        assert places[0].startswith(place)


OBJECTS = {  # each group with its class, and the parameters that a file cannot hold
    groups.BudgetSettings: (TokenBudget, ""),
    groups.SharesSettings: (Shares, ""),
    groups.RequestSettings: (RequestRules, ""),
    groups.BackgroundSettings: (BackgroundSummaries, ""),
    groups.TurnMemoryGroup: (TurnMemorySettings, ""),
    groups.ToolKindsSettings: (ToolKinds, ""),
    groups.ModeSettings: (ModeProfile, ""),
    groups.StoreSettings: (TranscriptStore, "engine"),
    groups.FloorSettings: (Floor, ""),
    groups.BoostsSettings: (Boosts, ""),
    groups.ChromaSettings: (ChromaIndex, "client"),
    groups.RecallSettings: (Recall, "store count_tokens validate"),
    groups.NotebookSettings: (Notebook, "store before_store now"),
    groups.SaverSettings: (TokenMemorySaver, "store serde allowed_types before_store"),
    groups.MiddlewareSettings: (TokenMemoryMiddleware, "memory store"),
    TokenMemorySettings: (TokenMemory, "counter callbacks before_store modes now"),
}
OWN = {"store", "saver", "middleware"}  # of the settings, not of the memory


@pytest.mark.parametrize("group", OBJECTS, ids=lambda group: group.__name__)
def test_every_option_of_a_part_is_a_setting_with_the_same_default(group):
    part, objects = OBJECTS[group]
    options = inspect.signature(part).parameters
    fields = {field.alias or name: field for name, field in group.model_fields.items()}
    assert fields.keys() - OWN == options.keys() - {*objects.split()}
    for name in fields.keys() - OWN:
        own, theirs = fields[name].get_default(), options[name].default
        if isinstance(own, (bool, int, float, str)) and theirs not in (-1, inspect._empty):
            assert own == theirs, name


def test_the_parts_work_together_on_one_store():
    settings = TokenMemorySettings(budget=4_000, recall=True, notes=True, store="sqlite://")
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
    assert groups.MiddlewareSettings(limit_output=given).limit_output is meant
