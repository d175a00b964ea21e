"""Digests of requests, and the files that hold the expected ones.

A file is JSON: a group (`8000 middleware model`: window, integration, variant) holds one line for
each recording. A line is a digest of all calls, and behind it six digits for each call: three of
the messages and tools, three of all else (numbers, warnings, requests to the summarizing model), so
that a failure names the first call that differs, and in what.

Digested of a message: type, content, name, id, tool calls, invalid ones, the call that a result
answers, status, `additional_kwargs`, `response_metadata`. Nothing is left out or replaced: ids and
times are pinned where the recordings are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from tests.golden.play import Call

_FIELDS = (
    *("type", "content", "name", "id", "tool_calls", "invalid_tool_calls"),
    *("tool_call_id", "status", "additional_kwargs", "response_metadata"),
)


def plain_message(message: BaseMessage) -> dict[str, Any]:
    """Return the fields of a message that are digested."""
    return {name: getattr(message, name) for name in _FIELDS if hasattr(message, name)}


def plain_request(call: Call) -> dict[str, Any]:
    """Return what leaves: messages and tools."""
    messages = [plain_message(message) for message in call.messages]
    return {"messages": messages, "tools": list(call.tools)}


def plain_report(call: Call) -> dict[str, Any]:
    """Return what is said about a request, and what the summarizing model was asked."""
    usage = call.usage
    numbers = asdict(usage) if usage else {}
    return {
        "tokens": call.tokens,
        "usage": {**numbers, "parts": dict(sorted(numbers.get("parts", {}).items()))},
        "warnings": list(call.warnings),
        "logged": list(call.logged),
        "prompts": [[(m.type, m.content) for m in prompt] for prompt in call.prompts],
    }


def _digest(value: Any) -> str:
    return blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()


def line_of(calls: Sequence[Call]) -> str:
    """Return the line of a recording: the digest of all calls, then those of each."""
    digests = [(_digest(plain_request(call)), _digest(plain_report(call))) for call in calls]
    each = [f"{request[:3]}{report[:3]}" for request, report in digests]
    return " ".join([_digest(digests)[:16], *each])


@dataclass(frozen=True)
class GoldenFile:
    """The expected digests of one test file.

    Attributes:
        path: Where they are.
        update: Whether to write what comes instead of comparing it.
        dump: A folder for what was digested, call by call, in full; None for none.
    """

    path: Path
    update: bool = False
    dump: Path | None = None

    def check(self, group: str, played: Mapping[str, Sequence[Call]]) -> None:
        """Compare a group of recordings, or write it."""
        lines = {name: line_of(calls) for name, calls in sorted(played.items())}
        if self.dump is not None:
            for name, calls in played.items():
                _write_dump(self.dump / group / name.replace("/", "_"), calls)
        known: dict[str, dict[str, str]] = (
            json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
        )
        if self.update:
            text = json.dumps({**known, group: lines}, indent=1, sort_keys=True)
            self.path.write_text(f"{text}\n", encoding="utf-8")
            return
        expected = known.get(group, {})
        assert lines.keys() == expected.keys(), f"{group}: other recordings than the file holds"
        wrong = [name for name in lines if lines[name] != expected[name]]
        assert not wrong, "\n".join(
            [
                f"{group}: {len(wrong)} of {len(lines)} recordings differ from {self.path.name}.",
                *(_difference(name, expected[name], lines[name]) for name in wrong),
                "--dump-golden FOLDER writes what is sent: compare two checkouts by diff -r.",
            ]
        )


def _first_difference(expected: str, found: str) -> int | None:
    """Return the number of the first call that differs, from 1; None if its digits are equal."""
    old, new = expected.split()[1:], found.split()[1:]
    for number in range(max(len(old), len(new))):
        if old[number : number + 1] != new[number : number + 1]:
            return number + 1
    return None


def _difference(name: str, expected: str, found: str) -> str:
    number = _first_difference(expected, found)
    if number is None:
        return f"- {name}: some call differs, its short digest does not"
    old, new = expected.split(), found.split()
    if len(old) <= number or len(new) <= number:
        return f"- {name}: {len(new) - 1} calls, expected {len(old) - 1}"
    kinds = [
        *(["the messages"] if old[number][:3] != new[number][:3] else []),
        *(["numbers, warnings or prompts"] if old[number][3:] != new[number][3:] else []),
    ]
    return f"- {name}: call {number} of {len(new) - 1} differs first, in {' and '.join(kinds)}"


def _write_dump(file: Path, calls: Sequence[Call]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    whole = [{**plain_request(call), **plain_report(call)} for call in calls]
    file.with_name(f"{file.name}.json").write_text(json.dumps(whole, indent=1), encoding="utf-8")


def add_options(parser: pytest.Parser) -> None:
    """Add the options, once for all folders that share them."""
    group = parser.getgroup("golden views")
    try:
        group.addoption(
            "--update-golden",
            action="store_true",
            help="write the digests of what is sent now, instead of comparing them",
        )
        group.addoption(
            "--dump-golden",
            metavar="FOLDER",
            help="write what is digested there, in full: to compare two checkouts by diff -r",
        )
    except ValueError:  # the other folder's conftest was first
        return


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> GoldenFile:
    """The digests that belong to a test file: those of the same name, as JSON."""
    dump = request.config.getoption("dump_golden", None)
    return GoldenFile(
        request.path.with_suffix(".json"),
        update=bool(request.config.getoption("update_golden", default=False)),
        dump=Path(dump) if dump else None,
    )
