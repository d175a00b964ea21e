"""Recorded runs with arguments that are no JSON: each provider takes what leaves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from formatters import REASON
from fuzzing import PROFILES, looked_at
from langchain_core.messages import AIMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.cli.replay import RecordedConversation, load_conversations

for module in ("langchain_anthropic", "langchain_openai", "langchain_google_genai"):
    pytest.importorskip(module, reason=REASON)

DATA = Path(os.environ.get("TOKENMEM_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILE = DATA / "transcripts_other_dev.jsonl.gz"


@pytest.fixture(scope="module")
def odd_runs() -> list[RecordedConversation]:
    """The runs with a call whose arguments are no JSON."""
    if not FILE.exists():
        pytest.skip(f"the recordings are kept outside of the project, {FILE} is not there")
    return [
        run
        for run in load_conversations(FILE)
        if any(isinstance(one, AIMessage) and one.invalid_tool_calls for one in run.messages)
    ]


@pytest.mark.parametrize("profile", PROFILES)
def test_recorded_calls_whose_arguments_are_no_json_are_taken_by_each_provider(
    odd_runs: list[RecordedConversation], profile: str
) -> None:
    memory = TokenMemory(TokenBudget(context_window=8_000), legality=profile)
    views = 0
    for run in odd_runs:
        state = None
        for at, message in enumerate(run.messages):
            if message.type != "ai":
                continue
            state, view = memory.compact_and_view(run.messages[:at], state)
            seen = looked_at(view, at, profile, 8_000)
            assert (seen.faults, seen.over) == ((), 0), f"{run.name}, request {at}"
            views += 1
    assert len(odd_runs) >= 2
    assert views > 60
