"""What the checksums and seals of rows are over."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from langchain_tokenmem.storage.rows import as_bytes

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
