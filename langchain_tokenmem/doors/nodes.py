"""The door for hand-made graphs, node by node."""

from __future__ import annotations

from langchain_tokenmem.doors._graph_nodes import (
    CompactNode,
    MemoryNode,
    RecallNode,
    SummarizeNode,
)

__all__ = ["CompactNode", "MemoryNode", "RecallNode", "SummarizeNode"]
