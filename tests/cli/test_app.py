"""The command from outside: what it prints, writes and leaves with."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys

import pytest

from langchain_tokenmem.cli import replay as replaying
from langchain_tokenmem.cli.replay import replay_conversation
from tests.cli.command import ran


def turns(count):
    said = [{"role": "system", "content": "Be brief."}]
    for turn in range(count):
        call = {"id": f"c{turn}", "function": {"name": "read", "arguments": f'{{"n": {turn}}}'}}
        if turn == 2:
            call["function"]["arguments"] = '{"n": '
        said += [
            {"role": "user", "content": f"What stands in file {turn}?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": f"line {turn}\n" * 60},
            {"role": "assistant", "content": f"File {turn} is long. " + "Words. " * 60},
        ]
    return said


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "said.jsonl.gz"
    rows = [{"id": "long", "messages": turns(12)}, turns(2)]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    return path


@pytest.mark.slow
def test_replay_prints_the_numbers_and_writes_them(recording, tmp_path):
    out = tmp_path / "out"
    output = ran("replay", recording, "--window", 2_000, "--out", out)
    assert "conversation 2" in output
    long, short = map(json.loads, (out / "replay.jsonl").read_text("utf-8").splitlines())
    assert long["name"] == "long"
    assert (len(long["calls"]), len(short["calls"])) == (24, 4)
    assert long["faults"] == short["faults"] == []
    assert long["totals"]["summaries"] >= 1
    assert long["totals"]["largest"] <= 2_000
    assert long["totals"]["stable"] == long["totals"]["pairs"]
    assert long["totals"]["changes"] <= long["allowance"]
    assert short["totals"]["summaries"] == 0
    assert short["totals"]["price"] == 1
    assert 0 < long["totals"]["price"] < 1
    for line in ("price", "sent again", "coverage", "far coverage", "fresh results whole"):
        assert re.search(rf"^ *{line} +[\d.-]+", output, re.MULTILINE), line


@pytest.mark.slow
def test_a_broken_promise_ends_with_1(recording, monkeypatch):
    def spoiled(messages, **options):
        report = replay_conversation(messages, **options)
        calls = tuple(type(call)(**{**vars(call), "faults": ("planted",)}) for call in report.calls)
        return type(report)(**{**vars(report), "calls": calls})

    monkeypatch.setattr(replaying, "replay_conversation", spoiled)
    output = ran("replay", recording, "--window", 2_000, code=1)
    assert "before m2: planted" in output
    assert "... and 8 more" in output


@pytest.mark.parametrize(
    ("content", "window", "error"),
    [
        (None, "2000", "No such file"),
        ("{", "2000", "It is not JSON"),
        ('[{"role": "user", "content": "hi"}]', "5", "window"),
    ],
)
def test_wrong_use_ends_with_2_and_one_line(tmp_path, content, window, error):
    path = tmp_path / "said.json"
    if content:
        path.write_text(content, encoding="utf-8")
    assert error in ran("replay", path, "--window", window, code=2)


@pytest.mark.slow
def test_a_missing_library_is_one_clear_line():
    code = (
        "import sys; sys.modules['typer'] = None\n"
        "from langchain_tokenmem.__main__ import main; main()"
    )
    done = subprocess.run(  # noqa: S603  our own interpreter and text
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'langchain-tokenmem[cli]'" in done.stderr
