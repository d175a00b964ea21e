"""Effects of tool calls: files read and changed, commands with their exit codes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolEffect:
    """The effect of one tool call whose result is there.

    Attributes:
        tool: Name of the tool.
        call: Id of the message that made the call.
        result: Id of the message that holds its result.
        changed: Files that it wrote, deleted or moved; none where its result is an error.
        read: Files that it only looked at.
        command: The command that it ran, on one line; None where it ran none.
        exit_code: Exit code that was reported; None where none was.
        failure: The line that tells of a failure; None where it did not fail.
    """

    tool: str
    call: str
    result: str
    changed: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    command: str | None = None
    exit_code: int | None = None
    failure: str | None = None
