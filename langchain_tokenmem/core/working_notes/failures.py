"""Failures of tool calls, as a section shows them: the call, its first and its last error line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress

from langchain_core.messages import ToolMessage

from langchain_tokenmem.core.facts.call_kinds import CallKind, kind_of_command, path_of
from langchain_tokenmem.core.facts.sentences import one_line
from langchain_tokenmem.core.facts.tool_results import ends_of, error_lines
from langchain_tokenmem.core.working_notes.exit_codes import plain_result, reported_code
from langchain_tokenmem.core.working_notes.tool_effects import ToolEffect, is_refused

MAX_CALL = 120
"""Characters of a call."""
_MAX_LINE = 120
_TAIL = 2_000
_MAX_KEY = 200
_FEW_LINES = 2
_MAX_JSON = 200_000
_OUTPUTS = ("stdout", "output", "stderr", "error", "message")
"""Keys of a JSON object that hold the text of a result."""
_FRAME = re.compile(
    r"(?:\([\w.-]{1,40}\) ?)?[\w.@~:/-]{0,80}(?:[$#]|>{1,3})"
    r"|\((?:Open file|Current directory): [^\n]{0,300}\)"
)
"""A line that a shell, or SWE-agent's, puts behind any output: its prompt, file and folder."""


def call_name(effect: ToolEffect, args: Mapping[str, object]) -> tuple[str, str]:
    """Return a call on one line, and the key by which it is known when it is made again.

    A command is known by its first part before a pipe, a call about a file by tool and file, any
    other by tool and arguments.

    Args:
        effect: The effect of the call.
        args: Its arguments.
    """
    if effect.command:
        key = effect.command.partition(" | ")[0].replace("2>&1", "").strip()
        return one_line(effect.command, MAX_CALL), f"{effect.tool}: {key}"[:_MAX_KEY]
    path = path_of(args)
    about = path or json.dumps(args, ensure_ascii=False, default=str, sort_keys=True)
    told = one_line(f"{effect.tool} {about}" if args else effect.tool, MAX_CALL)
    return told, one_line(f"{effect.tool}: {about}", _MAX_KEY)


def failure_of_call(effect: ToolEffect, result: ToolMessage) -> str | None:
    """Return the first and the last error line of a call that failed; None where it did not.

    A command fails by its exit code; where none is told, a program that was run fails where its
    output ends with an error line. Any other call fails by status, or where its result begins as a
    refusal.

    Args:
        effect: The effect of the call.
        result: Its result.
    """
    text = plain_result(result)
    if effect.exit_code == 0 and result.status != "error":
        return None
    if not (
        result.status == "error" or effect.exit_code or _tells_of_failure(effect, result, text)
    ):
        return None
    ends = ends_of(_output_in(text))
    # A refusal says it at once, a traceback in the end.
    at_end = bool(effect.command) and (text.startswith("Traceback") or not is_refused(result))
    lines = [one for one in error_lines(ends) if not _is_frame(one)]
    lines = lines or _edge_line(ends, at_end=at_end)
    if not lines:
        return f"exit {effect.exit_code}" if effect.exit_code else "failed"
    lines = [one_line(line, _MAX_LINE) for line in lines]
    return lines[0] if lines[0] == lines[-1] else f"{lines[0]} | {lines[-1]}"


def _output_in(text: str) -> str:
    """Return the output in a result that is a JSON object: `{"stdout": "FAIL", "exit_code": 1}`."""
    if not (text.startswith("{") and len(text) <= _MAX_JSON):
        return text
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        said = (found.get(key) for key in _OUTPUTS)
        return "\n".join(one for one in said if isinstance(one, str) and one.strip()) or text
    return text


def _tells_of_failure(effect: ToolEffect, result: ToolMessage, text: str) -> bool:
    """Return whether the text of a result without an exit code tells of a failure."""
    refused = is_refused(result)
    if not effect.command:
        return refused
    if kind_of_command(effect.command) in {CallKind.READ, CallKind.SEARCH}:
        return refused and text.count("\n") < _FEW_LINES  # else it is what stands in a file
    return refused or bool(error_lines(text[-_TAIL:]))


def _is_frame(line: str) -> bool:
    """Return whether a line is a prompt, or says no more than the exit code."""
    return bool(_FRAME.fullmatch(line.strip())) or reported_code(line) is not None


def _edge_line(text: str, *, at_end: bool) -> list[str]:
    """Return the last line of a command's output, or the first of any other result."""
    lines = [line for line in text.splitlines() if line.strip() and not _is_frame(line)]
    return lines[-1:] if at_end else lines[:1]
