"""What the checksums and seals of rows are over, and references as they stand in rows."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from langchain_tokenmem.storage.checkpoints.shapes import from_ranges, to_ranges
from langchain_tokenmem.storage.transcripts.encoded_message import as_bytes

columns = st.none() | st.integers() | st.text(max_size=4) | st.binary(max_size=4)
rows = st.lists(columns, max_size=4)


def said(row):
    return [(type(value), value) for value in row]


@given(rows, rows)
@example(["1"], [1])
@example([b"a", b"b"], [b"ab", b""])
@example([b"a"], ["a"])
@example(["a", "b"], ["a', 'b"])
@example(["\ud800"], ["\\ud800"])
@example([b"12"], [b"1", b"2"])
def test_never_two_rows_with_the_same_bytes(one, other):
    assert (as_bytes(one) == as_bytes(other)) == (said(one) == said(other))


runs = st.builds(
    lambda first, step, count: [first + step * number for number in range(count)],
    st.integers(-600, 600),
    st.sampled_from([1, -1, 0, 2]),
    st.integers(1, 600),
)


@given(st.lists(runs, max_size=4), st.integers(0, 2_400))
@example([[5], [4], [5, 6], [5]], 3)
def test_references_come_back_as_they_were(found, size):
    numbers = [number for run in found for number in run]
    assert from_ranges(to_ranges(numbers)) == numbers
    assert to_ranges(numbers[size:], to_ranges(numbers[:size])) == to_ranges(numbers)


@given(st.integers(-2_000, 2_000), st.integers(2, 2_000), st.sampled_from([1, -1]))
def test_a_chat_that_was_only_added_to_is_one_range(first, count, step):
    last = first + step * (count - 1)
    assert to_ranges(range(first, last + step, step)) == f"{first}:{last}"
