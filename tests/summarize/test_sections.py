"""The text of a summary is read back as it was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem.summarize.extractive.sections import (
    Line,
    Section,
    format_lines,
    parse_summary,
)

TEXTS = st.one_of(
    st.text(min_size=1, max_size=60),
    st.sampled_from(["User: x", "AI: y", "AI: User: z", "- a", "## Done", "Also mentioned: a; b"]),
).map(lambda text: " ".join(text.split()))
WORDS = TEXTS.filter(lambda text: text and ";" not in text)
LINES = st.one_of(
    st.builds(Line, TEXTS.filter(bool), st.sampled_from(Section), by_user=st.booleans()),
    st.builds(Line, WORDS, st.just(Section.FACTS), by_user=st.booleans(), bare=st.just(value=True)),
)


@given(st.lists(LINES, min_size=1, max_size=12))
def test_format_and_parse_are_inverse(lines: list[Line]) -> None:
    read = parse_summary(format_lines(lines))
    assert sorted(read, key=repr) == sorted(lines, key=repr)
    assert format_lines(read) == format_lines(lines)


def test_a_foreign_summary_keeps_what_its_headings_say() -> None:
    text = (
        "# Summary\n## Key decisions\n- Use Postgres.\n**Pending:**\n* Write the docs.\nFree prose."
    )
    assert parse_summary(text) == [
        Line("- Use Postgres.", Section.DECISIONS),
        Line("* Write the docs.", Section.OPEN),
        Line("Free prose.", Section.OPEN),
    ]
