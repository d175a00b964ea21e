"""The door for agents that look after their own memory: two tools."""

from __future__ import annotations

from langchain_tokenmem.doors._agent_tools import compact_conversation_tool, read_message_tool

__all__ = ["compact_conversation_tool", "read_message_tool"]
