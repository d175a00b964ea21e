"""When summaries are due: combined conditions, off, and the sliding window."""

from __future__ import annotations

import pytest

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.types import RequestRules
from tests import fakes
from tests.fakes import newest_entry, talk


def memory_of(**options) -> TokenMemory:
    return fakes.memory_of(4_000, **options)


def covered(memory, messages) -> int:
    summary = memory.compact(messages)["summary"]
    return summary["covered"] if summary else 0


@pytest.mark.parametrize(
    ("trigger", "due"),
    [
        (("messages", 30), True),
        (("messages", 90), False),
        (("tokens", 500), True),
        (("fraction", 0.2), True),
        ([("fraction", 0.7), ("messages", 30)], True),
        ({"fraction": 0.7, "messages": 30}, False),
        ({"fraction": 0.2, "messages": 30}, True),
        ((("fraction", 0.7), ("messages", 30)), True),
        ("auto", False),
    ],
)
def test_trigger_conditions_combine_by_any_or_all(trigger, due):
    memory = memory_of(trigger=trigger)
    messages = talk(30)
    assert 1_200 < memory.count(messages).tokens < 2_000
    assert (covered(memory, messages) > 0) == due


@pytest.mark.slow
def test_a_cap_on_the_tail_moves_in_batches_of_ten():
    memory = memory_of(request=RequestRules(max_tail_messages=30))
    messages, state, moved = [], None, []
    for n in range(100):
        messages = [*messages, *talk(n + 1)[-2:]]
        new = memory.compact(messages, state)
        tail = len(messages) - (new["summary"]["covered"] if new["summary"] else 0)
        assert tail <= 30
        if new is not state and new["summary"]:
            before = state["summary"]["covered"] if state and state["summary"] else 0
            if new["summary"]["covered"] != before:
                moved.append(new["summary"]["covered"] - before)
                assert newest_entry(new)["reason"] == "tail"
        state = new
    assert min(moved) >= 10
    assert len(moved) <= 20
