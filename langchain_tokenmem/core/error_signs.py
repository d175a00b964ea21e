"""Signs by which a tool result is known to report an error."""

from __future__ import annotations

import re

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_tokenmem.core.messages import text_of

_WORDS = (
    r"(?:error|panic|fatal|stack ?trace|exception|undefined"
    r"|traceback(?: \(most recent call last\))?|[\w.$]*(?-i:Error|Exception)):"
    r"|cannot use\b|permission denied|not found|syntax error|compilation failed|build failed"
)
_INDENTED = r"^[^\S\n]*--- fail|^E  +\S"
_EXIT_CODE = r"\b(?:exit(?:ed)?|return(?:ed)?)(?: with)?[ _]?(?:code|status)[ :=]{1,3}-?[1-9]"

_ANYWHERE = re.compile(
    rf"(?:\b|(?<=\\n))(?:{_WORDS})|{_INDENTED}|{_EXIT_CODE}", re.IGNORECASE | re.MULTILINE
)
_AT_LINE_START = re.compile(
    r"^[^\w\n]{0,20}(?:Caused by: |Exception in thread \S{1,99} )?"
    r"(?:[\w./\\<>$-]{1,200}:(?:\d+:)* )?"
    rf"(?:{_WORDS})|{_INDENTED}",
    re.IGNORECASE | re.MULTILINE,
)
_SEARCHED = 20_000
"""Characters at either end of a result that are searched for lines that begin as an error."""

_EDGE_LINES, _EDGE = 5, 1_000
"""Lines at either end, and most characters of them, that are searched for a sign anywhere.

In the 3,301 results of the shared recordings, labelled by what their tools say of themselves, signs
anywhere in the text find 455 of 494 errors beside 77 plain results; at the ends, 455 beside 27. The
others are source code and documents that mention errors.
"""
_NUMBER = re.compile(r"-?[0-9]{1,10}")

EXIT_CODES = ("exit_code", "exitcode", "returncode", "return_code", "exitCode", "returnCode")
"""Names under which an exit code is reported."""


def is_error(message: BaseMessage) -> bool:
    """Return whether a tool result reports an error: by its status, its exit code, or its text.

    A sign counts where a line begins with it, with a place in front or without (`a.go:3:1: `), and
    anywhere in the first and last lines.
    """
    if isinstance(message, ToolMessage) and (
        message.status == "error" or exit_code_in(message.artifact)
    ):
        return True
    text = text_of(message)
    return any(
        _AT_LINE_START.search(part) or _ANYWHERE.search(edge)
        for part, edge in (
            (text[:_SEARCHED], "".join(text[:_EDGE].splitlines(keepends=True)[:_EDGE_LINES])),
            (text[-_SEARCHED:], "".join(text[-_EDGE:].splitlines(keepends=True)[-_EDGE_LINES:])),
        )
    )


def exit_code_in(report: object) -> int | None:
    """Return the exit code that a dict or an object reports under a usual name; None for none."""
    codes = (
        report.get(name) if isinstance(report, dict) else getattr(report, name, None)
        for name in EXIT_CODES
    )
    return next((number for code in codes if (number := _as_number(code)) is not None), None)


def _as_number(code: object) -> int | None:
    if isinstance(code, str) and _NUMBER.fullmatch(code):
        return int(code)
    return code if type(code) is int else None
