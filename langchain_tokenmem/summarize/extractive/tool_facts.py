"""Facts of tool calls and results: files touched, errors, short outcomes.

Results are looked at by their ends and their error lines only, so a giant log costs no more than
a short one, and none of it gets into a summary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langchain_tokenmem.summarize.extractive.classification import Section
from langchain_tokenmem.summarize.extractive.literals import find_literals
from langchain_tokenmem.summarize.extractive.sentences import message_text, one_line, prose

MAX_CALL = 120
MAX_FACT = 160
_HEAD, _TAIL = 3_000, 3_000
_MAX_JSON = 20_000
_MAX_SCAN = 4_000_000
_SHORT_RESULT_LINES = 3
_READING = re.compile(
    r"(?:.*[_.-])?(?:get|list|search|find|read|view|fetch|query|lookup|show|calculate|think|check|"
    r"describe|retrieve|open|scroll|browse|grep|glob|ls|cat|goto|look)",
    re.IGNORECASE,
)
_WRITING = re.compile(
    r"write|edit|create|replace|insert|delete|remove|move|rename|update|patch|append|save|apply",
    re.IGNORECASE,
)
_SHELL = re.compile(r"bash|shell|terminal|command|exec|run", re.IGNORECASE)
_SHELL_READING = re.compile(
    r"\s*(?:cd\s+\S+\s*(?:&&|;)\s*)?(?:ls|cat|cd|head|tail|grep|egrep|rg|find|open|pwd|echo|wc|"
    r"tree|scroll_\w+|goto|search_\w+|find_file|which|"
    r"sed -n|less|file|stat|git (?:status|log|diff|show))"
    r"\b(?!.*(?:>|\btee\b))"
)
_SHELL_WRITING = re.compile(
    r"(?:\bsed -i|\b(?:mv|rm|cp|tee|touch|edit|create|git (?:add|mv|rm|checkout))\b|>)"
)
_PATH_KEY = re.compile(r"(?:file_?)?(?:path|name)|file|target_file|notebook_path", re.IGNORECASE)
_ERROR_LINE = re.compile(
    r"^[^\S\n]*(?:E\s{2,}\S|Traceback|(?:[\w.]{1,60}(?:Error|Exception)|error(?:\[\w+\])?|fatal|panic|"
    r"FAILED|ERROR|FATAL|CRITICAL)\b[:\s(]|bash: |sh: |\S{1,120}: (?:fatal )?error:).{0,300}$",
    re.MULTILINE,
)
_ANY_ERROR = re.compile(
    r"\b(?:\w{0,40}(?:Error|Exception)|error|failed|failure|denied|not found|no such file|cannot|"
    r"invalid|refused|timed? ?out|segmentation fault|does not exist)\b",
    re.IGNORECASE,
)
_OUTCOME = re.compile(
    r"\b(?:passed|failed|ok|success\w*|succeeded|done|created|updated)\b", re.IGNORECASE
)


@dataclass
class ToolFact:
    """One fact of a call and its result.

    Attributes:
        text: The fact, on one line.
        section: Where it belongs.
        order: Position of the result in the conversation.
        worth: Factor on the usual worth of that section.
    """

    text: str
    section: Section
    order: int
    worth: float = 1.0


@dataclass
class ToolLog:
    """Calls and results of a batch, collected in one pass.

    Attributes:
        files: Verbs by path, in order of the first touch.
        facts: Latest fact of each call, by name and arguments: a repeated read counts once.
        failures: Calls that failed and did not succeed since.
    """

    files: dict[str, dict[str, None]] = field(default_factory=dict)
    facts: dict[str, ToolFact] = field(default_factory=dict)
    failures: dict[str, ToolFact] = field(default_factory=dict)
    _calls: dict[str, tuple[str, Mapping[str, object]]] = field(default_factory=dict)

    def add(self, message: BaseMessage, order: int) -> None:
        """Take one message into account; others than calls and results are passed over."""
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                args = call["args"] if isinstance(call["args"], dict) else {}
                self._calls[str(call["id"])] = (str(call["name"]), args)
        elif isinstance(message, ToolMessage):
            known = self._calls.get(message.tool_call_id)
            if known:
                self._result(known[0], known[1], message, order)

    def _result(
        self, name: str, args: Mapping[str, object], message: ToolMessage, order: int
    ) -> None:
        text = message_text(message)
        command = _command(args) if _SHELL.search(name) else None
        reads = bool(_SHELL_READING.match(command)) if command else _reads(name, args)
        call = call_text(name, args)
        errors = error_lines(text, strict=reads, failed=message.status == "error")
        if errors:
            fact = ToolFact(f"{call} → {' | '.join(errors)}", Section.ERRORS, order)
            self.failures[call] = fact
            return
        self.failures.pop(call, None)
        self._touch(name, args, command, reads=reads)
        outcome = short_result(text)
        if reads:
            if outcome and not command and not _path_arguments(args):
                self.facts[call] = ToolFact(f"{call} → {outcome}", Section.FACTS, order)
        elif not _path_arguments(args):
            said = f"{call} → {outcome}" if outcome else call
            self.facts[call] = ToolFact(said, Section.DONE, order, 0.3 if command else 1.2)

    def _touch(
        self, name: str, args: Mapping[str, object], command: str | None, *, reads: bool
    ) -> None:
        if command is not None:
            paths = [
                lit.text for lit in find_literals(command[:600]) if _is_file(lit.kind, lit.text)
            ]
            verb = "read" if reads else "changed" if _SHELL_WRITING.search(command) else "ran"
        else:
            paths = _path_arguments(args)
            verb = "read" if reads else "changed" if _WRITING.search(_action(name, args)) else "ran"
        for path in paths:
            self.files.setdefault(path, {})[verb] = None


def _is_file(kind: str, text: str) -> bool:
    return kind == "path" and "." in text.rsplit("/", 1)[-1].strip(".")


def _reads(name: str, args: Mapping[str, object]) -> bool:
    """Return whether a call only looks."""
    action = _action(name, args)
    return bool(_READING.match(action)) and not _WRITING.search(action)


def _action(name: str, args: Mapping[str, object]) -> str:
    """Return what a call does: the tool's name, or the verb in an editor's argument."""
    command = args.get("command")
    return command if isinstance(command, str) and command.isidentifier() else name


def _command(args: Mapping[str, object]) -> str | None:
    value = next((args[key] for key in ("command", "cmd", "script", "code") if key in args), None)
    if isinstance(value, list):
        value = " ".join(map(str, value[:50]))
    return value if isinstance(value, str) else None


def _path_arguments(args: Mapping[str, object]) -> list[str]:
    return [
        one_line(value, 200)
        for key, value in args.items()
        if isinstance(value, str) and _PATH_KEY.fullmatch(key) and ("/" in value or "." in value)
    ]


def call_text(name: str, args: Mapping[str, object]) -> str:
    """Return a call on one line: `name(argument, ...)`, cut to `MAX_CALL` characters."""
    shown = [one_line(_scalar(value), MAX_CALL) for value in list(args.values())[:12]]
    inside = one_line(", ".join(filter(None, shown)), MAX_CALL)
    return f"{one_line(name, 60) or 'tool'}({prose(inside)})"


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return value[: MAX_CALL * 2]
    return json.dumps(value, ensure_ascii=False, default=str)[: MAX_CALL * 2]


def error_lines(text: str, *, strict: bool, failed: bool) -> list[str]:
    """Return at most two lines of a result that tell of an error.

    Args:
        text: The result.
        strict: Whether only lines that start as errors do count, as in the text of a file read.
        failed: Whether the tool itself reported a failure.
    """
    scanned = text if len(text) <= _MAX_SCAN else text[: _MAX_SCAN // 2] + text[-_MAX_SCAN // 2 :]
    lines = []
    for match in _ERROR_LINE.finditer(scanned):
        line = match[0]
        if line.rstrip().endswith(":"):  # what it was stands below
            line += scanned[match.end() : match.end() + MAX_FACT].lstrip("\n").partition("\n")[0]
        line = one_line(prose(line), MAX_FACT)
        if line not in lines and not line.startswith("Traceback"):
            lines.append(line)
        if len(lines) > 40:  # noqa: PLR2004 - a test run of nothing but failures
            break
    if lines:
        # The first names the place, the last is where a traceback says what happened.
        return lines[:1] + lines[-1:] if len(lines) > 1 else lines
    short = text.strip()
    if failed or (not strict and len(short) <= 2 * MAX_FACT and _ANY_ERROR.search(short)):
        return [one_line(prose(short), MAX_FACT) or "failed"]
    return []


def short_result(text: str) -> str:
    """Return what a result says when that is short, else its closing line if it is an outcome."""
    text = text.strip()
    if not text:
        return ""
    if len(text) <= _MAX_JSON and text[0] in "{[":
        try:
            return one_line(prose(", ".join(_scalars(json.loads(text)))), MAX_FACT)
        except (ValueError, RecursionError):
            pass
    if len(text) <= MAX_FACT and text.count("\n") < _SHORT_RESULT_LINES:
        return one_line(prose(text), MAX_FACT)
    last = text[-_TAIL:].splitlines()[-1]
    return one_line(prose(last.strip("= ")), MAX_FACT) if _OUTCOME.search(last[:MAX_FACT]) else ""


def _scalars(value: object, key: str = "", depth: int = 0) -> Iterator[str]:
    """Yield `key: value` of the plain values of a JSON result, shallow ones only."""
    if isinstance(value, Mapping) and depth < 3:  # noqa: PLR2004
        for name, inner in list(value.items())[:20]:
            if name == "type":
                continue
            yield from _scalars(inner, str(name)[:40], depth + 1)
    elif isinstance(value, list) and depth < 3:  # noqa: PLR2004
        for inner in value[:3]:
            yield from _scalars(inner, key, depth + 1)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != "":
        yield f"{key}: {str(value)[:80]}" if key else str(value)[:80]
