"""The demo keeps its word: on the bundled recording, without a model and without the network."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.cli.replay import load_conversations

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def demo():
    return runpy.run_path(str(EXAMPLES / "demo.py"))


@pytest.fixture(scope="module")
def recording():
    return load_conversations(EXAMPLES / "recorded_agent.jsonl")[0]


@pytest.mark.slow
def test_the_demo_shows_the_numbers_and_finds_every_answer_in_the_view(demo, capsys):
    assert demo["main"]() == 0
    printed = capsys.readouterr().out
    assert "Window 4,000 tokens" in printed
    assert "transcript only" not in printed
    assert "nowhere" not in printed
    assert "<conversation_summary " in printed


def test_what_the_view_lacks_is_looked_up_in_the_transcript(demo, recording):
    memory = TokenMemory(TokenBudget(context_window=4_000))
    view = memory.view([recording.messages[1]])
    found = demo["find"]("MIN_CONTEXT_WINDOW = ", view, recording.messages)
    assert found.where.startswith("transcript only (m")
    assert demo["find"]("never said by anyone", view, recording.messages).where == "nowhere"
