"""Settings of a memory that cannot work are refused where they are given."""

from __future__ import annotations

import pytest

from langchain_tokenmem import Recall, TokenMemory, TranscriptStore
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.types import BackgroundSummaries, RequestRules


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"budget": "8k"}, r"budget=TokenBudget\(context_window=8_000\)"),
        ({"trigger": 0.6}, r'pass "auto", None'),
        ({"request": {"pin_first": False}}, r"request=RequestRules\(pin_first=False\)"),
        ({"max_wait_s": -1}, "max_wait_s is -1"),
        ({"now": 3}, "now is an int; pass a function"),
        ({"background": "yes"}, "background is a str; pass a BackgroundSummaries"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(setting, said):
    with pytest.raises(ConfigurationError, match=said):
        TokenMemory(**setting)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RequestRules(max_tail_messages=5), "the tail moves by 10"),
        (lambda: RequestRules(dangling="keep"), '"answer" or "drop"'),
        (lambda: RequestRules(legality="unknown"), "unknown"),
        (lambda: BackgroundSummaries(timeout_s=float("nan")), "timeout_s is nan"),
        (lambda: BackgroundSummaries(at_once=0), "at_once is 0"),
        (lambda: Recall(TranscriptStore("sqlite://"), scope="all"), '"session" or "user"'),
        (lambda: Recall(TranscriptStore("sqlite://"), k=-1), "k is -1"),
        (lambda: Recall(TranscriptStore("sqlite://"), k=True), "k is True"),
    ],
)
def test_a_value_for_several_settings_refuses_what_cannot_work(make, said):
    with pytest.raises(ConfigurationError, match=said):
        make()
