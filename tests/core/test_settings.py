"""Settings of a memory that cannot work are refused where they are given."""

from __future__ import annotations

import pytest

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.types import Trigger


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"budget": "8k"}, r"budget=TokenBudget\(context_window=8_000\)"),
        ({"recall_k": -1}, "recall_k is -1"),
        ({"recall_k": True}, "recall_k is True"),
        ({"trigger": 0.6}, r"such as Trigger\(fraction=0\.6\)"),
        ({"max_tail_messages": 5}, "the tail moves by 10"),
        ({"dangling": "keep"}, '"answer" or "drop"'),
        ({"recall_scope": "all"}, '"session" or "user"'),
        ({"max_wait_s": -1}, "max_wait_s is -1"),
        ({"summary_timeout_s": float("nan")}, "summary_timeout_s is nan"),
        ({"summary_timeout_s": None}, "summary_timeout_s is None"),
        ({"legality": "nobody"}, "nobody"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(setting, said):
    with pytest.raises(ConfigurationError, match=said):
        TokenMemory(**setting)


def test_settings_that_work_are_taken():
    budget = TokenBudget(8_000)
    memory = TokenMemory(
        budget, trigger=Trigger(messages=30), max_tail_messages=20, max_wait_s=0, dangling="drop"
    )
    assert (memory.budget, memory.max_wait_s) == (budget, 0)
    assert TokenMemory(trigger=None).policy.trigger is None


def test_a_number_is_the_budget_of_such_a_window():
    assert TokenMemory(8_000).budget == TokenMemory(budget=8_000).budget == TokenBudget(8_000)
