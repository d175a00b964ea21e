"""Conversation memory by token budget, for LangChain chains and LangGraph graphs and agents.

Names load on first use, so that importing the package stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_tokenmem.adapters.agent_tools import (
        compact_conversation_tool,
        read_message_tool,
        record_decision_tool,
        set_goal_tool,
    )
    from langchain_tokenmem.adapters.agents.middleware import TokenMemoryMiddleware
    from langchain_tokenmem.adapters.chains.history import TokenMemoryChatHistory
    from langchain_tokenmem.adapters.chains.runnable import with_token_memory
    from langchain_tokenmem.adapters.checkpoints.saver import TokenMemorySaver
    from langchain_tokenmem.adapters.graphs.memory_nodes import (
        MemoryAgentState,
        MemoryMessagesState,
        memory_input,
        memory_nodes,
    )
    from langchain_tokenmem.adapters.graphs.nodes import (
        AfterModelNode,
        CompactNode,
        MemoryNode,
        RecallNode,
        SummarizeNode,
    )
    from langchain_tokenmem.adapters.memory_tools import memory_tools
    from langchain_tokenmem.adapters.pins import pin_update
    from langchain_tokenmem.adapters.retriever import TranscriptRetriever
    from langchain_tokenmem.core.budget import TokenBudget
    from langchain_tokenmem.core.profiles import LegalityProfile
    from langchain_tokenmem.core.trigger import Trigger
    from langchain_tokenmem.core.turn_memory_text import format_message_for_provider
    from langchain_tokenmem.core.view import Explanation, TokenUsage, View
    from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
    from langchain_tokenmem.core.working_notes.tool_kinds import ToolKinds
    from langchain_tokenmem.errors import ThreadConflictError
    from langchain_tokenmem.events import CompactCallbacks, CompactEvent
    from langchain_tokenmem.memory.token_memory import TokenMemory
    from langchain_tokenmem.notes.note import Note
    from langchain_tokenmem.notes.notebook import Notebook
    from langchain_tokenmem.notes.stores.json_store import JsonStore
    from langchain_tokenmem.notes.stores.sql_store import SqlStore
    from langchain_tokenmem.notes_state import TurnMemory
    from langchain_tokenmem.recall.chroma import ChromaIndex
    from langchain_tokenmem.recall.embeddings import HashingEmbeddings
    from langchain_tokenmem.recall.recall import Recall
    from langchain_tokenmem.recall.vector_store import VectorStoreIndex
    from langchain_tokenmem.recall.words import LexicalIndex
    from langchain_tokenmem.settings.token_memory_settings import TokenMemorySettings
    from langchain_tokenmem.state import MemoryState, RunningSummary
    from langchain_tokenmem.storage.transcript_store import TranscriptStore
    from langchain_tokenmem.tokens.base import TokenCount, TokenCounter
    from langchain_tokenmem.tokens.provider_counter import ProviderCounter
    from langchain_tokenmem.tokens.resolve import counter_for

__all__ = [
    "AfterModelNode",
    "ChromaIndex",
    "CompactCallbacks",
    "CompactEvent",
    "CompactNode",
    "Explanation",
    "HashingEmbeddings",
    "JsonStore",
    "LegalityProfile",
    "LexicalIndex",
    "MemoryAgentState",
    "MemoryMessagesState",
    "MemoryNode",
    "MemoryState",
    "ModeProfile",
    "Note",
    "Notebook",
    "ProviderCounter",
    "Recall",
    "RecallNode",
    "RunningSummary",
    "SqlStore",
    "SummarizeNode",
    "ThreadConflictError",
    "TokenBudget",
    "TokenCount",
    "TokenCounter",
    "TokenMemory",
    "TokenMemoryChatHistory",
    "TokenMemoryMiddleware",
    "TokenMemorySaver",
    "TokenMemorySettings",
    "TokenUsage",
    "ToolKinds",
    "TranscriptRetriever",
    "TranscriptStore",
    "Trigger",
    "TurnMemory",
    "VectorStoreIndex",
    "View",
    "compact_conversation_tool",
    "counter_for",
    "format_message_for_provider",
    "memory_input",
    "memory_nodes",
    "memory_tools",
    "pin_update",
    "read_message_tool",
    "record_decision_tool",
    "set_goal_tool",
    "with_token_memory",
]

_HOMES = {
    "AfterModelNode": "adapters.graphs.nodes",
    "ChromaIndex": "recall.chroma",
    "CompactCallbacks": "events",
    "CompactEvent": "events",
    "CompactNode": "adapters.graphs.nodes",
    "Explanation": "core.view",
    "HashingEmbeddings": "recall.embeddings",
    "JsonStore": "notes.stores.json_store",
    "LegalityProfile": "core.profiles",
    "LexicalIndex": "recall.words",
    "MemoryAgentState": "adapters.graphs.memory_nodes",
    "MemoryMessagesState": "adapters.graphs.memory_nodes",
    "MemoryNode": "adapters.graphs.nodes",
    "MemoryState": "state",
    "ModeProfile": "core.working_notes.mode_profiles",
    "Note": "notes.note",
    "Notebook": "notes.notebook",
    "ProviderCounter": "tokens.provider_counter",
    "Recall": "recall.recall",
    "RecallNode": "adapters.graphs.nodes",
    "RunningSummary": "state",
    "SqlStore": "notes.stores.sql_store",
    "SummarizeNode": "adapters.graphs.nodes",
    "ThreadConflictError": "errors",
    "TokenBudget": "core.budget",
    "TokenCount": "tokens.base",
    "TokenCounter": "tokens.base",
    "TokenMemory": "memory.token_memory",
    "TokenMemoryChatHistory": "adapters.chains.history",
    "TokenMemoryMiddleware": "adapters.agents.middleware",
    "TokenMemorySaver": "adapters.checkpoints.saver",
    "TokenMemorySettings": "settings.token_memory_settings",
    "TokenUsage": "core.view",
    "TranscriptRetriever": "adapters.retriever",
    "TranscriptStore": "storage.transcript_store",
    "Trigger": "core.trigger",
    "ToolKinds": "core.working_notes.tool_kinds",
    "TurnMemory": "notes_state",
    "VectorStoreIndex": "recall.vector_store",
    "View": "core.view",
    "compact_conversation_tool": "adapters.agent_tools",
    "counter_for": "tokens.resolve",
    "format_message_for_provider": "core.turn_memory_text",
    "memory_input": "adapters.graphs.memory_nodes",
    "memory_nodes": "adapters.graphs.memory_nodes",
    "memory_tools": "adapters.memory_tools",
    "pin_update": "adapters.pins",
    "read_message_tool": "adapters.agent_tools",
    "record_decision_tool": "adapters.agent_tools",
    "set_goal_tool": "adapters.agent_tools",
    "with_token_memory": "adapters.chains.runnable",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
