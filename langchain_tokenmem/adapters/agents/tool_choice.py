"""Tools that the middleware gives an agent."""

from __future__ import annotations

from collections.abc import Callable, Collection

from langchain_core.tools import BaseTool

from langchain_tokenmem.adapters.agent_tools import (
    compact_conversation_tool,
    read_message_tool,
    record_decision_tool,
    set_goal_tool,
)
from langchain_tokenmem.adapters.memory_tools import MEMORY_TOOLS, memory_tools
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.notes.notebook import Notebook

AgentTools = bool | Collection[str]

_OF_A_MODE = frozenset({"record_decision", "set_goal"})


def chosen_tools(asked: AgentTools, name: str, memory: TokenMemory | None) -> list[BaseTool]:
    """Return the tools that an agent gets.

    Args:
        asked: Names of the tools; True for those of its own messages and, where the memory has a
            mode, of its working notes; False for none.
        name: Name of the middleware.
        memory: Has the notes and the recall, where it is given.

    Raises:
        ConfigurationError: When there is no tool of a name.
    """
    makers: dict[str, Callable[[], BaseTool]] = {
        "compact_conversation": lambda: compact_conversation_tool(name),
        "read_message": lambda: read_message_tool(name=name),
        "record_decision": record_decision_tool,
        "set_goal": set_goal_tool,
    }
    names = [*makers, *sorted(MEMORY_TOOLS)]
    has_mode = memory is not None and memory.engine.annotations.mode is not None
    usual = {*makers} if has_mode else {*makers} - _OF_A_MODE
    chosen = {*asked} if not isinstance(asked, bool) else usual if asked else set()
    if isinstance(asked, str) or chosen - {*names}:
        raise ConfigurationError(
            f"agent_tools is {asked!r}; it is True, False, or holds some of {', '.join(names)}."
        )
    kept = [make() for tool, make in makers.items() if tool in chosen]
    wanted: set[str] = chosen & MEMORY_TOOLS
    if wanted:
        before_store = memory.before_store if memory is not None else None
        notes = (memory and memory.notes) or Notebook(before_store=before_store)
        recall = memory.recall if memory is not None else None
        kept += memory_tools(notes, include=wanted, name=name, recall=recall)  # type: ignore[arg-type]
    return kept
