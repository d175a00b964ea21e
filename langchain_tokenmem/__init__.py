"""Conversation memory by token budget, for LangChain chains and LangGraph graphs and agents.

Names load on first use, so that importing the package stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_tokenmem.core.budget import TokenBudget, TokenUsage
    from langchain_tokenmem.core.explanation import Explanation
    from langchain_tokenmem.core.profiles import LegalityProfile
    from langchain_tokenmem.core.trigger import Trigger
    from langchain_tokenmem.core.view import View
    from langchain_tokenmem.doors.graph import (
        MemoryAgentState,
        MemoryMessagesState,
        memory_input,
        memory_nodes,
    )
    from langchain_tokenmem.doors.history import TokenMemoryChatHistory
    from langchain_tokenmem.doors.middleware import TokenMemoryMiddleware
    from langchain_tokenmem.doors.nodes import CompactNode, MemoryNode, RecallNode, SummarizeNode
    from langchain_tokenmem.doors.retriever import TranscriptRetriever
    from langchain_tokenmem.doors.runnable import with_token_memory
    from langchain_tokenmem.doors.saver import TokenMemorySaver
    from langchain_tokenmem.doors.tools import compact_conversation_tool, read_message_tool
    from langchain_tokenmem.errors import ThreadConflictError
    from langchain_tokenmem.events import CompactCallbacks, CompactEvent
    from langchain_tokenmem.memory import TokenMemory
    from langchain_tokenmem.recall.chroma import ChromaIndex
    from langchain_tokenmem.recall.embeddings import HashingEmbeddings
    from langchain_tokenmem.recall.engine import Recall
    from langchain_tokenmem.recall.lexical import LexicalIndex
    from langchain_tokenmem.state import MemoryState, RunningSummary
    from langchain_tokenmem.storage.transcripts import TranscriptStore

__all__ = [
    "ChromaIndex",
    "CompactCallbacks",
    "CompactEvent",
    "CompactNode",
    "Explanation",
    "HashingEmbeddings",
    "LegalityProfile",
    "LexicalIndex",
    "MemoryAgentState",
    "MemoryMessagesState",
    "MemoryNode",
    "MemoryState",
    "Recall",
    "RecallNode",
    "RunningSummary",
    "SummarizeNode",
    "ThreadConflictError",
    "TokenBudget",
    "TokenMemory",
    "TokenMemoryChatHistory",
    "TokenMemoryMiddleware",
    "TokenMemorySaver",
    "TokenUsage",
    "TranscriptRetriever",
    "TranscriptStore",
    "Trigger",
    "View",
    "compact_conversation_tool",
    "memory_input",
    "memory_nodes",
    "read_message_tool",
    "with_token_memory",
]

_HOMES = {
    "ChromaIndex": "recall.chroma",
    "CompactCallbacks": "events",
    "CompactEvent": "events",
    "CompactNode": "doors.nodes",
    "Explanation": "core.explanation",
    "HashingEmbeddings": "recall.embeddings",
    "LegalityProfile": "core.profiles",
    "LexicalIndex": "recall.lexical",
    "MemoryAgentState": "doors.graph",
    "MemoryMessagesState": "doors.graph",
    "MemoryNode": "doors.nodes",
    "MemoryState": "state",
    "Recall": "recall.engine",
    "RecallNode": "doors.nodes",
    "RunningSummary": "state",
    "SummarizeNode": "doors.nodes",
    "ThreadConflictError": "errors",
    "TokenBudget": "core.budget",
    "TokenMemory": "memory",
    "TokenMemoryChatHistory": "doors.history",
    "TokenMemoryMiddleware": "doors.middleware",
    "TokenMemorySaver": "doors.saver",
    "TokenUsage": "core.budget",
    "TranscriptRetriever": "doors.retriever",
    "TranscriptStore": "storage.transcripts",
    "Trigger": "core.trigger",
    "View": "core.view",
    "compact_conversation_tool": "doors.tools",
    "memory_input": "doors.graph",
    "memory_nodes": "doors.graph",
    "read_message_tool": "doors.tools",
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
