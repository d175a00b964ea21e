"""The entry of a model: extracts of tool calls behind it, and no literal that was not said."""
# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.messages import reference
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.extractive import HEADING
from langchain_tokenmem.summarize.literal_check import (
    KnownText,
    known_text,
    unknown_literals,
    without_lines,
)
from langchain_tokenmem.summarize.model import TOOL_SHARE, ModelSummarizer
from langchain_tokenmem.summarize.prompts import render_message
from langchain_tokenmem.types import Shares
from tests.fakes import called
from tests.strategies import conversations
from tests.summarize.models import Scripted, blank

NOTES = "## State\n- The assistant repairs the totals."
RUN = [
    HumanMessage("Repair the totals of foreign orders in the shop, please.", id="h"),
    *called(1, "read_file", {"path": "src/shop/tax.py"}, "rate = 0.19\nledger_id: LEDGER-2207"),
    *called(2, "bash", {"command": "pytest tests/shop"}, "Exit code: 1\nAssertionError: 21.4"),
    *called(3, "find_order", {"email": "a@b.org"}, '{"order_id": "ORD-77120", "state": "open"}'),
    AIMessage("The rate is read as a float; that is why.", id="a-end"),
]


def count(text):
    return len(text) // 4


def request_of(messages, max_tokens=200, **more):
    return SummaryRequest(messages, max_tokens, count, **more)


def written(request, notes=NOTES, **options):
    model = Scripted(answer=notes)
    return ModelSummarizer(model, **options).summarize(request), model


def test_behind_a_models_notes_stand_files_commands_failures_and_values():
    summary, _ = written(request_of(RUN))
    notes, _, extracts = summary.text.partition(f"\n{HEADING}\n")
    assert (notes, summary.model) == (NOTES, "scripted")
    for shown in (
        *("read_file src/shop/tax.py → ", "LEDGER-2207", "find_order a@b.org → ", "ORD-77120"),
        "bash pytest tests/shop → failed: AssertionError: 21.4",
    ):
        assert shown in extracts
    assert "foreign orders" not in extracts  # what was said is the model's part


def test_a_talk_without_tools_is_the_models_alone_and_has_all_of_the_tokens():
    said = [HumanMessage(f"Where is parcel {n}? I asked before.", id=f"h{n}") for n in range(6)]
    summary, model = written(request_of(said))
    plain, other = written(request_of(said), tool_share=0.0)
    assert summary.text == plain.text == NOTES
    assert model.requests == other.requests


@pytest.mark.slow
@given(conversations(), st.integers(20, 300))
def test_notes_with_extracts_never_pass_the_entrys_tokens(messages, most):
    summary, _ = written(request_of(messages or [HumanMessage("Hello.")], most), min_messages=0)
    assert count(summary.text) <= most


def test_an_entry_of_the_fallback_and_a_condensed_one_have_no_extracts_behind():
    failed, _ = written(request_of(RUN), blank)
    assert failed.model == "extractive"
    assert HEADING not in failed.text
    earlier = [HumanMessage("- read a.py\nread src/b.py; ran pytest", name="earlier_notes")]
    condensed, _ = written(request_of(earlier, condenses=True))
    assert condensed.text == NOTES


@pytest.mark.parametrize("share", [TOOL_SHARE, 0.0])
def test_each_line_of_the_extracts_names_its_message_and_a_share_of_0_is_the_notes_alone(share):
    summarizer = ModelSummarizer(Scripted(answer=NOTES), tool_share=share, min_messages=0)
    memory = TokenMemory(TokenBudget(4_000, shares=Shares(recent=0.01)), summarizer=summarizer)
    messages = [*RUN, AIMessage("The rate is a float. " * 60, id="a-long")]
    messages += [HumanMessage("Go on.", id="h2"), AIMessage("I do.", id="a2")]
    state = memory.compact(messages, force=True)
    (entry,) = state["summary"]["entries"]
    lines = dict(memory.sources(state, entry, messages).lines)
    found = [names for line, names in lines.items() if "find_order " in line]
    assert found == ([(reference(messages[5].id),)] if share else [])
    assert lines["- The assistant repairs the totals."] == ()


# Literals that are not in the messages


READ = {"name": "read_file", "args": {"path": "src/shop/tax.py"}, "id": "c"}
SAID = [
    HumanMessage("Fix `src/shop/cart.py` for order ORD-4711, it costs $1,299.50."),
    AIMessage("I read it.", tool_calls=[READ]),
    ToolMessage('KeyError: "vat_rate" in get_total, line 3141, 0.85 of all', tool_call_id="c"),
    AIMessage('The user says "keep it simple, please". It is fixed in v2.14.0 for 18 shops.'),
]
GOOD = "- The order ORD-4711 is about src/shop/cart.py."
MADE_UP = "- The file src/shop/vouchers.py is new."


def unknown(text, **more):
    return unknown_literals(text, known_text(request_of(SAID, **more)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`src/shop/vouchers.py` is new", ["src/shop/vouchers.py"]),
        ("the order ORD-4712", ["ORD-4712"]),
        ("it costs $1,399.50", ["1,399.50"]),
        ("`get_sum` fails", ["get_sum"]),
        ("getSum fails, it is fixed in v2.15.0", ["getSum", "v2.15.0"]),
        ('The user says "never use the old API"', ["never use the old API"]),
        ("calls `pytest tests/test_cart.py`", ["tests/test_cart.py"]),
        ("mail ada@example.org, see https://a.org/b", ["ada@example.org", "https://a.org/b"]),
    ],
)
def test_a_literal_that_is_not_in_the_messages_is_found(text, found):
    assert unknown(f"- {text} and more.") == found


@pytest.mark.parametrize(
    "text",
    [
        "edits `cart.py`, **/repo/src/shop/cart.py** and ./src/shop/cart.py:3141",
        "1299.50, $1,299.5, 1 299.5, 1’299.50 and about 1,300 dollars",
        "`getTotal`, get-total, `get total`, GET_TOTAL and get_total() with VatRate",
        "“Keep it simple, please”, 'keep it simple' and „Keep it simple“",
        "on 2026-11-20 at 10:05, May 20, 2024, 20. Mai 2024, 3 pm, in 45 minutes, in 2025",
        "17 tests, 250 files, 14 of 15, 3 open questions, the 21st try, step 4",
        "a total of 4,512 and a sum of 99: 17 + 82 = 99",
        "85 % and 85% of all, v2.14.0, read/write and/or input/output",
        "src/shop/…/tax.py and src/**/*.py, it's the assistants' own well-known step-by-step way",
    ],
)
def test_another_form_of_what_was_said_dates_counts_and_sums_are_never_refused(text):
    assert unknown(f"- The entry says {text}.") == []


def test_the_log_the_first_request_and_what_the_application_wrote_are_known_and_no_more():
    front = [SystemMessage("Use form_55."), HumanMessage("Ship parcel_77 now.")]
    sent = [*front, AIMessage("See depot_88."), *SAID]
    text = "- parcel_77, depot_88, note_99, rule_66 and form_55"
    more = {"sent": sent, "prior": "- note_99", "instruction": "Keep rule_66."}
    assert unknown(text, **more) == ["depot_88"]
    assert unknown(text) == ["parcel_77", "depot_88", "note_99", "rule_66", "form_55"]


@given(conversations(8), st.integers(0, 10_000))
def test_a_line_that_was_said_is_never_refused(messages, place):
    known = KnownText(map(render_message, messages))
    lines = [one for m in messages for one in render_message(m).split("\n") if one.strip()]
    line = lines[place % len(lines)] if lines else ""
    assert unknown_literals(f"- {line}", known) == []


WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=3, max_size=3)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS).map(lambda w: "{}_{}/{}.py".format(*w)), max_size=5))
def test_what_is_left_of_an_entry_never_has_a_literal_that_is_not_in_the_messages(paths):
    known = KnownText(paths[::2])
    lines = [f"- The file {path} is read, {json.dumps(path)}" for path in paths]
    text = "\n".join(["## Files", *lines])
    left, dropped = without_lines(text, lambda line: bool(unknown_literals(line, known)))
    assert unknown_literals(left, known) == []
    assert all(unknown_literals(line, known) for line in dropped)
    assert all(path in left for path in paths[::2])


@pytest.mark.parametrize(
    "run",
    [
        *("a", "1", "-", "`", '"', "1 ", "a.", "/", "aA", "@a"),
        pytest.param("1,111", marks=pytest.mark.slow),
    ],
)
def test_one_long_run_of_anything_is_checked_in_no_time(run):
    started = time.process_time()
    unknown_literals(f"- x {run * 2_000}", KnownText(["x"]))
    assert time.process_time() - started < 1


def test_a_refused_bullet_goes_with_its_lines_and_an_empty_heading():
    text = (
        "## Files\n- bad.py\n  - of bad.py\n\n## State\nIt is done. See bad.py now! All is well.\n"
        "- good\n  - bad.py again\n  - fine"
    )
    left, dropped = without_lines(text, lambda line: "bad.py" in line)
    assert left == "## State\nIt is done. All is well.\n- good\n  - fine"
    assert dropped == ["- bad.py", "See bad.py now!", "  - bad.py again"]


def test_a_made_up_literal_is_named_in_one_more_call():
    good = f"## State\n{GOOD}"
    summary, model = written(request_of(SAID), [f"{good}\n{MADE_UP}", good], tool_share=0.0)
    assert (summary.text, summary.calls, summary.model) == (good, 2, "scripted")
    first, second = model.requests
    assert second[: len(first)] == first
    assert [one.type for one in second[len(first) :]] == ["ai", "human"]
    assert '"src/shop/vouchers.py"' in str(second[-1].content)
    assert "src/shop/vouchers.py" in summary.failures[0]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("kept", [f"\n## State\n{GOOD}", ""], ids=["some", "all"])
async def test_bullets_with_made_up_literals_are_dropped_after_one_retry(later, kept):
    """An entry of made-up literals alone is written by the fallback."""
    model = Scripted(answer=f"## Files\n{MADE_UP}{kept}")
    writer, request = ModelSummarizer(model, tool_share=0.0), request_of(SAID, 300)
    summary = await writer.asummarize(request) if later else writer.summarize(request)
    assert (len(model.requests), summary.model) == (2, "scripted" if kept else "extractive")
    assert summary.text == kept.strip() or not kept
    assert "vouchers" not in summary.text
    assert any("vouchers" in why and "left out" in why for why in summary.failures) or not kept
