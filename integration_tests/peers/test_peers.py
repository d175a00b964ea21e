"""Tests that other projects wrote for their parts, with ours in the place of those.

Run whole by `make nightly`; otherwise a tenth of each suite, chosen by the hash of the test's id.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pytest
from differences import Differences, complaints, read_list, slowed_down
from running import Outcome, Run, run
from sdists import UnavailableError, unpacked_tests
from suites import SUITES, Suite

IS_WHOLE = os.environ.get("TOKENMEM_PEERS") == "all"
MOST_EXPECTED = 35
"""Entries of the list now, 86 when it was frozen; 6 came with the suites of stores. It may only get
shorter."""
RUNS_OF_TIMED_TESTS = 3


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_a_suite_of_others_fails_only_where_it_is_expected_to(suite: Suite) -> None:
    listed = read_list()
    expected = listed.suites.get(suite.name, Differences({}))
    frozen, installed = listed.versions[suite.distribution], version(suite.distribution)
    if installed != frozen and not IS_WHOLE:
        pytest.skip(f"the list is of {suite.distribution} {frozen}, installed is {installed}")
    try:
        root = unpacked_tests(suite.distribution)
    except UnavailableError as error:
        pytest.skip(str(error))
    done = run(suite, root, share=1 if IS_WHOLE else 10)
    print(_summary(suite, done, expected))
    assert done.with_ours, f"No test of {suite.name} made a part of ours"
    outcomes = with_timed_again(suite, root, done.outcomes, expected)
    found = complaints(outcomes, expected, is_whole=IS_WHOLE)
    assert not found, "\n".join([f"{suite.name} {installed}, list of {frozen}:", *found])


def with_timed_again(
    suite: Suite, root: Path, outcomes: Mapping[str, Outcome], expected: Differences
) -> Mapping[str, Outcome]:
    """Return the outcomes, those of failed tests of times from further runs of these alone."""
    for _ in range(RUNS_OF_TIMED_TESTS):
        slow = slowed_down(outcomes, expected)
        if not slow:
            break
        again = run(suite, root, share=1, only=slow)
        print(
            f"again: {', '.join(f'{test} {one.outcome}' for test, one in again.outcomes.items())}"
        )
        outcomes = {**outcomes, **again.outcomes}
    return outcomes


def _summary(suite: Suite, done: Run, expected: Differences) -> str:
    outcomes = done.outcomes
    counts = Counter(one.outcome for one in outcomes.values())
    listed = sum(test in expected.reasons for test in outcomes)
    numbers = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
    about = f"{listed} of them on the list, {done.with_ours} made a part of ours"
    return f"{suite.name}: {numbers}; {about}"


def test_the_list_only_gets_shorter() -> None:
    entries = [len(suite.reasons) for suite in read_list().suites.values()]
    assert sum(entries) <= MOST_EXPECTED


def test_a_new_failure_a_listed_pass_and_a_lost_test_are_reported() -> None:
    expected = Differences({"a": "why", "b": "why", "d": "why"})
    outcomes = {
        "a": Outcome("failed", "as expected"),
        "b": Outcome("passed", ""),
        "e": Outcome("failed", "new"),
    }
    found = complaints(outcomes, expected, is_whole=True)
    assert [line.split("\n")[0] for line in found] == [
        "b passes now: take it off the list",
        "e fails and is not on the list:",
        "d is on the list and was not run",
    ]
    assert len(complaints(outcomes, expected, is_whole=False)) == 2


def test_a_timed_test_is_no_expected_difference() -> None:
    listed = read_list().suites
    assert [test for one in listed.values() for test in one.timed & one.reasons.keys()] == []
