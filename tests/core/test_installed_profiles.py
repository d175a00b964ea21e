"""A name tells a window by the data of installed packages; no table stands in the code."""

import json
from types import SimpleNamespace

import pytest

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core import chat_models
from langchain_tokenmem.core.chat_models import limits_of_name
from langchain_tokenmem.errors import ConfigurationError

PROFILES = {
    "langchain_openai": {"gpt-3.5-turbo": 16_385, "gpt-4": 8_192, "gpt-4o": 128_000}
    | dict.fromkeys(("gpt-4o-2024-08-06", "gpt-4o-mini"), 128_000)
    | {"gpt-image": 0},
    "langchain_anthropic": dict.fromkeys(("claude-sonnet-4-5", "claude-opus-4-20250514"), 200_000)
    | {"claude-mythos-5": None},
    "langchain_google_genai": {"gemini-2.5-pro": 1_048_576, "gemini-2.5-flash": 1_048_576},
    "langchain_openrouter": {"meta-llama/llama-3.3-70b-instruct": 131_072},
    "langchain_mistralai": {"mistral-large-latest": 262_144, "mistral-large-2411": 131_072},
}
LITELLM = {
    "sample_spec": {"max_input_tokens": "the most tokens of the input", "mode": "chat, ..."},
    "gpt-4o": {"max_input_tokens": 120_000, "max_output_tokens": 16_384, "mode": "chat"},
    "deepseek/deepseek-chat": {"max_input_tokens": 131_072, "mode": "chat"},
    "text-embedding-3-small": {"max_input_tokens": 8_191, "mode": "embedding"},
}


def install(folder, *names):
    """Put the data of packages into a folder; `litellm` is one of them."""
    for name in names:
        profiles = {
            model: {"max_input_tokens": window, "max_output_tokens": 4_000}
            for model, window in PROFILES.get(name, {}).items()
        }
        file, text = "data/_profiles.py", f"_PROFILES: dict[str, dict] = {profiles!r}\n"
        if name == "litellm":
            file, text = "model_prices_and_context_window_backup.json", json.dumps(LITELLM)
        (folder / name / "data").mkdir(parents=True)
        (folder / name / file).write_text(text, encoding="utf-8")
    return folder


def look_in(monkeypatch, *folders):
    """Let packages be looked for in these folders only; what Python imports stays as it is."""
    monkeypatch.setattr(chat_models, "sys", SimpleNamespace(path=[*map(str, folders)]))


@pytest.fixture
def _installed(tmp_path, monkeypatch):
    look_in(monkeypatch, install(tmp_path, *PROFILES))


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("gpt-4o", 128_000),
        ("openai:gpt-4o", 128_000),
        ("azure/gpt-4o", 128_000),
        ("gpt-35-turbo", 16_385),
        ("ft:gpt-4o-2024-08-06:shop::id", 128_000),
        ("gpt-4-0613", 8_192),
        ("google_genai:gemini-2.5-flash-preview-05-20", 1_048_576),
        ("anthropic/claude-sonnet-4.5", 200_000),
        ("claude-opus-4", 200_000),
        ("openrouter/anthropic/claude-sonnet-4.5:thinking", 200_000),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
        ("meta-llama/llama-3.3-70b-instruct:free", 131_072),
        ("mistral-large", 131_072),  # of the versions the smallest
    ],
)
def test_names_work_where_models_do(name, window):
    budget = TokenBudget.for_model(name)
    assert (budget.context_window, budget.model) == (window, name)
    assert budget.reserve_output == min(4_000, window // 10)
    assert TokenMemory(10_000_000).for_model(name).budget.context_window == window


WRONG = ["", "0", "free", "openai", "openai:gpt-4oo", "gpt4o", "azure/my-deployment", "gpt-image"]


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize("name", [*WRONG, "claude-mythos-5"])
def test_a_wrong_name_is_refused_with_what_to_do(name):
    with pytest.raises(ConfigurationError, match=r"Give it, TokenBudget.for_model\(.*context_win"):
        TokenBudget.for_model(name)
    assert TokenBudget.for_model(name, context_window=9_000).context_window == 9_000


def test_a_name_that_no_package_knows_says_which_to_install(tmp_path, monkeypatch):
    look_in(monkeypatch, "", tmp_path, tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match="such as langchain-openai, or litellm"):
        TokenBudget.for_model("openai:gpt-4o")
    install(tmp_path, "langchain_openai")  # in the same process, as a notebook does
    assert TokenBudget.for_model("openai:gpt-4o").context_window == 128_000


def test_litellms_list_is_read_and_of_two_packages_the_smaller_window_holds(tmp_path, monkeypatch):
    look_in(monkeypatch, install(tmp_path, "langchain_openai", "litellm"))
    assert TokenBudget.for_model("deepseek/deepseek-chat").context_window == 131_072
    assert TokenBudget.for_model("gpt-4o").context_window == 120_000
    assert limits_of_name("text-embedding-3-small") == {}
