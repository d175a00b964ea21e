"""What the memory takes and returns: shares, rules, views, usage and states."""

from __future__ import annotations

from langchain_tokenmem.core.budget import Shares
from langchain_tokenmem.core.explanation import Explanation
from langchain_tokenmem.core.profiles import LegalityProfile
from langchain_tokenmem.core.request_options import RequestRules
from langchain_tokenmem.core.view import TokenUsage, View
from langchain_tokenmem.memory.background import BackgroundSummaries
from langchain_tokenmem.state import MemoryState, RunningSummary
from langchain_tokenmem.storage.redaction import RemovalReceipt

__all__ = [
    "BackgroundSummaries",
    "Explanation",
    "LegalityProfile",
    "MemoryState",
    "RemovalReceipt",
    "RequestRules",
    "RunningSummary",
    "Shares",
    "TokenUsage",
    "View",
]
