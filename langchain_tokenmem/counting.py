"""Token counters: of a model, of a provider, and the interface of your own."""

from __future__ import annotations

from langchain_tokenmem.tokens.counters import TokenCount, TokenCounter, counter_for
from langchain_tokenmem.tokens.provider_counter import ProviderCounter

__all__ = [
    "ProviderCounter",
    "TokenCount",
    "TokenCounter",
    "counter_for",
]
