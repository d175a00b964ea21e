"""Conversation memory by token budget, for LangChain chains and LangGraph graphs and agents.

More names are in `counting`, `errors`, `events`, `graphs`, `modes`, `notes`, `recall`,
`summarizers`, `tools` and `types`. Names load on first use, so that importing the package stays
light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_tokenmem._lazy import loader

if TYPE_CHECKING:
    from langchain_tokenmem.adapters.agents.middleware import TokenMemoryMiddleware
    from langchain_tokenmem.adapters.chains.history import TokenMemoryChatHistory
    from langchain_tokenmem.adapters.chains.runnable import with_token_memory
    from langchain_tokenmem.adapters.checkpoints.saver import TokenMemorySaver
    from langchain_tokenmem.adapters.graphs.memory_nodes import (
        MemoryMessagesState,
        memory_input,
        memory_nodes,
    )
    from langchain_tokenmem.adapters.graphs.nodes import (
        CompactNode,
        MemoryNode,
        RecallNode,
        SummarizeNode,
    )
    from langchain_tokenmem.adapters.memory_tools import memory_tools
    from langchain_tokenmem.adapters.retriever import TranscriptRetriever
    from langchain_tokenmem.core.budget import TokenBudget
    from langchain_tokenmem.memory.token_memory import TokenMemory
    from langchain_tokenmem.notes.notebook import Notebook
    from langchain_tokenmem.recall.recall import Recall
    from langchain_tokenmem.settings.token_memory_settings import TokenMemorySettings
    from langchain_tokenmem.storage.transcript_store import TranscriptStore

__all__ = [
    "CompactNode",
    "MemoryMessagesState",
    "MemoryNode",
    "Notebook",
    "Recall",
    "RecallNode",
    "SummarizeNode",
    "TokenBudget",
    "TokenMemory",
    "TokenMemoryChatHistory",
    "TokenMemoryMiddleware",
    "TokenMemorySaver",
    "TokenMemorySettings",
    "TranscriptRetriever",
    "TranscriptStore",
    "memory_input",
    "memory_nodes",
    "memory_tools",
    "with_token_memory",
]

__getattr__, __dir__ = loader(
    __name__,
    {
        "CompactNode": "adapters.graphs.nodes",
        "MemoryMessagesState": "adapters.graphs.memory_nodes",
        "MemoryNode": "adapters.graphs.nodes",
        "Notebook": "notes.notebook",
        "Recall": "recall.recall",
        "RecallNode": "adapters.graphs.nodes",
        "SummarizeNode": "adapters.graphs.nodes",
        "TokenBudget": "core.budget",
        "TokenMemory": "memory.token_memory",
        "TokenMemoryChatHistory": "adapters.chains.history",
        "TokenMemoryMiddleware": "adapters.agents.middleware",
        "TokenMemorySaver": "adapters.checkpoints.saver",
        "TokenMemorySettings": "settings.token_memory_settings",
        "TranscriptRetriever": "adapters.retriever",
        "TranscriptStore": "storage.transcript_store",
        "memory_input": "adapters.graphs.memory_nodes",
        "memory_nodes": "adapters.graphs.memory_nodes",
        "memory_tools": "adapters.memory_tools",
        "with_token_memory": "adapters.chains.runnable",
    },
)
