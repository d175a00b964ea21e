"""The text of a memory block: what fits in rank order, shown in time order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem.core.inserted_text import block_of
from langchain_tokenmem.core.search_units import Hit
from tests.fakes import CharCounter

START = datetime(2026, 5, 8, 23, 58, tzinfo=UTC)


def hit(seq: int, text: str = "words", role: str = "human", **more) -> Hit:
    moment = START + timedelta(minutes=seq)
    return Hit(f"m{seq}", "s", text, 1.0, role, more.pop("name", None), moment, seq, **more)


ASKED = ("launch", "budget")


def is_marked(later, first):
    *_, early, _day, late, _ = block_of([later, first], 10_000, len)["text"].splitlines()
    assert " (newer): " not in early
    return " (newer): " in late


@pytest.mark.parametrize(
    ("later", "is_newer"),
    [
        (hit(2, "The launch budget is 52,000 euros.", terms=ASKED), True),
        (hit(2, "The launch budget now includes travel.", terms=ASKED), True),
        (hit(2, "Is a launch budget of 52,000 euros too much?", terms=ASKED), False),
        (hit(2, "The launch budget is 40000 euros.", terms=ASKED), False),
        (hit(2, "The launch budget is 40,000 euros for 2026.", terms=ASKED), False),
        (hit(2, "The budget has 3 pages.", terms=("budget",)), False),
        (hit(2, "The launch budget is 52,000 euros.", "ai", terms=ASKED), False),
        (hit(2, "The launch budget is 52,000 euros.", name="Ada", terms=ASKED), False),
    ],
)
def test_what_updates_an_earlier_statement_of_its_speaker_is_marked(later, is_newer):
    assert is_marked(later, hit(0, "The launch budget is 40,000 euros.", terms=ASKED)) == is_newer


def test_a_statement_about_another_name_is_no_update():
    oslo, lund = (
        hit(seq, f"The launch budget of {place} is {seq + 40},000 euros.", terms=ASKED)
        for seq, place in ((2, "Oslo"), (0, "Lund"))
    )
    assert not is_marked(oslo, lund)


@given(st.lists(st.integers(1, 400), max_size=20), st.integers(0, 2_000))
def test_a_block_never_exceeds_its_share_and_rank_decides(sizes, most):
    found = [hit(n, "x" * size) for n, size in enumerate(sizes)]
    count = CharCounter().text
    block = block_of(found, most, count)
    assert count(block["text"]) <= most
    if not block["ids"]:
        assert block["text"] == ""
        return
    left_out = [n for n, one in enumerate(found) if one.message_id not in block["ids"]]
    better = found[: left_out[0]] if left_out else found
    assert [one.message_id for one in better] == block["ids"][: len(better)]
