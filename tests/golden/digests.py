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
        for name, calls in played.items() if self.dump else ():
            _write_dump(self.dump / group / f"{name.replace('/', '_')}.json", calls)
        known = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
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
                *(f"- {name}: {_difference(expected[name], lines[name])}" for name in wrong),
                "--dump-golden FOLDER writes what is sent: compare two checkouts by diff -r.",
            ]
        )


def _difference(expected: str, found: str) -> str:
    """Say which call differs first, and in what."""
    calls = list(zip_longest(expected.split()[1:], found.split()[1:], fillvalue=""))
    for number, (old, new) in enumerate(calls, 1):
        if old != new:
            kind = "numbers, warnings or prompts" if old[:3] == new[:3] else "the messages"
            return f"call {number} of {len(calls)} differs first, in {kind}"
    return "some call differs, its short digest does not"


def _write_dump(file: Path, calls: Sequence[Call]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    whole = [{**plain_request(call), **plain_report(call)} for call in calls]
    file.write_text(json.dumps(whole, indent=1), encoding="utf-8")


UPDATE_HELP = "write the digests of what is sent now, instead of comparing them"
DUMP_HELP = "write what is digested there, in full: to compare two checkouts by diff -r"


def add_options(parser: pytest.Parser) -> None:
    """Add the options, once for all folders that share them."""
    group = parser.getgroup("golden views")
    with suppress(ValueError):  # the other folder's conftest was first
        group.addoption("--update-golden", action="store_true", help=UPDATE_HELP)
        group.addoption("--dump-golden", metavar="FOLDER", help=DUMP_HELP)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> GoldenFile:
    """The digests that belong to a test file: those of the same name, as JSON."""
    dump = request.config.getoption("dump_golden", None)
    return GoldenFile(
        request.path.with_suffix(".json"),
        update=bool(request.config.getoption("update_golden", default=False)),
        dump=Path(dump) if dump else None,
    )
