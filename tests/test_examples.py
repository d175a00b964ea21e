"""The examples run, offline, and print what they say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("agent", ["All days are well.", "50 messages in the state"]),
        ("graph", ["60 messages in the state, none removed", "has 6 messages and no summary yet"]),
        ("remember", ["Saved mem_", "The second session knows: True; asked of tea: False"]),
        ("demo", ["calls refused as too long             22                   0             0"]),
        ("chain", ["60 messages in the transcript", "largest request"]),
    ],
)
def test_an_example_runs(name, words, capsys, monkeypatch):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look it up
    spec.loader.exec_module(module)
    module.main()
    printed = capsys.readouterr().out
    assert [word for word in words if word not in printed] == []


def test_the_recording_names_no_folder_of_the_machine_that_made_it():
    text = (EXAMPLES / "recorded_agent.jsonl").read_text("utf-8")
    assert not any(folder in text for folder in ("/work/", "/root/", "/home/"))
