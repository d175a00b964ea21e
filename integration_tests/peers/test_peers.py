"""Tests that other projects wrote for their parts, with ours in the place of those.

Run whole by `make nightly`; otherwise every thirtieth test of most suites.
"""

import os
import tomllib
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest
from running import SUITES, Outcomes, Suite, UnavailableError, run, unpacked_tests

IS_WHOLE = os.environ.get("TOKENMEM_PEERS") == "all"
SHARE = 30
LIST = tomllib.loads(Path(__file__).with_name("expected_differences.toml").read_text("utf-8"))
MOST_EXPECTED = 28
"""Entries of the list now, 86 when it was frozen. It may only get shorter."""


def listed(kind: str, suite: str) -> list[str]:
    """Return the tests of a suite that are on the list."""
    return [test for one in LIST[kind] if one["suite"] == suite for test in one["tests"]]


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_a_suite_of_others_fails_only_where_it_is_expected_to(suite: Suite) -> None:
    frozen, installed = LIST["versions"][suite.distribution], version(suite.distribution)
    if suite.is_nightly and not IS_WHOLE:
        pytest.skip("make nightly runs it")
    if installed != frozen and not IS_WHOLE:
        pytest.skip(f"the list is of {suite.distribution} {frozen}, installed is {installed}")
    try:
        root = unpacked_tests(suite.distribution)
    except UnavailableError as error:
        pytest.skip(str(error))
    timed = listed("timed", suite.name)
    outcomes, made = run(suite, root, share=1 if IS_WHOLE else SHARE, left_out=timed)
    counts = Counter(outcome for outcome, _ in outcomes.values())
    print(f"{suite.name}: {dict(counts)}; {made} parts of ours were made")
    assert made, f"No test of {suite.name} made a part of ours"
    found = complaints(outcomes, {*listed("difference", suite.name)})
    assert not found, "\n".join([f"{suite.name} {installed}, list of {frozen}:", *found])


def complaints(outcomes: Outcomes, expected: set[str]) -> list[str]:
    """Return what a run shows that the list does not, one line for each test."""
    found = []
    for test, (outcome, text) in sorted(outcomes.items()):
        if outcome == "failed" and test not in expected:
            message = "\n    ".join(text.splitlines()[:12])
            found.append(f"{test} fails and is not on the list:\n    {message}")
        elif outcome == "passed" and test in expected:
            found.append(f"{test} passes now: take it off the list")
    gone = sorted(expected - outcomes.keys()) if IS_WHOLE else []
    return found + [f"{test} is on the list and was not run" for test in gone]


def test_the_list_only_gets_shorter_and_each_difference_has_a_reason() -> None:
    tests = [(one["suite"], test) for one in LIST["difference"] for test in one["tests"]]
    assert len(tests) == len({*tests}) <= MOST_EXPECTED
    assert all(one["reason"].strip() for one in LIST["difference"])
