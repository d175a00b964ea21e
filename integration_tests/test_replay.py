"""Recorded agents through the memory: never over, never illegal, prefixes kept, nothing unread."""

from __future__ import annotations

import random
from functools import cache

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.cli.measures import reference_counter
from langchain_tokenmem.cli.replay import (
    RecordedConversation,
    ReplayTotals,
    load_conversations,
    replay_conversation,
)
from langchain_tokenmem.types import RequestRules
from tests.golden.recordings import SHARED
from tests.providers import CHECKS, RefusedError, StrictModel
from tests.summarize.watched import WatchedSummarizer

FILE = SHARED / "transcripts_dev.jsonl.gz"
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

pytestmark = pytest.mark.skipif(
    not FILE.exists(), reason=f"the recordings are kept outside of the project, {FILE} is not there"
)

counter = cache(reference_counter)


@cache
def conversations() -> list[RecordedConversation]:
    return load_conversations(FILE)


def played(memory: TokenMemory, tools: object = None) -> list:
    options = {"memory": memory, "counter": counter(), "tools": tools}
    return [replay_conversation(one.messages, name=one.name, **options) for one in conversations()]


@pytest.mark.parametrize("window", [2_000, 4_000, 8_000, 32_000])
def test_every_request_of_the_recordings_is_within_the_limit_and_legal(window):
    reports = played(TokenMemory(TokenBudget(context_window=window)))
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
    reports = played(TokenMemory(TokenBudget(context_window=4_000)), TOOLS)
    assert [report.faults for report in reports if report.faults] == []
    assert ReplayTotals(reports).calls > 1_300


def test_every_evicted_character_reaches_the_summarizer_and_every_prompt_fits():
    watched = WatchedSummarizer(4_000, counter())
    found = ReplayTotals(played(TokenMemory(TokenBudget(context_window=8_000), summarizer=watched)))
    assert (found.over_limit, found.illegal, found.over_allowance) == (0, 0, 0)
    assert len(watched.jobs) == found.summaries > 100
    assert not watched.failed
    assert sum(job.covered for job in watched.jobs) == sum(job.evicted for job in watched.jobs)
    assert max(job.largest for job in watched.jobs) <= 4_000


def roughened(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Return a recording as crashes, impatient users and other models leave one behind.

    Every kind of damage is one that some provider refuses: lost results, two messages of one role
    in a row, reasoning of another provider's model, reasoning that nothing follows.
    """
    chance, rough = random.Random(len(messages)), []
    for number, message in enumerate(messages):
        lot = chance.randrange(6)
        reasoning = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
        text = {"type": "text", "text": message.text}
        if message.type == "tool" and lot == 0:
            continue
        if message.type == "ai" and message.tool_calls and lot == 1:
            rough.append(AIMessage("Let me see.", id=f"see{number}"))
        if message.type == "ai" and message.text and lot in {2, 3, 4}:
            thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
            content = [text, reasoning] if lot == 4 else [thinking, text]
            metadata = {"model_provider": "anthropic" if lot == 2 else "openai"}
            changed = {"content": content, "response_metadata": metadata}
            message = message.model_copy(update=changed)  # noqa: PLW2901
        rough.append(message)
        if message.type == "human" and lot in {0, 1, 2}:
            rough.append(HumanMessage("And please hurry.", id=f"hurry{number}"))
        if message.type == "human" and lot == 3:
            rough.append(AIMessage([reasoning], id=f"aborted{number}"))
            rough.append(HumanMessage("Are you there?", id=f"there{number}"))
    return rough


@pytest.mark.parametrize("is_rough", [False, True])
@pytest.mark.parametrize("family", sorted(CHECKS))
def test_a_strict_provider_accepts_every_request_by_its_own_rules(family, is_rough):
    memory = TokenMemory(4_000).for_model(StrictModel(family=family))
    common = TokenMemory(4_000, request=RequestRules(legality="common"))
    requests = refused = 0
    for conversation in conversations()[::8]:
        messages = roughened(conversation.messages) if is_rough else conversation.messages
        state = None
        for place, message in enumerate(messages):
            if message.type != "ai" or all(m.type == "system" for m in messages[:place]):
                continue
            state, view = memory.compact_and_view(messages[:place], state)
            CHECKS[family](view.messages)
            requests += 1
            if is_rough and not refused:
                try:
                    CHECKS[family](common.view(messages[:place]).messages)
                except RefusedError:
                    refused += 1
    assert requests > 100
    assert refused == is_rough  # else its own rules would prove nothing
