"""Settings from keywords, environment and file, and the parts that they make."""

from __future__ import annotations

from typing import assert_type

from langchain_core.language_models import BaseChatModel

from langchain_tokenmem import (
    Recall,
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TokenMemorySettings,
    TranscriptStore,
)


def parts(model: BaseChatModel) -> None:
    """Make every part."""
    settings = TokenMemorySettings(budget=8_000, mode="code", store="sqlite://")
    assert_type(settings.budget.target, float)
    assert_type(settings.store(), TranscriptStore)
    assert_type(settings.recall(), Recall)
    assert_type(settings.memory(model, max_wait_s=5), TokenMemory)
    assert_type(settings.middleware(model), TokenMemoryMiddleware)
    assert_type(settings.saver(), TokenMemorySaver)
