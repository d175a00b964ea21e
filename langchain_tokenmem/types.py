"""What the memory takes and returns: triggers, views, usage, states and provider rules."""

from __future__ import annotations

from langchain_tokenmem.core.profiles import LegalityProfile
from langchain_tokenmem.core.trigger import Trigger
from langchain_tokenmem.core.view import Explanation, TokenUsage, View
from langchain_tokenmem.state import MemoryState, RunningSummary

__all__ = [
    "Explanation",
    "LegalityProfile",
    "MemoryState",
    "RunningSummary",
    "TokenUsage",
    "Trigger",
    "View",
]
