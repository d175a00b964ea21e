"""Turn memory of recorded agents, against the tool calls as the recordings hold them.

The expected side is read here from the raw JSON, by rules of its own: nothing of the package reads
it. A call of a tool whose name says that it writes, edits, creates, moves or deletes, with an
argument that is a file's path, changes that file, unless the result begins as an error. A call that
executes a command or code fails where its result reports an exit code, or return code, that is
not 0 in its first or its last line. Both are compared turn by turn with what a history tells in
`response_metadata["tokenmem"]["turn_memory"]`, interrupted turns included.

Edits of SWE-agent's window (`edit 3:5`) name no file in their arguments; they are counted apart.
The time is that of reading the effects of calls, in microseconds for each message.

Run: python benchmarks/turn_memory.py FILE... [--least 0.98]
"""

from __future__ import annotations

import argparse
import gzip
import json
import posixpath
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage

from langchain_tokenmem.adapters.importing import message_of
from langchain_tokenmem.cli.replay import numbered
from langchain_tokenmem.core.messages import marks_of
from langchain_tokenmem.core.turns import with_turn_memories
from langchain_tokenmem.core.working_notes.tool_kinds import TurnMemorySettings

_WRITES = re.compile(
    r"(?:^|[-_])(?:write|edit|editor|create|insert|replace|delete|move|patch|apply"
    r"|append)(?:$|[-_])"
)
_RUNS = re.compile(r"(?:^|[-_])(?:bash|shell|terminal|execute|command)$")
_NO_FILE = re.compile(r"director|comment")
_PATHS = ("path", "file_path", "filepath", "filename", "source", "destination")
_COMMANDS = ("command", "code")
_EXIT = re.compile(r"(?:exit|return) ?code:? ?\"?(-?[1-9]\d*)\b", re.IGNORECASE)
_ERROR = re.compile(r"\s*(?:error|.{0,20}error:|your proposed edit has introduced)", re.IGNORECASE)

Event = tuple[str, int, str]
"""A recording, a turn in it, and what was changed or failed in it."""


@dataclass
class Found:
    """Acts of turns, by one of the two sides.

    Attributes:
        files: Files that were changed, once for each turn.
        failed: Commands that failed, with their exit codes, as often as they did.
        pathless: Writing calls without a path in their arguments.
    """

    files: Counter[Event] = field(default_factory=Counter)
    failed: Counter[Event] = field(default_factory=Counter)
    pathless: int = 0


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the recordings of a file of JSON Lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def expected_of(name: str, messages: Sequence[dict[str, Any]], found: Found) -> None:
    """Add what the raw tool calls of a recording did."""
    turn = 0
    for place, message in enumerate(messages):
        turn += message["role"] == "user"
        calls = message.get("tool_calls") or []
        results = _results_behind(messages[place + 1 :])
        for call in calls:
            args, result = _arguments(call), results.get(call["id"])
            tool = call["function"]["name"].lower()
            if args is None or result is None:
                continue
            if _WRITES.search(tool) and not _NO_FILE.search(tool) and args.get("command") != "view":
                paths = [args[key] for key in _PATHS if isinstance(args.get(key), str)]
                found.pathless += not paths
                if not _ERROR.match(_plain(result)):
                    for path in paths:
                        found.files[name, turn, posixpath.normpath(path)] = 1
            command = next((args[key] for key in _COMMANDS if key in args), None)
            code = _EXIT.search(_edges(_plain(result)))
            if _RUNS.search(tool) and command and code:
                found.failed[name, turn, f"{' '.join(command.split())[:150]} {code[1]}"] += 1


def _results_behind(messages: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the results that follow on a call, up to the model's next words, by call."""
    found: dict[str, str] = {}
    for message in messages:
        if message["role"] == "assistant":
            break
        if message["role"] == "tool":
            content = message["content"]
            text = content if isinstance(content, str) else json.dumps(content)
            found.setdefault(message["tool_call_id"], text)
    return found


def _arguments(call: dict[str, Any]) -> dict[str, Any] | None:
    given = call["function"]["arguments"]
    try:
        args = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return None
    return args if isinstance(args, dict) else None


def _plain(result: str) -> str:
    """Return the text inside of what an MCP server sends: a text block, or a list of them."""
    try:
        inner = json.loads(result)
    except ValueError:
        return result
    blocks = inner if isinstance(inner, list) else [inner]
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str)) or result


def _edges(text: str) -> str:
    """Return the first and the last line of a result."""
    lines = text.strip().splitlines() or [""]
    return f"{lines[0]}\n{lines[-1]}"


def add_found(name: str, recorded: Sequence[dict[str, Any]], found: Found) -> tuple[int, float]:
    """Add what the turn memories of a recording tell; return its messages and the seconds."""
    # Without the next question the last turn would still run.
    history = numbered(message_of(one, name) for one in recorded)
    messages = [*history, HumanMessage("Next?", id="next")]
    reading = TurnMemorySettings(include_partial=True)
    began = time.process_time()
    shown = with_turn_memories(messages, reading)
    seconds = time.process_time() - began
    turn = 0
    for message in shown:
        turn += message.type == "human"
        memory = marks_of(message).get("turn_memory")
        for path in memory["files_changed"] if memory else ():
            found.files[name, turn, path] += 1
        for one in memory["failed_commands"] if memory else ():
            found.failed[name, turn, f"{one['command'][:150]} {one['exit_code']}"] += 1
    return len(messages), seconds


def _shares(expected: Counter[Event], found: Counter[Event]) -> tuple[float, float]:
    """Return precision and recall; 1 where there is nothing."""
    both = (expected & found).total()
    precision = both / found.total() if found else 1.0
    return precision, both / expected.total() if expected else 1.0


def _differences(what: str, expected: Counter[Event], found: Counter[Event]) -> Iterator[str]:
    for sign, one in (("missing", expected - found), ("too much", found - expected)):
        for name, turn, text in one.elements():
            yield f"  {what} {sign}: {name}, turn {turn}: {text[:120]}"


def main() -> int:
    """Print the table; return 1 where a share is below the least."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--least", type=float, default=0.98)
    options = parser.parse_args()
    lowest = 1.0
    print(f"{'file':40} {'what':16} {'expected':>8} {'found':>6} {'precision':>9} {'recall':>7}")
    for path in options.files:
        expected, found, count, seconds = Found(), Found(), 0, 0.0
        for number, row in enumerate(rows_of(path)):
            name = f"{number} {row.get('id')}"
            expected_of(name, row["messages"], expected)
            messages, took = add_found(name, row["messages"], found)
            count, seconds = count + messages, seconds + took
        sides = (
            ("files changed", expected.files, found.files),
            ("failed commands", expected.failed, found.failed),
        )
        for what, raw, ours in sides:
            precision, recall = _shares(raw, ours)
            lowest = min(lowest, precision, recall)
            print(
                f"{path.name:40} {what:16} {raw.total():8} {ours.total():6}"
                f" {precision:9.3f} {recall:7.3f}"
            )
            print(*_differences(what, raw, ours), sep="\n", end="\n" if raw != ours else "")
        print(f"  {expected.pathless} writing calls name no path")
        print(f"  {count} messages read, {1e6 * seconds / count:.0f} µs each")
    return int(lowest < options.least)


if __name__ == "__main__":
    sys.exit(main())
