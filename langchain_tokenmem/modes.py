"""Modes of a session, kinds of tools, and turn memory."""

from __future__ import annotations

from langchain_tokenmem.core.turn_memory import format_message_for_provider
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.core.working_notes.tool_kinds import ToolKinds, TurnMemorySettings
from langchain_tokenmem.state import TurnMemory

__all__ = [
    "ModeProfile",
    "ToolKinds",
    "TurnMemory",
    "TurnMemorySettings",
    "format_message_for_provider",
]
