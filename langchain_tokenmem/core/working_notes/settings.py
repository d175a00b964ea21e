"""Settings of working notes: turn memory, mode and times, as a `TokenMemory` is given them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from langchain_tokenmem.core.argument_checks import checked
from langchain_tokenmem.core.message_times import ShownTimes
from langchain_tokenmem.core.turn_memory import TurnMemoryShown
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.core.working_notes.tool_kinds import ToolKinds
from langchain_tokenmem.errors import ConfigurationError

__all__ = ["NotesSettings", "ShownTimes", "TurnMemoryShown"]


@dataclass(frozen=True)
class NotesSettings:
    """Settings of working notes.

    Attributes:
        turn_memory: Assistant messages that show their turn memory.
        tools: Tools whose effects are kept.
        project_root: Folder that paths are relative to; None where none is known.
        include_partial: Whether interrupted and failed turns have a turn memory, too.
        mode: What sessions are watched for; None for nothing.
        show_times: Messages that show their time; None for none.
    """

    turn_memory: TurnMemoryShown = "when_hidden"
    tools: ToolKinds = field(default_factory=ToolKinds)
    project_root: str | None = None
    include_partial: bool = False
    mode: ModeProfile | None = None
    show_times: ShownTimes | None = None

    def __post_init__(self) -> None:
        if self.show_times not in {None, *get_args(ShownTimes)}:
            known = ", ".join(map(repr, get_args(ShownTimes)))
            raise ConfigurationError(f"show_times is {self.show_times!r}; known are None, {known}.")
        if self.turn_memory not in get_args(TurnMemoryShown):
            known = ", ".join(map(repr, get_args(TurnMemoryShown)))
            raise ConfigurationError(f"turn_memory is {self.turn_memory!r}; known are {known}.")
        checked(self.tools, ToolKinds, "tool_kinds", 'ToolKinds(writes={"save_page": "path"})')
        if self.project_root is not None:
            checked(self.project_root, str, "project_root", 'project_root="/app"')
