"""Tools for an agent to manage its own memory, in addition to `memory_tools`."""

from __future__ import annotations

from langchain_tokenmem.adapters.agent_tools import (
    compact_conversation_tool,
    read_message_tool,
    record_decision_tool,
    set_goal_tool,
)

__all__ = [
    "compact_conversation_tool",
    "read_message_tool",
    "record_decision_tool",
    "set_goal_tool",
]
