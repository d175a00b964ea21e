"""Outcomes of groups for turn memories: files that their calls changed, commands that failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_tokenmem.core.messages import MARKS, Group, marks_of
from langchain_tokenmem.core.turn_memory import (
    MARK,
    GroupOutcome,
    TurnReading,
    as_turn_memory,
    empty_memory,
    explicit_memory,
    is_empty,
    joined,
)
from langchain_tokenmem.core.working_notes.mode_profiles import AnnotationSettings
from langchain_tokenmem.core.working_notes.tool_kinds import (
    ToolEffect,
    ToolKinds,
    effects_of,
    plain_path,
)
from langchain_tokenmem.notes_state import FailedCommand, TurnMemory


def turn_reading(annotations: AnnotationSettings) -> TurnReading:
    """Return how turn memories are read and shown by the settings of a memory."""

    def outcomes(groups: Sequence[Group]) -> Mapping[str, GroupOutcome]:
        found = (
            (g.last_id, outcome_of(g, annotations.tools, annotations.project_root)) for g in groups
        )
        return {key: outcome for key, outcome in found if outcome is not None}

    return TurnReading(outcomes, annotations.turn_memory, annotations.include_partial)


def outcome_of(group: Group, kinds: ToolKinds, project_root: str | None) -> GroupOutcome | None:
    """Return the outcome of a group; None where a turn memory has nothing to tell of it.

    Args:
        group: A group as it stands in the transcript.
        kinds: Tools that write files or run commands.
        project_root: Folder that paths are relative to.
    """
    if len(group.messages) == 1:
        explicit = explicit_memory(group.messages[0])
        if explicit is None:
            return None
        return GroupOutcome(explicit=_with_plain_paths(explicit, project_root))
    memory, results = empty_memory(), []
    nested = {m.id: found for m in group.messages if (found := _of_sub_agent(m, project_root))}
    for effect in effects_of(group.messages, kinds, project_root):
        result = effect.result.id or ""
        told = [_memory_of(effect), *filter(None, [nested.pop(result, None)])]
        if not all(map(is_empty, told)):
            results.append(result)
            for one in told:
                memory = joined(memory, one)
    return None if is_empty(memory) else GroupOutcome(memory, tuple(results))


def _memory_of(effect: ToolEffect) -> TurnMemory:
    failed: list[FailedCommand] = []
    if effect.command and effect.exit_code:
        failed.append({"command": effect.command, "exit_code": effect.exit_code})
    return {"files_changed": [*effect.changed], "failed_commands": failed}


def _of_sub_agent(message: BaseMessage, project_root: str | None) -> TurnMemory | None:
    """Return the turn memory of a sub-agent, which its result holds in the artifact, or a mark."""
    if not isinstance(message, ToolMessage) or message.status == "error":
        return None
    places = [marks_of(message) if message.response_metadata else None, message.artifact]
    if isinstance(message.artifact, Mapping):
        places.append(message.artifact.get(MARKS))
    for place in places:
        if isinstance(place, Mapping) and MARK in place:
            return _with_plain_paths(as_turn_memory(place[MARK]), project_root)
    return None


def _with_plain_paths(memory: TurnMemory, project_root: str | None) -> TurnMemory:
    paths = (plain_path(path, project_root) for path in memory["files_changed"])
    files = [*dict.fromkeys(path for path in paths if path)]
    return {"files_changed": files, "failed_commands": memory["failed_commands"]}
