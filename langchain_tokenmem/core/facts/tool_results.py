"""Kinds of tool calls, the text of their results, and the lines in it that report a failure.

The words of the kinds are in `tool_kinds.toml`; a tool that no list knows is of the kind `OTHER`.
Only the two ends of a result are read, so a huge log costs no more than a short one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from enum import Enum
from importlib.resources import files
from itertools import chain

from langchain_core.messages import ToolMessage

from langchain_tokenmem.core.facts.sentences import any_of, one_line, prose
from langchain_tokenmem.core.tool_failures import (
    NO_FIGURE,
    exit_code_of,
    is_error,
    is_refusal,
    is_refused,
    json_in,
    plain_result,
    reported_code,
    reports_error,
    unwrapped,
)

TABLES = tomllib.loads(files(__package__).joinpath("tool_kinds.toml").read_text(encoding="utf-8"))
"""Tables of tools, commands and arguments, by name."""

_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CHANGE_DIRECTORY = re.compile(r"\s*cd\s+\S+\s*(?:&&|;)\s*")
_REDIRECTED = re.compile(r"(?<![0-9&])>|\btee\b|<<")
_COMMAND_END = re.compile(r"(?<=[^\s\\;:&|({])[^\S\n]*\n\s*(?=\S)")
"""The end of a line of a script, unless the next one is part of the same command."""
_ONE_COMMAND = re.compile(
    r"\s*(?:--|/\*|(?:select|insert|update|delete|create|alter|with)\b)", re.IGNORECASE
)
"""The beginning of an SQL statement; its lines are not separate commands."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_LONGEST_NAME = 80


class CallKind(Enum):
    """Kind of a tool call: it reads, edits, runs or searches something, or does anything else."""

    READ = "read"
    EDIT = "edit"
    RUN = "run"
    SEARCH = "search"
    OTHER = "other"


_BY_WORD = {word: CallKind(kind) for kind, words in TABLES["words"].items() for word in words}
_BY_COMMAND = {word: CallKind(kind) for kind, words in TABLES["commands"].items() for word in words}


def kind_of_tool(name: str) -> CallKind:
    """Return the kind of a tool by the words of its name.

    Example:
        >>> kind_of_tool("getUserDetails"), kind_of_tool("str_replace_editor")
        (<CallKind.READ: 'read'>, <CallKind.EDIT: 'edit'>)
    """
    words = [word.lower() for word in _NAME_WORD.findall(name[:_LONGEST_NAME])]
    return next((_BY_WORD[word] for word in words if word in _BY_WORD), CallKind.OTHER)


def kind_of_command(command: str) -> CallKind:
    """Return the kind of a shell command by its first words; one that writes a file is run.

    Example:
        >>> kind_of_command("cd /app && git log -3"), kind_of_command("make test")
        (<CallKind.READ: 'read'>, <CallKind.RUN: 'run'>)
    """
    command = _CHANGE_DIRECTORY.sub("", command[:400], count=1)
    first = command.split(None, 2)[:2]
    kind = _BY_COMMAND.get(" ".join(first)) or _BY_COMMAND.get(first[0] if first else "")
    if kind in (None, CallKind.EDIT):
        return kind or CallKind.RUN
    return CallKind.RUN if _REDIRECTED.search(command) else kind or CallKind.RUN


def command_of(name: str, args: Mapping[str, object]) -> str | None:
    """Return the command, script or statement that a call runs, as a text; else `None`."""
    if kind_of_tool(name) is not CallKind.RUN:
        return None
    value = next((args[key] for key in TABLES["arguments"]["command"] if key in args), None)
    if isinstance(value, list):
        return " ".join(map(str, value[:50]))
    return value if isinstance(value, str) and value.strip() else None


def kind_of_call(name: str, args: Mapping[str, object]) -> CallKind:
    """Return the kind of a call by its command, by the command of an editor, or by the tool.

    One that runs something without a command or script is of the kind `OTHER`.

    Example:
        >>> kind_of_call("bash", {"command": "ls"})
        <CallKind.READ: 'read'>
    """
    action = args.get("command")
    if isinstance(action, str) and action.isidentifier() and path_of(args):
        return kind_of_tool(action)
    kind, command = kind_of_tool(name), command_of(name, args)
    if command:
        return kind_of_command(command)
    return CallKind.OTHER if kind is CallKind.RUN else kind


def script_line(script: str) -> str:
    r"""Return a command or script on one line, with `; ` between its lines.

    Example:
        >>> script_line("cd app\nmake all")
        'cd app; make all'
    """
    if _ONE_COMMAND.match(script) or "<<" in script:
        return " ".join(script.split())
    whole = _QUOTED.sub(lambda found: " ".join(found[0].split()), script)
    return " ".join(_COMMAND_END.sub("; ", whole).split())


def path_of(args: Mapping[str, object], names: str = "path") -> str | None:
    """Return the file or folder that a call is about, or `None`.

    Args:
        args: Arguments of the call.
        names: Which ones are read: `path`, or `file` for those that never name a folder.
    """
    for key in TABLES["arguments"][names]:
        value = args.get(key)
        if isinstance(value, str) and ("/" in value or "." in value):
            return value
    return None


_HEAD, _TAIL = 6_000, 2_000
"""Characters at either end of a result that are read for values."""
_BEGINNING = re.compile(r"\n|[.!?] (?=[^\W_])")
MAX_OUTCOME = 120
# A run is tried from its first backslash only: thousands of them would cost the square of that.
_ESCAPED_SPACE = re.compile(r"(?<!\\)\\+[nrt]")
_BEFORE_MARK = re.compile(r"(?<!\\)\\+(?=[\"'/])")


def unescaped(text: str) -> str:
    """Return a text with the escapes of JSON inside JSON undone, at any depth."""
    if "\\" not in text:
        return text
    return _BEFORE_MARK.sub("", _ESCAPED_SPACE.sub("\n", text))


def ends_of(text: str) -> str:
    """Return the two ends of a result that are read, without wrapper, escapes, encoded data."""
    text = unwrapped(text.strip())
    text = prose(unescaped(_ends(text, 2 * _HEAD, 2 * _TAIL)))
    return _ends(text, _HEAD, _TAIL)


def _ends(text: str, head: int, tail: int) -> str:
    """Return both ends of a long text, the tail from the beginning of a line or a sentence."""
    if len(text) <= head + tail:
        return text
    start = len(text) - tail
    begins = _BEGINNING.search(text, start, start + tail // 2)
    return f"{text[:head]}\n{text[begins.end() if begins else start :]}"


def clean_line(text: str) -> str:
    """Return the first line of a text as it can be in a list."""
    line = one_line(text.strip().partition("\n")[0], MAX_OUTCOME)
    return line.replace("; ", ", ").strip('"{}[] ')


_ERROR_LINE = re.compile(
    r"^[^\S\n]*(?:E\s{2,}\S|[\w.]{1,60}(?:Error|Exception)\b[:\s(]"
    rf"|error(?:\[\w+\])?{NO_FIGURE}[:(]"
    r"|\[?(?:fatal|panic|FAILED|ERROR|FATAL|CRITICAL)\b\]?[:\s(]|(?:bash|sh|E): "
    r"|\S{1,120}: (?:fatal )?error(?: \w+)?:).{0,300}$",
    re.MULTILINE,
)
_ANY_ERROR = re.compile(rf"\b{any_of('failure')}\b", re.IGNORECASE)
_NO_ERROR = re.compile(
    r"\b(?:0|no|zero|without(?: any)?) (?:errors?|fail\w*|timeouts?)\b|\berror rate:? 0\b"
    r"|\btimeout limit ?[:=]|\b(?:errors|failed|failures)(?: \w+)? ?[:=] ?0(?=\s*(?:[,;)\n]|$))"
    r"|[\"']\w{0,40}(?:error|fail|invalid)\w{0,40}[\"']\s?:\s?"
    r"(?:null|none|false|0|\"\"|''|\[\]|\{\})(?=\s?[,}])",
    re.IGNORECASE,
)
"""No error: `0 failed`, the field `"error": null`, or a setting."""
_NOT_DONE = re.compile(
    r"^(?:(?!: )[^\n]){0,100}\b(?:not found|not exist|timed out|refused|nicht gefunden|introuvable)"
    r"(?:[\s.!\"'}\]]*$|: \S+$| after )|^\W{0,5}(?:\w+ ){1,5}(?<!as )failed(?:[.!]?$|[:;] | with )",
    re.IGNORECASE,
)
"""A result of one line that says so at its end: `Order 3 not found`, `Login failed`."""
_SOME_FAILED = re.compile(r"(?<!\S)[1-9]\d* (?:failed|failures?|errors?)\b", re.IGNORECASE)
_STATE = re.compile(r"\"status\" ?: ?\"failed", re.IGNORECASE)
_REPORTED = re.compile(
    r"\bexit[ _-]?code[\"']?[ :=]{1,3}-?[1-9]|\"(?:is_?error|failed)\" ?: ?true"
    r"|\"success\" ?: ?false"
    r"|\"status(?:_?code)?\" ?: ?\"?(?:[45]\d\d\b|error)|^\W{0,20}failed to\b"
    r"|^\W{0,20}HTTP [45]\d\d\b|(?:^\W{0,20}|<title>\s*)[45]\d\d (?:bad (?:request|gateway)"
    r"|unauthorized|forbidden|not found|method not|conflict|too many|unprocessable|internal server"
    r"|service unavailable|gateway timeout)\b",
    re.IGNORECASE,
)
_BELOW = 300
"""Characters after an error line with a final colon, which are read as its end."""

_FEW_LINES = 2
_OUTPUTS = ("stdout", "output", "stderr", "error", "message", "text")
"""Keys of a JSON object that hold the text of a result."""
_FRAME = re.compile(
    r"(?:\([\w.-]{1,40}\) ?)?[\w.@~:/-]{0,80}(?:[$#]|>{1,3})"
    r"|\((?:Open file|Current directory): [^\n]{0,300}\)|\(\d{1,9} more lines? below\)"
)
"""A line that a shell, or SWE-agent's, puts after any output: its prompt, file and folder."""


def failure_of(message: ToolMessage, kind: CallKind) -> str | None:
    """Return the line that reports a failure, or `None`.

    Args:
        message: The result.
        kind: What the call does; if it only reads, a text that mentions errors is no failure.
    """
    code = exit_code_of(message)
    if code == 0 and message.status != "error":
        return None
    text = ends_of(plain_result(message))
    reads = kind in {CallKind.READ, CallKind.SEARCH}
    is_reported = message.status == "error" or bool(_REPORTED.search(text[:600]))
    is_short = len(text) <= 3 * MAX_OUTCOME and 0 not in map(reported_code, text.splitlines())
    short = is_short and _is_failure(without_frame(_NO_ERROR.sub(" ", text)), kind)
    is_whole = kind is not CallKind.RUN or text.count("\n") < _FEW_LINES
    is_refusal = not reads and is_whole and is_refused(message)
    begins = bool(_ERROR_LINE.match(text.lstrip())) or is_refusal
    if not (is_reported or begins or short or (reports_error if reads else is_error)(message)):
        return None
    whole = plain_result(message)
    if (output := _output_in(whole)) != whole:
        text = ends_of(output)
        if not error_lines(text):
            return clean_line(" ".join(text.split())) or "failed"
    found = error_lines(text)
    if found:  # the last is where a traceback says what happened
        return found[-1]
    sign = _ANY_ERROR.search(text)
    if sign is None:
        return _edge_line(text, at_end=kind is CallKind.RUN) or (
            f"exit {code}" if code else "failed"
        )
    start = text.rfind("\n", 0, sign.start()) + 1
    if sign.end() - start > MAX_OUTCOME:  # in the middle of a long line: from a word before it
        start = max(start, text.rfind(" ", start, sign.start() - MAX_OUTCOME // 2) + 1)
    return clean_line(text[start:].lstrip())


def _is_failure(text: str, kind: CallKind) -> bool:
    """Return whether a short result reports a failure, by how its lines begin or end.

    What was read may be text about failures: of it, the first two lines count.
    """
    reads = kind in {CallKind.READ, CallKind.SEARCH}
    lines = text.splitlines()[: 2 if reads else None]
    if any(map(is_refusal, lines)) or (len(lines) == 1 and _NOT_DONE.search(lines[0])):
        return True
    if kind is CallKind.RUN:
        return any(map(_SOME_FAILED.search, lines))
    return not reads and bool(_STATE.search(text))


def error_lines(text: str) -> list[str]:
    """Return the lines of a text that begin like an error, in order."""
    return [line for line in map(_error_text, _ERROR_LINE.finditer(text)) if line]


def _error_text(match: re.Match[str]) -> str:
    line = match[0].strip()
    if line.endswith(":"):  # the error itself is below
        below = match.string[match.end() : match.end() + _BELOW].strip()
        line += " " + below.partition("\n")[0]
    return clean_line(line.removeprefix("E  "))


def _output_in(text: str) -> str:
    """Return the output in a result that is a JSON object: `{"stdout": "FAIL", "exit_code": 1}`."""
    found = json_in(text)
    return "\n".join(_outputs_in(found)) or text if isinstance(found, dict) else text


def _outputs_in(found: Mapping[str, object], levels: int = 3) -> list[str]:
    """Return the texts of an object, and of the objects in it, that are an output."""
    texts = map({key.lower(): one for key, one in found.items()}.get, _OUTPUTS)
    outputs = [one for one in texts if isinstance(one, str) and one.strip()]
    inner = (one for one in found.values() if levels > 1 and isinstance(one, dict))
    return [*outputs, *chain.from_iterable(_outputs_in(one, levels - 1) for one in inner)]


def _is_frame(line: str) -> bool:
    """Return whether a line is a prompt, or contains only the exit code."""
    return bool(_FRAME.fullmatch(line.strip())) or reported_code(line) is not None


def without_frame(text: str) -> str:
    """Return the output of a shell without the prompt, file and folder after it."""
    lines = text.splitlines()
    while lines and _FRAME.fullmatch(lines[-1].strip()):
        lines.pop()
    return "\n".join(lines).rstrip()


def _edge_line(text: str, *, at_end: bool) -> str:
    """Return the last line of a command's output, or the first of any other result."""
    lines = [line for line in text.splitlines() if line.strip() and not _is_frame(line)]
    return clean_line(lines[-at_end]) if lines else ""
