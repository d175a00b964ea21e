"""Counts corrected by what replies report, over the shared recordings of agents."""

from __future__ import annotations

import random
from functools import cache

import pytest

from integration_tests.replaying import DATA
from integration_tests.reported_usage import TRUTHS, Request, quantile, requests
from langchain_tokenmem.cli.replay import load_conversations

FILES = ("transcripts_dev", "transcripts_other_dev", "transcripts_long_first_dev")
RECORDINGS = 30
WINDOWS = (8_000, 32_000)
MOST_ERROR = 0.06
MARGIN = 0.10

pytestmark = pytest.mark.skipif(
    not all((DATA / f"{name}.jsonl.gz").exists() for name in FILES),
    reason=f"the shared recordings are not in {DATA}; TOKENMEM_DATA names their folder",
)


@cache
def played(truth: str, window: int, *, reports: bool = True) -> tuple[Request, ...]:
    found = [one for name in FILES for one in load_conversations(DATA / f"{name}.jsonl.gz")]
    chosen = random.Random(16).sample(found, RECORDINGS)
    return tuple(
        request
        for one in chosen
        for request in requests(one, TRUTHS[truth], window, reports=reports)
    )


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("truth", TRUTHS)
def test_no_request_is_under_the_truth_by_more_than_the_margin(truth, window):
    found = played(truth, window)
    assert len(found) == 386
    assert max(one.true - one.counted for one in found) <= MARGIN * window
    assert max(one.true for one in found) <= window - window // 10


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("truth", TRUTHS)
def test_after_three_replies_95_of_100_requests_are_met_within_six_per_cent(truth, window):
    errors = [abs(one.error) for one in played(truth, window) if one.replies >= 3]
    bare = [abs(one.error) for one in played(truth, window, reports=False)]
    assert len(errors) == 296
    assert quantile(errors, 0.95) <= MOST_ERROR
    assert quantile(errors, 0.5) <= 0.005
    assert quantile(errors, 0.5) < 0.5 * quantile(bare, 0.5)
