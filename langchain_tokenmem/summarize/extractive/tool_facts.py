"""Facts of tool calls and results: files touched, errors, short outcomes.

Results are looked at by their ends and their error lines only, so a giant log costs no more than
a short one, and none of it gets into a summary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langchain_tokenmem.summarize.extractive.items import Item, Speaker, make_item
from langchain_tokenmem.summarize.extractive.literals import find_literals
from langchain_tokenmem.summarize.extractive.sections import Section
from langchain_tokenmem.summarize.extractive.sentences import message_text, one_line, prose
from langchain_tokenmem.summarize.extractive.vocabulary import any_of

_MAX_CALL = 120
_MAX_FACT = 160
_MAX_ERRORS = 40
_TAIL = 3_000
_MAX_JSON = 20_000
_MAX_DEPTH = 3
_SHORT_RESULT_LINES = 3
_READING_WORTH = 0.5
_READING = re.compile(rf"(?:.*[_.-])?{any_of('reading_tool')}", re.IGNORECASE)
_WRITING = re.compile(any_of("writing_tool"), re.IGNORECASE)
_SHELL = re.compile(any_of("shell_tool"), re.IGNORECASE)
_SHELL_READING = re.compile(
    rf"\s*(?:cd\s+\S+\s*(?:&&|;)\s*)?{any_of('reading_command')}\b(?!.*(?:>|\btee\b))"
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
_ANY_ERROR = re.compile(rf"\b{any_of('failure')}\b", re.IGNORECASE)
_OUTCOME = re.compile(rf"\b{any_of('outcome')}\b", re.IGNORECASE)


@dataclass
class ToolLog:
    """Calls and results of a batch, collected in one pass.

    Attributes:
        files: Verbs by path, in order of the first touch.
        failures: Errors of the calls that failed and did not succeed since, by name and arguments.
        facts: Latest outcome of each call, by name and arguments: a repeated read counts once.
            `None` stands for an item that says nothing.
    """

    files: dict[str, set[str]] = field(default_factory=dict)
    failures: dict[str, Item | None] = field(default_factory=dict)
    facts: dict[str, Item | None] = field(default_factory=dict)
    _calls: dict[str, tuple[str, Mapping[str, object]]] = field(default_factory=dict)

    def add(self, message: BaseMessage, order: int) -> None:
        """Take one message into account; others than calls and results are passed over."""
        if isinstance(message, AIMessage):
            self._calls.update(
                (str(call["id"]), (str(call["name"]), call["args"])) for call in message.tool_calls
            )
        elif isinstance(message, ToolMessage) and message.tool_call_id in self._calls:
            name, args = self._calls[message.tool_call_id]
            self._add_result(name, args, message, order)

    def _add_result(
        self, name: str, args: Mapping[str, object], message: ToolMessage, order: int
    ) -> None:
        text = message_text(message)
        command = _command(args) if _SHELL.search(name) else None
        action = _action(name, args)
        if command:
            reads = bool(_SHELL_READING.match(command))
        else:
            reads = bool(_READING.match(action)) and not _WRITING.search(action)
        call = _call_text(name, args)
        errors = error_lines(text, strict=reads, failed=message.status == "error")
        if errors:
            fact = f"{call} → {' | '.join(errors)}"
            self.failures[call] = _tool_item(fact, Section.ERRORS, order)
            return
        self.failures.pop(call, None)
        given = _path_arguments(args)
        writes = _WRITING.search(action) if command is None else _SHELL_WRITING.search(command)
        verb = "read" if reads else "changed" if writes else "ran"
        for path in given if command is None else _files_in(command):
            self.files.setdefault(path, set()).add(verb)
        outcome = _outcome(text)
        if not given and not (reads and (command or not outcome)):
            section = Section.FACTS if reads else Section.DONE
            fact = f"{call} → {outcome}" if outcome else call
            self.facts[call] = _tool_item(fact, section, order, 0.3 if command else 1.2)


def _tool_item(fact: str, section: Section, order: int, factor: float = 1.0) -> Item | None:
    """Make an item of a fact; its text is never cut, and a mere reading is worth little."""
    item = make_item(fact, order=order, source=Speaker.TOOL, section=section)
    if not item:
        return None
    worth = _READING_WORTH if section is Section.FACTS else item.worth * factor
    return replace(item, text=fact, worth=worth)


def _action(name: str, args: Mapping[str, object]) -> str:
    """Return the verb of a call: the tool's name, or the verb in an editor's argument."""
    command = args.get("command")
    return command if isinstance(command, str) and command.isidentifier() else name


def _command(args: Mapping[str, object]) -> str | None:
    value = next((args[key] for key in ("command", "cmd", "script", "code") if key in args), None)
    if isinstance(value, list):
        return " ".join(map(str, value[:50]))
    return value if isinstance(value, str) else None


def _files_in(command: str) -> list[str]:
    paths = [literal.text for literal in find_literals(command[:600]) if literal.kind == "path"]
    return [path for path in paths if "." in path.rsplit("/", 1)[-1].strip(".")]


def _path_arguments(args: Mapping[str, object]) -> list[str]:
    return [
        one_line(value, 200)
        for key, value in args.items()
        if isinstance(value, str) and _PATH_KEY.fullmatch(key) and ("/" in value or "." in value)
    ]


def _call_text(name: str, args: Mapping[str, object]) -> str:
    """Return a call on one line: `name(argument, ...)`, cut to `_MAX_CALL` characters."""
    texts = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for value in list(args.values())[:12]
    )
    shown = filter(None, (one_line(text[: _MAX_CALL * 2], _MAX_CALL) for text in texts))
    return f"{one_line(name, 60) or 'tool'}({prose(one_line(', '.join(shown), _MAX_CALL))})"


def _fact(text: str) -> str:
    return one_line(prose(text), _MAX_FACT)


def error_lines(text: str, *, strict: bool, failed: bool) -> list[str]:
    """Return at most two lines of a result that tell of an error.

    Args:
        text: The result.
        strict: Whether only lines that start as errors do count, as in the text of a file read.
        failed: Whether the tool itself reported a failure.
    """
    lines: list[str] = []
    for match in _ERROR_LINE.finditer(text):
        line = match[0]
        if line.rstrip().endswith(":"):  # what it was stands below
            line += text[match.end() : match.end() + _MAX_FACT].lstrip("\n").partition("\n")[0]
        line = _fact(line)
        if line not in lines and not line.startswith("Traceback"):
            lines.append(line)
        if len(lines) > _MAX_ERRORS:  # a test run of nothing but failures
            break
    if lines:
        # The first names the place, the last is where a traceback says what happened.
        return lines if len(lines) == 1 else [lines[0], lines[-1]]
    short = text.strip()
    if failed or (not strict and len(short) <= 2 * _MAX_FACT and _ANY_ERROR.search(short)):
        return [_fact(short) or "failed"]
    return []


def _outcome(text: str) -> str:
    """Return a result that is short, else its closing line if it tells of an outcome."""
    text = text.strip()
    if len(text) <= _MAX_JSON and text.startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            return _fact(", ".join(_scalars(json.loads(text))))
    if len(text) <= _MAX_FACT and text.count("\n") < _SHORT_RESULT_LINES:
        return _fact(text)
    last = text[-_TAIL:].splitlines()[-1]
    return _fact(last.strip("= ")) if _OUTCOME.search(last[:_MAX_FACT]) else ""


def _scalars(value: object, key: str = "", depth: int = 0) -> Iterator[str]:
    """Yield `key: value` of the plain values of a JSON result, shallow ones only."""
    inside: list[tuple[str, object]] = []
    if isinstance(value, Mapping):
        fields = list(value.items())[:20]
        inside = [(str(name)[:40], inner) for name, inner in fields if name != "type"]
    elif isinstance(value, list):
        inside = [(key, inner) for inner in value[:3]]
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != "":
        yield f"{key}: {str(value)[:80]}" if key else str(value)[:80]
    for name, inner in inside if depth < _MAX_DEPTH else ():
        yield from _scalars(inner, name, depth + 1)
