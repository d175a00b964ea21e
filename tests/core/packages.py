"""Packages with data about models, as LangChain's partner packages and LiteLLM bring them."""

from __future__ import annotations

import json
from pathlib import Path

PROFILES = {
    "langchain_openai": {
        "gpt-3.5-turbo": 16_385,
        "gpt-4": 8_192,
        "gpt-4o": 128_000,
        "gpt-4o-2024-08-06": 128_000,
        "gpt-4o-mini": 128_000,
        "gpt-image": 0,
    },
    "langchain_anthropic": {
        "claude-sonnet-4-5": 200_000,
        "claude-opus-4-20250514": 200_000,
        "claude-mythos-5": None,
    },
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


def install(folder: Path, *names: str) -> Path:
    """Put the data of packages into a folder; `litellm` is one of them."""
    for name in names:
        (folder / name / "data").mkdir(parents=True)
        if name == "litellm":
            file = folder / name / "model_prices_and_context_window_backup.json"
            file.write_text(json.dumps(LITELLM), encoding="utf-8")
            continue
        profiles = {
            model: {"max_input_tokens": window, "max_output_tokens": 4_000}
            for model, window in PROFILES[name].items()
        }
        text = f"_PROFILES: dict[str, dict] = {profiles!r}\n"
        (folder / name / "data" / "_profiles.py").write_text(text, encoding="utf-8")
    return folder
