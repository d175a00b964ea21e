"""Digests of requests, and the files that hold the expected ones.

A file is JSON: a group (`8000 middleware model`: window, integration, variant) holds one line for
each recording. A line is a digest of all calls, and behind it six digits for each call: three of
the messages and tools, three of all else (numbers, warnings, requests to the summarizing model), so
that a failure names the first call that differs, and in what.

Digested of a message: type, content, name, id, tool calls, invalid ones, the call that a result
answers, status, `additional_kwargs`, `response_metadata`. Nothing is left out or replaced: ids and
times are pinned where the recordings are read.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests.golden.play import Call

_FIELDS = (
    *("type", "content", "name", "id", "tool_calls", "invalid_tool_calls"),
    *("tool_call_id", "status", "additional_kwargs", "response_metadata"),
)


def plain_request(call: Call) -> dict[str, Any]:
    """Return what leaves: messages, by the fields that are digested, and tools."""
    messages = [
        {name: getattr(message, name) for name in _FIELDS if hasattr(message, name)}
        for message in call.messages
    ]
    return {"messages": messages, "tools": list(call.tools)}


def plain_report(call: Call) -> dict[str, Any]:
    """Return what is reported about a request, and what the summarizing model was asked."""
    numbers = asdict(call.usage) if call.usage else {}
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
    """The expected digests of one test file: where they are, and what `add_options` adds."""

    path: Path
    update: bool = False
    dump: str | None = None

    def check(self, group: str, played: Mapping[str, Sequence[Call]]) -> None:
        """Compare a group of recordings, or write it."""
        lines = {name: line_of(calls) for name, calls in sorted(played.items())}
        for name, calls in played.items() if self.dump else ():
            folder = Path(self.dump or "", group)
            folder.mkdir(parents=True, exist_ok=True)
            whole = [{**plain_request(call), **plain_report(call)} for call in calls]
            file = folder / f"{name.replace('/', '_')}.json"
            file.write_text(json.dumps(whole, indent=1), encoding="utf-8")
        known = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
        if self.update:
            text = json.dumps({**known, group: lines}, indent=1, sort_keys=True)
            self.path.write_text(f"{text}\n", encoding="utf-8")
            return
        expected = known.get(group, {})
        assert lines.keys() == expected.keys(), f"{group}: other recordings than the file holds"
        wrong = [name for name in lines if lines[name] != expected[name]]
        differences = [f"- {name}: {_difference(expected[name], lines[name])}" for name in wrong]
        assert not wrong, "\n".join([f"{group}: differs from {self.path.name}", *differences])


def _difference(expected: str, found: str) -> str:
    """Return which call differs first, and in what."""
    calls = list(zip_longest(expected.split()[1:], found.split()[1:], fillvalue=""))
    for number, (old, new) in enumerate(calls, 1):
        if old != new:
            kind = "numbers, warnings or prompts" if old[:3] == new[:3] else "the messages"
            return f"call {number} of {len(calls)} differs first, in {kind}"
    return "some call differs, its short digest does not"


def add_options(parser: pytest.Parser) -> None:
    """Add the options, once for all folders that share them."""
    group = parser.getgroup("golden views")
    with suppress(ValueError):  # the other folder's conftest was first
        help_ = "write the digests of what is sent now, instead of comparing them"
        group.addoption("--update-golden", action="store_true", help=help_)
        help_ = "write what is digested there, in full: to compare two checkouts by diff -r"
        group.addoption("--dump-golden", metavar="FOLDER", help=help_)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> GoldenFile:
    """The digests that belong to a test file: those of the same name, as JSON."""
    option = request.config.getoption
    path = request.path.with_suffix(".json")
    return GoldenFile(path, option("update_golden", default=False), option("dump_golden", None))
