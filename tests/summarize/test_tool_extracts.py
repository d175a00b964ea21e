"""Extracts of tool calls behind the notes of a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.messages import reference
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.extractive import HEADING
from langchain_tokenmem.summarize.model import TOOL_SHARE, ModelSummarizer
from langchain_tokenmem.types import Shares
from tests.strategies import conversations
from tests.summarize.models import Scripted, blank

NOTES = "## State\n- The assistant mends the totals."


def count(text: str) -> int:
    return len(text) // 4


def calling(key: str, name: str, result: str, **args: str) -> list:
    call = {"name": name, "args": args, "id": key}
    return [
        AIMessage("", tool_calls=[call], id=f"a-{key}"),
        ToolMessage(result, tool_call_id=key, id=f"t-{key}"),
    ]


def agent_run() -> list:
    return [
        HumanMessage("Mend the totals of foreign orders in the shop, please.", id="h"),
        *calling("1", "read_file", "rate = 0.19\nledger_id: LEDGER-2207", path="src/shop/tax.py"),
        *calling("2", "bash", "Exit code: 1\nAssertionError: 21.4", command="pytest tests/shop"),
        *calling("3", "find_order", '{"order_id": "ORD-77120", "state": "open"}', email="a@b.org"),
        AIMessage("The rate is read as a float; that is why.", id="a-end"),
    ]


def request_of(messages, max_tokens=200, **more) -> SummaryRequest:
    return SummaryRequest(messages, max_tokens, count, **more)


def written(request, notes=NOTES, **options):
    model = Scripted(answer=lambda _messages: notes)
    return ModelSummarizer(model, **options).summarize(request), model


def test_behind_a_models_notes_stand_files_commands_failures_and_values():
    summary, _ = written(request_of(agent_run()))
    notes, _, extracts = summary.text.partition(f"\n{HEADING}\n")
    assert (notes, summary.model) == (NOTES, "scripted")
    assert "read_file src/shop/tax.py → " in extracts
    assert "LEDGER-2207" in extracts
    assert "bash pytest tests/shop → failed: AssertionError: 21.4" in extracts
    assert "find_order a@b.org → " in extracts
    assert "ORD-77120" in extracts
    assert "foreign orders" not in extracts  # what was said is the model's part


def test_a_talk_without_tools_is_the_models_alone_and_has_all_of_the_tokens():
    said = [HumanMessage(f"Where is parcel {n}? I asked before.", id=f"h{n}") for n in range(6)]
    summary, model = written(request_of(said))
    plain, other = written(request_of(said), tool_share=0.0)
    assert summary.text == plain.text == NOTES
    assert model.requests == other.requests


def test_what_the_notes_copied_leaves_the_extracts_to_other_values():
    rows = "\n".join(f"order_id: ORD-{n}" for n in range(77_100, 77_160))
    messages = [HumanMessage("List them.", id="h"), *calling("1", "list_orders", rows)]
    plain, _ = written(request_of(messages, 200))
    copied = [one for one in map(str, range(77_100, 77_160)) if f"ORD-{one}" in plain.text]
    notes = "## State\n- The orders are " + ", ".join(f"ORD-{one}" for one in copied[:4]) + "."
    again, _ = written(request_of(messages, 200), notes)
    held = again.text.partition(HEADING)[2]
    assert len(copied) >= 4
    assert "ORD-" in held
    assert not any(f"ORD-{one}" in held for one in copied[:4])


@pytest.mark.slow
@given(conversations(), st.integers(20, 300))
def test_notes_with_extracts_never_pass_the_entrys_tokens(messages, most):
    summary, _ = written(request_of(messages or [HumanMessage("Hello.")], most), min_messages=0)
    assert count(summary.text) <= most


def test_an_entry_of_the_fallback_and_one_under_an_instruction_have_no_extracts_behind():
    failed = ModelSummarizer(Scripted(answer=blank)).summarize(request_of(agent_run()))
    assert failed.model == "extractive"
    assert HEADING not in failed.text
    earlier = [HumanMessage("- read a.py\nread src/b.py; ran pytest", name="earlier_notes")]
    condensed, _ = written(request_of(earlier, condenses=True))
    assert condensed.text == NOTES


@pytest.mark.parametrize("share", [TOOL_SHARE, 0.0])
def test_each_line_of_the_extracts_names_its_message_and_a_share_of_0_is_the_notes_alone(share):
    model = Scripted(answer=lambda _messages: NOTES)
    memory = TokenMemory(
        TokenBudget(context_window=4_000, shares=Shares(recent=0.01)),
        summarizer=ModelSummarizer(model, tool_share=share, min_messages=0),
    )
    said = AIMessage("The rate is a float. " * 60, id="a-long")
    end = [HumanMessage("Go on.", id="h2"), AIMessage("I do.", id="a2")]
    messages = [*agent_run(), said, *end]
    state = memory.compact(messages, force=True)
    (entry,) = state["summary"]["entries"]
    lines = dict(memory.sources(state, entry, messages).lines)
    found = [names for line, names in lines.items() if "find_order " in line]
    assert found == ([(reference(messages[5].id),)] if share else [])
    assert lines["- The assistant mends the totals."] == ()
