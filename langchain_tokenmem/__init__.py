"""Conversation memory by token budget, for LangChain chains and LangGraph graphs and agents.

Names load on first use, so that importing the package stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_tokenmem.core.budget import TokenBudget, TokenUsage
    from langchain_tokenmem.core.trigger import Trigger
    from langchain_tokenmem.core.view import View
    from langchain_tokenmem.doors.history import TokenMemoryChatHistory
    from langchain_tokenmem.doors.runnable import with_token_memory
    from langchain_tokenmem.events import CompactCallbacks, CompactEvent
    from langchain_tokenmem.memory import TokenMemory
    from langchain_tokenmem.state import MemoryState, RunningSummary
    from langchain_tokenmem.storage.transcripts import TranscriptStore

__all__ = [
    "CompactCallbacks",
    "CompactEvent",
    "MemoryState",
    "RunningSummary",
    "TokenBudget",
    "TokenMemory",
    "TokenMemoryChatHistory",
    "TokenUsage",
    "TranscriptStore",
    "Trigger",
    "View",
    "with_token_memory",
]

_HOMES = {
    "CompactCallbacks": "events",
    "CompactEvent": "events",
    "MemoryState": "state",
    "RunningSummary": "state",
    "TokenBudget": "core.budget",
    "TokenMemory": "memory",
    "TokenMemoryChatHistory": "doors.history",
    "TokenUsage": "core.budget",
    "TranscriptStore": "storage.transcripts",
    "Trigger": "core.trigger",
    "View": "core.view",
    "with_token_memory": "doors.runnable",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
