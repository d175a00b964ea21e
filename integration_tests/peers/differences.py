"""The list of expected differences, and the comparison of a run with it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from running import Outcome

LIST = Path(__file__).with_name("expected_differences.toml")


@dataclass(frozen=True)
class Differences:
    """What is expected to fail in one suite: reasons by test id.

    `timed` tests assert how long something takes and have to pass, one of a few times.
    """

    reasons: Mapping[str, str]
    timed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Expected:
    """The whole list: versions by distribution, differences by suite."""

    versions: Mapping[str, str]
    suites: Mapping[str, Differences]


def read_list(text: str | None = None) -> Expected:
    """Read the list.

    Raises:
        ValueError: When a test is named twice in a suite or a reason is missing.
    """
    held = tomllib.loads(LIST.read_text(encoding="utf-8") if text is None else text)
    suites: dict[str, Differences] = {}
    for entry in held["difference"]:
        of_suite = suites.get(entry["suite"], Differences({}))
        reason = " ".join(entry["reason"].split())
        again = sorted(of_suite.reasons.keys() & set(entry["tests"]))
        if again or not reason:
            raise ValueError(f"{entry['suite']}: {again or entry['tests']} twice or no reason")
        reasons = {**of_suite.reasons, **dict.fromkeys(entry["tests"], reason)}
        suites[entry["suite"]] = Differences(reasons)
    for entry in held["timed"]:
        of_suite = suites.get(entry["suite"], Differences({}))
        suites[entry["suite"]] = replace(of_suite, timed=frozenset(entry["tests"]))
    return Expected(held["versions"], suites)


def slowed_down(outcomes: Mapping[str, Outcome], expected: Differences) -> list[str]:
    """Return the timed tests that failed: a busy machine breaks them with any saver."""
    return sorted(
        t for t, one in outcomes.items() if one.outcome == "failed" and t in expected.timed
    )


def complaints(
    outcomes: Mapping[str, Outcome], expected: Differences, *, is_whole: bool
) -> list[str]:
    """Return what a run shows that the list does not, one line for each test.

    Args:
        outcomes: The outcomes by test id.
        expected: The list of the suite.
        is_whole: Whether every test was run, so that a listed one has to be among them.
    """
    found = []
    for test, one in sorted(outcomes.items()):
        if one.outcome == "failed" and test not in expected.reasons:
            found.append(f"{test} fails and is not on the list:\n    {_indented(one.message)}")
        elif one.outcome == "passed" and test in expected.reasons:
            found.append(f"{test} passes now: take it off the list")
    if is_whole:
        gone = sorted(expected.reasons.keys() - outcomes.keys())
        found += [f"{test} is on the list and was not run" for test in gone]
    return found


def _indented(message: str) -> str:
    return "\n    ".join(message.splitlines()[:12])
