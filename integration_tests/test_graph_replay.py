"""The recordings through middleware, nodes and history door: accepted by strict fakes, one view.

Every recording under every provider family at every window; `replaying` does the work, in two
processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from replaying import (
    FAMILIES,
    FILE,
    WINDOWS,
    Case,
    conversations,
    is_plain,
    is_refused_unshaped,
    moments,
    play,
    play_middleware,
    play_whole,
    three_hundred_rounds,
)

from langchain_tokenmem.cli.audit import audit

WORKERS = 2

needs_recordings = pytest.mark.skipif(
    not FILE.exists(), reason=f"the recordings are kept outside of the project, {FILE} is not there"
)


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        yield pool


@needs_recordings
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_strict_provider_accepts_every_request_and_the_doors_give_the_same_views(
    pool, family, window
):
    # The history door is the slow one: its families take turns over the recordings, so that each
    # recording goes through it at each window, and each family meets a fifth of them.
    turn = FAMILIES.index(family) + WINDOWS.index(window)
    cases = [
        Case(number, family, window, with_history=(number + turn) % len(FAMILIES) == 0)
        for number in range(len(conversations()))
    ]
    outcomes = list(pool.map(play, cases, chunksize=4))
    recorded = sum(len(moments(one.messages)) for one in conversations())
    assert sum(outcome.calls for outcome in outcomes) == recorded > 1_000
    # At the small windows the replay proves nothing unless history really is folded there.
    if window < max(WINDOWS):
        assert sum(outcome.folded for outcome in outcomes) > 10


@needs_recordings
@pytest.mark.parametrize("family", FAMILIES)
def test_rough_recordings_are_accepted_too_and_the_familys_own_rules_are_why(pool, family):
    cases = [
        Case(number, family, 8_000, rough=True) for number in range(0, len(conversations()), 4)
    ]
    refused = pool.map(is_refused_unshaped, cases[::3])
    assert sum(outcome.calls for outcome in pool.map(play, cases)) > 300
    assert any(refused)


@needs_recordings
def test_whole_agents_and_graphs_send_what_the_middleware_alone_would(pool):
    plain = [n for n, one in enumerate(conversations()) if is_plain(one.messages)][::8]
    cases = [
        Case(number, FAMILIES[turn % len(FAMILIES)], (4_000, 8_000)[turn % 2])
        for turn, number in enumerate(plain)
    ]
    assert len(cases) >= 10
    assert sum(pool.map(play_whole, cases)) > 100


@needs_recordings
@pytest.mark.parametrize("family", ["openai", "anthropic"])
def test_the_common_audit_agrees_where_nothing_is_reshaped(family):
    for recording in conversations()[::23]:
        for place, request in zip(
            moments(recording.messages),
            play_middleware(recording.messages, family, 8_000),
            strict=True,
        ):
            assert audit(recording.messages[:place], request) == []


def test_three_hundred_rounds_with_giant_results_neither_overflow_nor_break(pool):
    for messages, calls, limit, most in pool.map(three_hundred_rounds, ["openai", "mistral"]):
        assert (messages, calls) == (602, 301)
        assert most <= limit <= 16_000
