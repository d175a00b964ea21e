"""Whether the result of a tool call reports a failure, and with which line.

What the tool itself reports decides: a status, an exit code, fields of a JSON object. The words of
a result count only where it reports neither success nor failure: how its lines begin or end, and
the first clause of a result of one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage

from langchain_tokenmem.core.facts.call_kinds import CallKind
from langchain_tokenmem.core.facts.sentences import any_of
from langchain_tokenmem.core.facts.tool_results import (
    MAX_OUTCOME,
    clean_line,
    ends_of,
    json_in,
    plain_result,
    without_frame,
)
from langchain_tokenmem.core.messages import text_of


def failure_of(message: ToolMessage, kind: CallKind = CallKind.OTHER) -> str | None:
    """Return the line that reports a failure, or `None`.

    Args:
        message: The result.
        kind: What the call does; if it only reads, a text that mentions errors is no failure.

    Example:
        >>> failure_of(ToolMessage('{"ok": false, "error": "no room"}', tool_call_id="1"))
        'no room'
    """
    text = plain_result(message)
    data = json_in(text)
    code = _exit_code(message.artifact, text, data)
    has_failed = _reported(message, data, code, reads=kind in _READS)
    if has_failed is False:
        return None
    if data is not None:
        text = "\n".join(_texts_in(data, whole=bool(has_failed)))
        kind = kind if kind is CallKind.RUN else CallKind.READ  # without a report it is a record
    lines = [line for line in without_frame(ends_of(text)).splitlines() if line.strip()]
    if not (has_failed or _says_failure(lines, kind)):
        return None
    lines = [line for line in lines if _reported_code(line) is None]
    if not lines:
        return f"exit {code}" if code else "failed"
    at_end = kind is CallKind.RUN and data is None
    place = _place_of_error(lines, default=len(lines) - 1 if at_end else 0)
    if data is None:
        return _error_text(lines[place:])
    return clean_line(" ".join(" ".join(lines[place:]).split())) or "failed"


# --- what the tool reports

_READS = {CallKind.READ, CallKind.SEARCH}
"""Kinds of calls that only read; the text that they read may be about failures."""
_EXIT_CODES = ("exit_code", "exitcode", "returncode", "return_code", "exitCode", "returnCode")
"""Names under which an exit code is reported."""
_NESTED = ("metadata", "result", "execution_result", "output", "data", "detail", "response")
"""Keys of JSON objects that may contain the report of a result."""
_ERRORS = ("error", "errors", "errormessage", "errmsg", "exception", "fault")
_FLAGS = ("success", "ok", "succeeded")
_STATUS = ("status", "statuscode")
_CODES, _SAID = ("code", "cod"), {"message", "msg"}
"""Keys with a status of HTTP if there is a message beside them: a code alone may mean anything."""
_FAILED = {"failed", "failure", "fail"}
_STATUS_WORDS = {"error": True, "ok": False, "success": False, **dict.fromkeys(_FAILED, True)}
_NO_ERROR = re.compile(r"\W*(?:none|null|ok|no errors?|false)?\W*", re.IGNORECASE)
_NUMBER = re.compile(r"-?[0-9]{1,10}")
_OUTPUTS = (
    *("stdout", "output", "stderr", "error", "errors", "message", "msg", "detail", "details"),
    *("text", "result", "execution_result", "data"),
)
"""Keys of a JSON object that hold what a tool says."""
_LEVELS = 4
_EXIT_EDGE = 600
_LONGEST_LINE = 200
_EXIT_LINE = re.compile(
    r"\W{0,8}(?:\w{1,20}>\s?)?(?:(?:the|command|process|program|script|shell|tool|task|job|completed|finished|failed"
    r"|terminated|ended|with|has|an?|error|non-?zero)[ :,]{1,3}){0,8}"
    r"(?:exit|return)(?:ed)?(?:[ _-]?(?:with )?(?:an? )?(?:exit |return )?(?:code|status)| with)"
    r"(?: was| is| of)?[\"' :=>(]{1,4}(-?\d{1,10})\b"
    r"(?:\s*[(\[,;-].{0,80}|\W{0,8}(?:</\w{1,20}>)?\W*)",
    re.IGNORECASE,
)


def _reported(message: ToolMessage, data: Any, code: int | None, *, reads: bool) -> bool | None:
    """Return whether a tool reports that it failed; None if it reports nothing."""
    if message.status == "error":
        return True
    if code is not None:
        return code != 0
    around = json_in(text_of(message).strip())  # an MCP server's, which is not in the data
    if isinstance(around, dict) and around.get("isError") is True:
        return True
    return _reported_in(data, reads=reads) if isinstance(data, dict) else None


def _reported_in(found: Mapping[str, Any], *, reads: bool, levels: int = _LEVELS) -> bool | None:
    """Return whether a JSON object reports a failure; None if it reports nothing.

    `"status": "failed"` is the state of what was read; any other call reports by it that it failed.
    """
    fields = {str(key).lower(): value for key, value in found.items()}
    named = {re.sub("[_ ]", "", key): value for key, value in fields.items()}
    if reads and str(named.get("status")).lower() in _FAILED:
        return None
    if any(_is_error(named.get(key)) for key in _ERRORS):
        return True
    flags = (named.get(key) for key in _FLAGS)
    statuses = [named.get(key) for key in (*_STATUS, *(_CODES if _SAID & fields.keys() else ()))]
    reports = (
        *(not one for one in flags if isinstance(one, bool)),
        *map(_is_failed_status, statuses),
    )
    known = [one for one in reports if one is not None]
    if known or not levels:
        return any(known) if known else None
    inner = (one for key in _NESTED if isinstance(one := fields.get(key), dict))
    found_in = (_reported_in(one, reads=reads, levels=levels - 1) for one in inner)
    return next((one for one in found_in if one is not None), None)


def _is_error(value: Any) -> bool:
    """Return whether the value of a field `error` is an error; a number may be a measurement."""
    if isinstance(value, str):
        return not _NO_ERROR.fullmatch(value)
    return value is True or (isinstance(value, list | dict) and bool(value))


def _is_failed_status(status: Any) -> bool | None:
    """Return whether a status of HTTP, or a word, is a failure; None for any other."""
    number = _as_number(status)
    if number is None:
        return _STATUS_WORDS.get(str(status).lower())
    return {2: False, 4: True, 5: True}.get(number // 100)


def exit_code_of(message: ToolMessage) -> int | None:
    """Return the exit code that a result reports, or None.

    It is in the artifact (`exit_code`, `returncode`), in JSON content, or in the first or the
    last line: `Exit code: 1`, `[The command completed with exit code 1.]`.
    """
    text = plain_result(message)
    return _exit_code(message.artifact, text, json_in(text))


def _exit_code(artifact: Any, text: str, data: Any) -> int | None:
    reports = [artifact]
    if isinstance(data, dict):
        reports += [data, *(data[key] for key in _NESTED if isinstance(data.get(key), dict))]
    lines = [*text[:_EXIT_EDGE].splitlines()[:1], *text[-_EXIT_EDGE:].rstrip().splitlines()[-1:]]
    codes = (*map(_exit_code_in, reports), *map(_reported_code, lines))
    return next((code for code in codes if code is not None), None)


def _exit_code_in(report: object) -> int | None:
    """Return the exit code that a dict or an object has under a usual name, or None."""
    codes = (
        report.get(name) if isinstance(report, dict) else getattr(report, name, None)
        for name in _EXIT_CODES
    )
    return next((number for code in codes if (number := _as_number(code)) is not None), None)


def _reported_code(line: str) -> int | None:
    """Return the exit code of a line that reports nothing else, or None."""
    match = _EXIT_LINE.fullmatch(line.strip()) if len(line) <= _LONGEST_LINE else None
    return int(match[1]) if match else None


def _as_number(code: object) -> int | None:
    if isinstance(code, str) and _NUMBER.fullmatch(code):
        return int(code)
    return code if type(code) is int else None


def _texts_in(data: Any, *, whole: bool, levels: int = _LEVELS) -> Iterator[str]:
    """Yield what JSON says under the usual keys.

    Args:
        data: What was read.
        whole: Whether all of its texts are read where no usual key is.
        levels: How deep to look.
    """
    if isinstance(data, str):
        yield data.strip()
    elif isinstance(data, dict) and levels:
        fields = {str(key).lower(): one for key, one in data.items()}
        usual = [fields[key] for key in _OUTPUTS if key in fields]
        for one in usual or (data.values() if whole else ()):
            yield from _texts_in(one, whole=whole, levels=levels - 1)
    elif isinstance(data, list) and levels:
        for one in data if whole else (one for one in data if isinstance(one, str)):
            yield from _texts_in(one, whole=whole, levels=levels - 1)


# --- what the words say

_NO_FIGURE = r"(?!:\s*(?:none\b|[-+±]?\d+(?:\.\d|\s*%?\s*$)))"
"""Not before `: 0.21` or `: none`: `Mean absolute error: 0.21` reports a figure, no error."""
_PLACE = (
    r"(?:[^\s:]{1,120}:(?: ?(?:line )?\d{1,9}:){0,2} ?"
    r"|[^\s(:]{1,120}\(\d{1,9}(?:,\d{1,9})?\): ?){0,3}?"
)
"""Programs and places in a file before the text of an error: `/bin/sh: 1: cd: `, `a.go:3:1: `."""
_EXCEPTION = (
    r"(?-i:(?:[A-Z]{1,3}\d{3,4} )?(?:[\w$]{1,40}\.){0,8}[A-Z]\w{0,60}?(?:Error|Exception)[:(])"
)
_ERROR = (
    rf"(?:(?:\w{{1,30}} ){{0,3}}(?<!background on this )error|exception)\b{_NO_FIGURE}(?:\[\w+\])?"
    r"(?= ?[:)\[>]| \((?!s\))| -?\d{3,6}\b| (?:in|at|from|occurred|response)\b"
    r"| (?!handling)\w+ing\b| \w*\d:)"
)
"""`fatal error: `, `error[E0382]: `, `Error executing tool`, `error TS2304: `; not `0 error(s)`
and `Background on this error at:`."""
_LEVEL = r"(?-i:\[?(?:FATAL|ERROR|CRITICAL|FAILED)\b\]?[\s:(]|E(?:: | {2,})\S)"
_BEGINS = re.compile(
    rf"[^\w\n]{{0,20}}(?:<\w{{1,20}}>\s*){{0,3}}(?:\(\d+\) )?{_PLACE}"
    rf"(?:{_EXCEPTION}|{_ERROR}|{any_of('error_begins')}|{_LEVEL})",
    re.IGNORECASE,
)
_ENDS = re.compile(rf"\S{{1,120}}: .{{0,160}}(?<!\w){any_of('error_ends')}\W*$", re.IGNORECASE)
_SOME_FAILED = re.compile(r"(?<!\S)[1-9]\d* (?:failed|failures?|errors?)\b(?!:)", re.IGNORECASE)
_AFTER_PROGRAM = (
    r"\W{0,20}(?:(?:sorry|oops|unfortunately)\W{1,5}|[^\s:]{1,80} ?: ){0,3}(?:\([\w.]{1,60}\) )?"
)
"""The beginning of a sentence, after a program, its code in brackets, or `Sorry`."""
_IN_CLAUSE = r"(?:[^.:;,!?(\"\n]|[.:](?=\S)|\"[^\"\n]{0,80}\"){0,120}?(?<![\w'\"/.-])"
_REFUSED = re.compile(
    rf"{_AFTER_PROGRAM}(?:{any_of('refusal_begins')}|{_IN_CLAUSE}{any_of('refusal')})\b",
    re.IGNORECASE,
)
_NOT_DONE = re.compile(
    rf"(?!{_IN_CLAUSE}(?<!not )(?<!be ){any_of('done')}\b){_AFTER_PROGRAM}"
    rf"(?:{any_of('not_done_begins')}|{_IN_CLAUSE}{any_of('not_done')})\b",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"\S{1,200}?:\d+[:-]|\s*\d+[:\t]")
"""A line of a file as `grep -n` or `cat -n` print it."""
_LAST, _FIRST = 5, 2
"""Lines at the end with the count of failed tests, and at the beginning of what was read."""
_LINE = 300
"""Characters of a line that are read."""


def _says_failure(lines: Sequence[str], kind: CallKind) -> bool:
    """Return whether the words of a result report a failure.

    A command may print an error anywhere; what was read, or the file that was edited, may be text
    about errors: of it the first lines count. An action is refused in one sentence.
    """
    if not lines:
        return False
    is_short = sum(map(len, lines)) <= 3 * MAX_OUTCOME
    is_sentence = is_short and (len(lines) == 1 or lines[0].rstrip()[-1:] in ":,")
    sentence = lines[0][:_LINE] if is_sentence else ""
    if kind is CallKind.RUN:
        errors = (*filter(_is_error_line, lines), *filter(_SOME_FAILED.search, lines[-_LAST:]))
        return bool(errors or _REFUSED.match(sentence))
    first = [line for line in lines[: _FIRST if is_short else 1] if not _NUMBERED.match(line)]
    refused = _REFUSED.match(sentence) or (kind not in _READS and _NOT_DONE.match(sentence))
    return any(map(_is_error_line, first)) or bool(refused)


def _is_error_line(line: str) -> bool:
    """Return whether a line begins or ends like the message of a program about a failure."""
    start = line[:_LINE].rstrip()
    return bool(_BEGINS.match(start) or _ENDS.match(start))


def _place_of_error(lines: Sequence[str], default: int) -> int:
    """Return the place of the line that reports what happened, or the default.

    That is the last that begins like an error, as in a traceback; of the messages of a shell, which
    only end like one, it is the first.
    """
    places = [place for place, line in enumerate(lines) if _BEGINS.match(line[:_LINE].rstrip())]
    if places:
        return places[-1]
    return next((place for place, line in enumerate(lines) if _is_error_line(line)), default)


def error_lines(text: str) -> list[str]:
    """Return the lines of a text that begin or end like an error, in order."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = [place for place, line in enumerate(lines) if _is_error_line(line)]
    return [shown for place in found if (shown := _error_text(lines[place : place + 2]))]


def _error_text(lines: Sequence[str]) -> str:
    line = lines[0].strip()
    if line.endswith(":"):  # the error itself is below
        line = " ".join([line, *map(str.strip, lines[1:2])])
    return clean_line(line.removeprefix("E  ").removeprefix("- "))
