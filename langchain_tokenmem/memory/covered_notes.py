"""Working notes of messages that were summarized before a mode was on: read once, when it is.

A session whose memory had no mode yet, or that was switched to none, has covered messages that
nobody has read. They are still there: in the transcript, in a graph's messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.covered import covered_end
from langchain_tokenmem.core.messages import groups, spoken_messages
from langchain_tokenmem.core.numbers import numbered_messages
from langchain_tokenmem.core.working_notes.annotation_settings import AnnotationSettings
from langchain_tokenmem.core.working_notes.mode_profiles import new_modes_state
from langchain_tokenmem.core.working_notes.reading import read_groups
from langchain_tokenmem.state import MemoryState

MOST_READ = 2_000
"""Covered messages that are read, the newest: some 0.3 seconds, once in a session."""


def lacks_covered_notes(
    state: MemoryState, settings: AnnotationSettings, asked: str | None
) -> bool:
    """Return whether a mode is on in a session of which nothing was read, but much summarized.

    Args:
        state: The memory's state.
        settings: Settings of working notes.
        asked: Name of the mode that a call asks for; None where it asks for nothing.
    """
    modes = state.get("modes")
    is_unread = state["summary"] is not None and not (modes and modes["read_to"])
    return is_unread and settings.mode_of(modes, asked) is not None


def with_covered_notes(
    messages: Sequence[BaseMessage],
    state: MemoryState,
    settings: AnnotationSettings,
    asked: str | None,
) -> MemoryState:
    """Return the state with what was read of the messages that its summary covers.

    Args:
        messages: The conversation, oldest first, with the covered messages as far as they are kept.
        state: The memory's state.
        settings: Settings of working notes.
        asked: Name of the mode that a call asks for; None where it asks for nothing.

    Returns:
        The state; the same object where there is nothing to read.
    """
    summary, mode = state["summary"], settings.mode_of(state.get("modes"), asked)
    if summary is None or mode is None or not lacks_covered_notes(state, settings, asked):
        return state
    covered = spoken_messages(messages[: covered_end(messages, summary)])
    numbers = {one.id: number for number, one in numbered_messages(state, covered).items()}
    before = state.get("modes") or new_modes_state("" if asked is not None else mode.name)
    modes = read_groups(
        before,
        [
            [(one, numbers.get(one.id, 0)) for one in group.messages]
            for group in groups(covered[-MOST_READ:])
        ],
        tools=settings.tools,
        project_root=settings.project_root,
        limits=mode,
    )
    return state if modes is before else {**state, "modes": modes}
