"""Real agent transcripts through the memory: never over, never illegal, prefixes kept."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.cli.measures import reference_counter
from langchain_tokenmem.cli.replay import load_conversations, replay_conversation
from langchain_tokenmem.cli.report import ReplayTotals
from tests.summarize.watched import WatchedSummarizer

DATA = Path(os.environ.get("TOKENMEM_DATA", Path(__file__).parents[2] / "shared" / "data"))
FILE = DATA / "transcripts_dev.jsonl.gz"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": "Looks something up in the records of the company.",
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
        },
    }
    for number in range(4)
]


@functools.cache
def conversations():
    if not FILE.exists():
        pytest.skip(f"the recordings are kept outside of the project, {FILE} is not there")
    return load_conversations(FILE)


@functools.cache
def counter():
    return reference_counter()


def played(window, tools=None):
    memory = TokenMemory(TokenBudget(context_window=window))
    return [
        replay_conversation(
            conversation.messages,
            memory=memory,
            counter=counter(),
            tools=tools,
            name=conversation.name,
        )
        for conversation in conversations()
    ]


@pytest.mark.parametrize("window", [2_000, 4_000, 8_000, 32_000])
def test_every_request_of_the_recordings_is_within_the_limit_and_legal(window):
    reports = played(window)
    found = ReplayTotals(reports)
    refused = [report for report in reports if report.budget_exceeded]
    assert all(report.fixed_tokens > window for report in refused)
    assert found.calls > 1_300
    assert [report.faults for report in reports if report.faults] == []
    assert max(call.tokens for report in reports for call in report.calls) <= window
    assert all(call.keeps_prefix or call.declared for r in reports for call in r.calls[1:])
    # At 2,000 the limit forces changes beside fixed parts that leave the target out of reach.
    over = [r.name for r in reports if r.prefix_changes > r.allowance]
    assert len(over) <= (1 if window == 2_000 else 0), over
    fills = sorted(
        next((call.fill for call in report.calls if call.fill is not None), 1.0)
        for report in reports
        if any(call.summarized for call in report.calls)
    )
    assert fills[len(fills) // 2] >= 0.9 * 0.8
    warned = [text for report in reports for call in report.calls for text in call.warnings]
    assert [text for text in warned if "it is shown cut" not in text] == []


def test_tools_are_inside_the_limit():
    reports = played(4_000, TOOLS)
    assert [report.faults for report in reports if report.faults] == []
    assert ReplayTotals(reports).calls > 1_300


def test_every_evicted_character_reaches_the_summarizer_and_every_prompt_fits():
    watched = WatchedSummarizer(4_000, counter())
    memory = TokenMemory(TokenBudget(context_window=8_000), summarizer=watched)
    reports = [
        replay_conversation(c.messages, memory=memory, counter=counter(), name=c.name)
        for c in conversations()
    ]
    found = ReplayTotals(reports)
    assert (found.over_limit, found.illegal, found.over_allowance) == (0, 0, 0)
    assert len(watched.jobs) > 100
    assert len(watched.jobs) == found.summaries
    assert not watched.failed
    assert sum(job.covered for job in watched.jobs) == sum(job.evicted for job in watched.jobs)
    assert max(job.largest for job in watched.jobs) <= 4_000
