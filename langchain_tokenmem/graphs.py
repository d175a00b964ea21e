"""What your own graph may need in addition to the nodes."""

from __future__ import annotations

from langchain_tokenmem.adapters.graphs.memory_nodes import (
    MemoryAgentState,
    aexplain_call,
    explain_call,
)
from langchain_tokenmem.adapters.graphs.nodes import AfterModelNode
from langchain_tokenmem.adapters.stream_events import TokenMemoryTransformer
from langchain_tokenmem.core.pins import pin_update

__all__ = [
    "AfterModelNode",
    "MemoryAgentState",
    "TokenMemoryTransformer",
    "aexplain_call",
    "explain_call",
    "pin_update",
]
