"""Operations on notes behind an entry: cut off, parsed, kept with it, and never in the way."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from langchain_tokenmem.summarize.base import NotesToCorrect
from langchain_tokenmem.summarize.model import ModelSummarizer
from langchain_tokenmem.summarize.note_operations import (
    MAX_OPERATIONS,
    as_operations,
    split_operations,
)
from tests.summarize import models
from tests.summarize.models import Scripted
from tests.summarize.test_model import request_of, talk

ENTRY = "## State\n- The assistant has fixed src/mod3.py."
ONE = {"op": "add", "section": "task", "text": "Fix it", "quote": "question 1"}
BLOCK = f"<note_operations>\n{json.dumps([ONE])}\n</note_operations>"
ITEM = {"text": "Fix mod1", "turn": 1, "source": 1, "by": "rule"}


def noting(messages, **fields):
    """Return a request in which the notes may be corrected."""
    notes = NotesToCorrect({"task": [ITEM], "errors": []}, range(1, len(messages) + 1))
    return request_of(messages, notes=notes, **fields)


@pytest.mark.parametrize(
    "answer",
    [
        f"{ENTRY}\n\n{BLOCK}",
        f"{BLOCK}\n{ENTRY}",
        f"{ENTRY}\n<note_operations>\n```json\n{json.dumps([ONE])}\n```\n</note_operations>",
        f"{ENTRY}\n<NOTE_OPERATIONS>{json.dumps({'operations': [ONE]})}",
    ],
)
def test_the_block_is_cut_off_wherever_it_stands(answer):
    assert split_operations(answer) == (ENTRY, (ONE,))


@pytest.mark.parametrize(
    "block",
    [
        *("", "none", "[", "[]", "[1, null, [], {}]", "{" * 5_000, "[" * 100_000, "[1e999]"),
        *('[{"op": "add"}]', '[{"op": "drop", "section": "task", "quote": "x"}]'),
        '[{"op": "add", "section": 7, "quote": "x"}]',
        '[{"op": "add", "section": "task", "quote": "x", "rejected": "no list"}]',
        '[{"op": "resolve", "section": "task", "quote": "x", "item": true}]',
        '[{"op": "add", "section": "task", "quote": "x", "item": 1.5}]',
        f'[{{"op": "add", "section": "task", "quote": "{"x" * 30_000}"}}]',
        f"[{'9' * 10_000}]",
    ],
    ids=lambda block: block[:20],
)
def test_a_block_that_is_blank_huge_or_of_another_form_is_none(block):
    answer = f"{ENTRY}\n<note_operations>{block}</note_operations>"
    assert split_operations(answer) == (ENTRY, ())


def test_a_list_holds_ten_operations_and_keys_that_nobody_asked_for_are_left_out():
    found = as_operations([{**ONE, "by": "application", "number": 7}] * 50)
    assert found == (ONE,) * MAX_OPERATIONS


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_answer_breaks_the_parser_and_nothing_of_a_block_stays(before, inside):
    text, _ = split_operations(f"{before}<note_operations>{inside}</note_operations>")
    assert "<note_operations>" not in text.removeprefix(before.strip())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["op", "section", "quote", "text", "item", "rejected"]), inner
            )
        ),
    )
)
def test_whatever_stands_in_the_block_what_is_taken_has_the_right_types(found):
    for one in as_operations(found):
        assert one["op"] in {"add", "replace", "resolve"}
        assert all(isinstance(one[key], str) for key in ("section", "quote"))


def test_the_call_that_writes_the_entry_returns_them_and_no_other_is_made():
    model = Scripted(answer=lambda _messages: f"{ENTRY}\n{BLOCK}")
    summary = ModelSummarizer(model).summarize(noting(talk(5)))
    assert (summary.text, summary.operations) == (ENTRY, (ONE,))
    assert (len(model.requests), summary.failures) == (1, ())
    order = str(model.requests[0][-1].content)
    assert "<working_notes>\ntask 1: Fix mod1\n</working_notes>" in order
    assert "Sections: task, errors." in order


def test_where_notes_may_not_be_corrected_the_answer_is_as_it_was():
    model = Scripted(answer=lambda _messages: f"{ENTRY}\n{BLOCK}")
    summary = ModelSummarizer(model).summarize(request_of(talk(5)))
    assert summary.operations == ()
    assert "Working notes" not in str(model.requests)


def test_a_block_in_a_reused_request_is_taken_with_the_settings_of_the_main_call():
    said = talk(5)
    model = Scripted(answer=lambda _messages: f"{ENTRY.replace('3', '1')}\n{BLOCK}")
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    request = noting(said[:4], sent=said, tools=[tool], settings={"temperature": 0})
    summary = ModelSummarizer(model, reuse_prefix=True).summarize(request)
    assert summary.operations == (ONE,)
    assert model.requests[0][: len(said)] == said
    assert model.kwargs[0] == {"tools": [tool], "temperature": 0}


@pytest.mark.slow
def test_a_long_batch_brings_those_of_its_parts_and_asks_for_none_in_the_merge():
    def answer(messages):
        return f"{models.faithful(messages)}\n{BLOCK if '<transcript>' in str(messages) else ''}"

    model = Scripted(answer=answer, profile={"max_input_tokens": 4_000})
    summary = ModelSummarizer(model).summarize(noting(talk(60, 60), max_tokens=300))
    leaves = [one for one in model.requests if "<transcript>" in str(one[-1].content)]
    others = [one for one in model.requests if one not in leaves]
    assert others
    assert "note_operations" not in str(others)
    assert len(summary.operations) == min(len(leaves), MAX_OPERATIONS)


def test_an_entry_that_is_corrected_keeps_its_operations():
    said = iter([f"- It is in `src/nowhere.py`.\n{BLOCK}", ENTRY])
    model = Scripted(answer=lambda _messages: next(said))
    summary = ModelSummarizer(model).summarize(noting(talk(5)))
    assert (summary.text, summary.operations) == (ENTRY, (ONE,))
    assert "note_operations" not in str(model.requests[1][-2:])


def test_an_entry_may_name_what_the_working_notes_name():
    model = Scripted(answer=lambda _messages: "## State\n- The error in src/old.py is fixed.")
    request = noting(talk(5))
    known = {"errors": [{**ITEM, "text": "pytest src/old.py fails"}]}
    summary = ModelSummarizer(model).summarize(
        replace(request, notes=NotesToCorrect(known, request.notes.numbers))
    )
    assert (summary.calls, summary.failures) == (1, ())


def test_a_block_without_an_entry_is_refused_and_the_fallback_has_no_operations():
    model = Scripted(answer=lambda _messages: AIMessage(BLOCK))
    summary = ModelSummarizer(model).summarize(noting(talk(5)))
    assert (summary.model, summary.operations) == ("extractive", ())
