"""Settings of annotations: turn memory, working notes and times of messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from langchain_tokenmem.core.argument_checks import checked, checked_choice
from langchain_tokenmem.core.message_times import ShownTimes
from langchain_tokenmem.core.turn_memory import TurnMemoryShown
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile, mode_named
from langchain_tokenmem.core.working_notes.tool_kinds import ToolKinds
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.notes_state import ModesState

__all__ = ["AnnotationSettings", "ShownTimes", "TurnMemoryShown"]


@dataclass(frozen=True)
class AnnotationSettings:
    """Settings of what a request tells beside the messages: turn memory, working notes, times.

    Attributes:
        turn_memory: Assistant messages that show their turn memory.
        tools: Tools whose effects are kept.
        project_root: Folder that paths are relative to; None where none is known.
        include_partial: Whether interrupted and failed turns have a turn memory, too.
        mode: What sessions are watched for; None for nothing.
        modes: Further profiles of the application, to which a session can be switched.
        show_times: Messages that show their time; None for none.
        modes_on: Whether a session may have a mode at all.
    """

    turn_memory: TurnMemoryShown = "when_hidden"
    tools: ToolKinds = field(default_factory=ToolKinds)
    project_root: str | None = None
    include_partial: bool = False
    mode: ModeProfile | None = None
    modes: Sequence[ModeProfile] = ()
    show_times: ShownTimes | None = None
    modes_on: bool = True

    def __post_init__(self) -> None:
        for profile in self.modes:
            checked(profile, ModeProfile, "modes", 'modes=[ModeProfile("support")]')
        if self.show_times is not None:
            checked_choice(self.show_times, ShownTimes, "show_times")
        checked_choice(self.turn_memory, TurnMemoryShown, "turn_memory")
        checked(self.tools, ToolKinds, "tool_kinds", 'ToolKinds(writes={"save_page": "path"})')
        if self.project_root is not None:
            checked(self.project_root, str, "project_root", 'project_root="/app"')

    def mode_named(self, name: str) -> ModeProfile | None:
        """Return the mode of that name; None for an empty one.

        Raises:
            ConfigurationError: When there is none; the message lists them.
        """
        own = [*self.modes, *([self.mode] if self.mode else [])]
        return None if name == "" else mode_named(name, own=own)

    def mode_of(self, modes: ModesState | None, asked: str | None = None) -> ModeProfile | None:
        """Return the mode that is on in a session; None for none.

        Args:
            modes: What the session's state has of modes.
            asked: Name of the mode that a call asks for, empty for none; None where it asks for
                nothing: then the session's own mode holds, or else that of the memory.

        Raises:
            ConfigurationError: When there is no mode of the name that is asked for.
        """
        if not self.modes_on:
            return None
        if asked is not None:
            return self.mode_named(asked)
        chosen = modes.get("chosen") if modes else None
        if chosen is None:
            return self.mode
        try:
            return self.mode_named(chosen)
        except ConfigurationError:  # a profile of before, which the application has no more
            return self.mode
