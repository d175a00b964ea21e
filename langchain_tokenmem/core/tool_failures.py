"""Failures of tool calls: whether a result reports one, by status, exit code or text.

A failure shows in the status, in an exit code, or in the text: by a sign of an error in it, or by
its beginning. The lines that report it are found by `core.facts.tool_results`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_tokenmem.core.messages import text_of

NO_FIGURE = r"(?!:\s*(?:none\b|[-+±]?\d+(?:\.\d|\s*%?\s*$)))"
"""Not before `: 0.21` or `: none`: `Mean absolute error: 0.21` reports a figure, no error."""

_WORDS = (
    r"(?:error|panic|fatal|stack ?trace|exception|undefined"
    rf"|traceback(?: \(most recent call last\))?|[\w.$]*(?-i:Error|Exception)){NO_FIGURE}:"
    r"|cannot use\b|permission denied|not found|syntax error|compilation failed"
    r"|build fail(?:ed|ure)|connection refused"
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
"""Characters at either end of a result that are searched for lines that begin like an error."""

_EDGE_LINES, _EDGE = 5, 1_000
"""Lines at either end, and their maximum characters, that are searched for a sign anywhere.

In the 3,301 results of the shared recordings, labelled by what the tools themselves report, signs
anywhere in the text find 455 of 494 errors and 77 normal results; at the ends, 455 and 27. The
normal results are source code and documents that mention errors.
"""

_PROGRAM = r"(?:[\w./~(,)-]{1,80}: (?:(?:line )?\d+: )?){0,3}?(?:\(\d+\) )?"
"""Programs and lines before the text of an error: `/bin/sh: 1: cd: `, `curl: (6) `."""
_REFUSED = re.compile(
    rf"\W{{0,20}}{_PROGRAM}(?:"
    r"(?:(?:an?(?: unexpected)?|there was an|internal server|mcp|http) )?"
    rf"[\w.]{{0,60}}(?:error|exception)\b{NO_FIGURE}"
    r"(?= ?[:()\[>]| -?\d{3,6}\b| (?:in|at|occurred)\b| (?!handling)\w+ing\b| \w*\d:|\W*$)"
    r"|errno \d|net::err_|(?:unauthorized|forbidden)\W*$|timeout(?::| after )"
    r"|automatic merge failed|aborted \(core|\S{1,60} is not a valid tool|no match found"
    r"|connection re(?:fused|set)"
    r"|(?:fehler|erreur) ?[:(]|zugriff verweigert|accès refusé|acceso denegado|no se encontr"
    r"|fail(?:ed|ure)\b|fatal\b|invalid\b|cannot\b|can't\b|couldn't\b|could not\b|unable to\b"
    r"|no such\b|not found\b|permission denied|access denied|segmentation fault|traceback\b"
    r"|\d+ validation errors?|(?:\w+ )?limit exceeded|npm err|\*\*\* "
    r"|your proposed edit has introduced|no replacement was performed|unknown tool"
    r"|security violation|interrupted\b|tool call \S{1,80} (?:with id \S{1,80} )?was cancell?ed"
    r"|(?:the )?user (?:rejected|denied|declined|doesn't want)|tool_use_error|edit failed"
    r"|no (?:changes|edits?) (?:were|was) (?:made|applied)|(?:file|string|path|text) \S{0,80} ?"
    r"(?:was |is |does )?not (?:be )?(?:found|exist))|\W{0,5}\"?(?:is_?error|error)\"? ?[:=] ?true"
    r"|\{[^\[\]]{0,300}(?:[\"'](?:is_?)?error(?:_?message|s)?[\"'] ?: ?"
    r"(?:true|[\[{]{0,2}[\"'](?!none\b|ok\b|no error|[\"']))"
    r"|[\"'](?:message|detail)[\"'] ?: ?[\"']not found"
    r"|\"(?:ok|success)\" ?: ?false)",
    re.IGNORECASE | re.MULTILINE,
)
_REFUSED_CHARACTERS = 500

_NUMBER = re.compile(r"-?[0-9]{1,10}")

_EXIT_CODES = ("exit_code", "exitcode", "returncode", "return_code", "exitCode", "returnCode")
"""Names under which an exit code is reported."""
_NESTED = ("metadata", "result", "output", "data")
"""Keys of JSON objects that may contain the exit code of a result."""
MAX_JSON = 200_000
"""Maximum characters of a result that is read as JSON."""
_EXIT_EDGE = 600
_LONGEST_LINE = 200
_REPORT = re.compile(
    r"\W{0,8}(?:\w{1,20}>\s?)?(?:(?:the|command|process|program|script|shell|tool|task|job|completed|finished|failed"
    r"|terminated|ended|with|has|an?|error|non-?zero)[ :,]{1,3}){0,8}"
    r"(?:exit|return)(?:ed)?(?:[ _-]?(?:with )?(?:an? )?(?:exit |return )?(?:code|status)| with)"
    r"(?: was| is| of)?[\"' :=>(]{1,4}(-?\d{1,10})\b"
    r"(?:\s*[(\[,;-].{0,80}|\W{0,8}(?:</\w{1,20}>)?\W*)",
    re.IGNORECASE,
)
_WRAPPED = re.compile(r"\"(?:text|content)\"\s*:")
_WRAPPERS = frozenset(
    {"type", "text", "annotations", "meta", "_meta", "content", "structuredContent"}
    | {"isError", "error"}
)
_MCP_ERROR = re.compile(r"\"isError\"\s*:\s*true")
_MAX_WRAPPERS = 3


def reports_error(message: ToolMessage) -> bool:
    """Return whether the status or the exit code of a result says that its call failed."""
    return message.status == "error" or bool(_exit_code_in(message.artifact))


def is_error(message: BaseMessage) -> bool:
    """Return whether a tool result reports an error: by its status, its exit code, or its text.

    A sign counts at the beginning of a line, also after a location (`a.go:3:1: `), and
    anywhere in the first and last lines.
    """
    if isinstance(message, ToolMessage) and (reports_error(message) or exit_code_of(message)):
        return True
    text = plain_result(message)
    return any(
        _AT_LINE_START.search(part) or _ANYWHERE.search(edge)
        for part, edge in (
            (text[:_SEARCHED], "".join(text[:_EDGE].splitlines(keepends=True)[:_EDGE_LINES])),
            (text[-_SEARCHED:], "".join(text[-_EDGE:].splitlines(keepends=True)[-_EDGE_LINES:])),
        )
    )


def is_refused(result: ToolMessage) -> bool:
    """Return whether a write was refused: by status, exit code, or the beginning of its result.

    Only the beginning is searched: what follows is often the file itself, which may mention other
    errors.
    """
    return reports_error(result) or _is_mcp_error(result) or is_refusal(plain_result(result))


def is_refusal(text: str) -> bool:
    """Return whether a text begins like an error, also after a program: `ls: cannot access`."""
    return bool(_REFUSED.match(text[:_REFUSED_CHARACTERS]))


def _is_mcp_error(result: ToolMessage) -> bool:
    """Return whether the JSON around the text of a result says that it is an error."""
    text = text_of(result).strip()
    ends = text[:_EXIT_EDGE], text[-_EXIT_EDGE:]
    return text.startswith("{") and any(map(_MCP_ERROR.search, ends))


def _exit_code_in(report: object) -> int | None:
    """Return the exit code that a dict or an object has under a usual name, or None."""
    codes = (
        report.get(name) if isinstance(report, dict) else getattr(report, name, None)
        for name in _EXIT_CODES
    )
    return next((number for code in codes if (number := _as_number(code)) is not None), None)


def _as_number(code: object) -> int | None:
    if isinstance(code, str) and _NUMBER.fullmatch(code):
        return int(code)
    return code if type(code) is int else None


def exit_code_of(message: ToolMessage) -> int | None:
    """Return the exit code that a result reports, or None.

    It is in the artifact (`exit_code`, `returncode`), in JSON content, or in the first or the
    last line: `Exit code: 1`, `[The command completed with exit code 1.]`.
    """
    code = _exit_code_in(message.artifact)
    if code is not None:
        return code
    text = plain_result(message)
    found = json_in(text)
    if isinstance(found, dict):
        places = [found, *(found[key] for key in _NESTED if isinstance(found.get(key), dict))]
        codes = (code for one in places if (code := _exit_code_in(one)) is not None)
        if (code := next(codes, None)) is not None:
            return code
    lines = [*text[:_EXIT_EDGE].splitlines()[:1], *text[-_EXIT_EDGE:].rstrip().splitlines()[-1:]]
    return next((code for line in lines if (code := reported_code(line)) is not None), None)


def reported_code(line: str) -> int | None:
    """Return the exit code of a line that reports nothing else, or None."""
    match = _REPORT.fullmatch(line.strip()) if len(line) <= _LONGEST_LINE else None
    return int(match[1]) if match else None


def plain_result(message: BaseMessage) -> str:
    """Return the text of a result without the JSON that MCP servers send it in."""
    return unwrapped(text_of(message).strip())


def unwrapped(text: str) -> str:
    """Return the text inside the JSON of MCP servers, which may be wrapped several times.

    Example:
        >>> unwrapped('{"content": [{"type": "text", "text": "3 rows"}]}')
        '3 rows'
    """
    for _ in range(_MAX_WRAPPERS):
        text = _unquoted(text)
        found = json_in(text) if _WRAPPED.search(text[:_EXIT_EDGE]) else None
        if isinstance(found, Mapping):
            if not found.keys() <= _WRAPPERS or found.get("error"):
                return text
            found = found.get("content", [found])
        blocks = found if isinstance(found, list) else [{"text": found}]
        if not all(isinstance(block, Mapping) for block in blocks):
            return text
        texts = [block.get("text") for block in blocks]
        strings = [one for one in texts if isinstance(one, str)]
        if not strings:
            return text
        text = "\n".join(strings).strip()
    return text


def _unquoted(text: str) -> str:
    """Return a text that is a string of JSON without its quotes and escapes."""
    if text[:1] == text[-1:] == '"' and len(text) <= MAX_JSON:
        with suppress(ValueError):
            return str(json.loads(text)).strip()
    return text


def json_in(text: str) -> Any:
    """Return the JSON object or list that a text is; None for a longer or any other text."""
    if text[:1] in {"{", "["} and len(text) <= MAX_JSON:
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return None
