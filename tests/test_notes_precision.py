"""The sheet of hand-judged items behind the precision that docs/modes.md promises."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

SHEET = Path(__file__).parents[1] / "benchmarks" / "notes_precision.csv"


def rows() -> list[dict[str, str]]:
    with SHEET.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_two_hundred_items_are_judged_each_once_with_a_reason() -> None:
    judged = rows()
    assert len(judged) == len({row["digest"] for row in judged}) == 200
    assert {row["judgement"] for row in judged} == {"right", "wrong"}
    assert all(row["reason"] for row in judged)


@pytest.mark.parametrize("section", ["decisions", "constraints", "assumptions", "facts"])
def test_of_what_rules_of_words_read_85_percent_are_right(section: str) -> None:
    verdicts = [row["judgement"] for row in rows() if row["section"] == section]
    assert verdicts.count("right") >= 0.85 * len(verdicts) > 0
