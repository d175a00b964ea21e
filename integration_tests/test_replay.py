"""Recorded agents through the memory: never over, never illegal, prefixes kept."""

import pytest

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.cli.measures import reference_counter
from langchain_tokenmem.cli.replay import load_conversations, replay_conversation
from langchain_tokenmem.cli.replay_totals import ReplayTotals
from tests.golden.recordings import SHARED

FILE = SHARED / "transcripts_dev.jsonl.gz"
pytestmark = pytest.mark.skipif(
    not FILE.exists(), reason=f"the recordings are kept outside of the project, {FILE} is not there"
)


@pytest.mark.parametrize("window", [2_000, 8_000])
def test_every_request_of_the_recordings_is_within_the_limit_and_legal(window):
    memory, counter = TokenMemory(TokenBudget(context_window=window)), reference_counter()
    reports = [
        replay_conversation(one.messages, name=one.name, memory=memory, counter=counter)
        for one in load_conversations(FILE)[::4]
    ]
    refused = [report for report in reports if report.budget_exceeded]
    assert all(report.fixed_tokens > window for report in refused)
    assert ReplayTotals(reports).calls > 300
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
    assert [text for text in warned if "does not fit beside the rest" not in text] == []
