"""Sentences of a message as the rules of words see them, and checks that several rules share."""

# ruff: noqa: RUF001 - the apostrophes and dashes of other scripts are meant as they stand

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from langchain_tokenmem.core.facts.sentences import (
    any_of,
    one_line,
    prose,
    prose_lines,
    split_sentences,
    strip_bullet,
    words_of,
)

MAX_ITEM = 200
"""Most characters of an item."""

_HEAD, _TAIL = 6_000, 3_000
"""Characters at either end of a message that are read; what stands between is a pasted document."""
_CODE = re.compile(
    r"\s{4,}|\d+[:|]|>>>|[$#%] |(?:def|class|return|import|from|if|for|while|const|let|var|print|"
    r"public|private|SELECT|INSERT|self)\b(?=.*[=;:(){}]\s*)|[\w.]+\(|[<{}\[|@]|.*(?:[;{}\\]|\)\s*:)$"
)
_SPACED = re.compile(r"[^\W\d_]{2,}")
_FEWEST_WORDS = 2
_LABELLED_NUMBER = re.compile(r"[^\W\d_]{3,20} ?[:=] ?[$€£]?\d")
"""`Budget: $50k` has one word and says it all."""


WORD_END = r"(?:(?<=['’])|(?!\w))"
"""End of a word of the vocabulary; no border stands behind an apostrophe: `qu'il`."""


@cache
def pattern(table: str, *, start: bool = False) -> re.Pattern[str]:
    """Return a pattern for the words of a table of the vocabulary, between borders.

    Args:
        table: Name of the table.
        start: Whether it is matched at the beginning of a clause only.
    """
    border = "" if start else r"(?<![\w’'])"
    return re.compile(rf"{border}{any_of(table)}{WORD_END}", re.IGNORECASE)


_CHOICE_STEMS = tuple(words_of("choice_stem"))


def note_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a message, each on one line: prose only, no code and no logs.

    Args:
        text: What was said; of a long text both ends are read.
    """
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n\n{text[-_TAIL:]}"
    for line in prose_lines(prose(text)):
        if _CODE.match(line):
            continue
        bare, _ = strip_bullet(line)
        for sentence in split_sentences(bare):
            words = _SPACED.findall(sentence)
            if len(words) >= _FEWEST_WORDS or _LABELLED_NUMBER.match(sentence):
                yield sentence


def is_question(sentence: str) -> bool:
    """Return whether a sentence ends as a question."""
    return sentence.rstrip("\"')*_ ").endswith(("?", "？"))


def needs_context(text: str) -> bool:
    """Return whether a text points at something outside of itself."""
    return bool(pattern("needs_context").search(text))


def speaks_to_you(text: str) -> bool:
    """Return whether a text speaks to or of the other one."""
    return bool(pattern("your_words").search(text))


def as_item(text: str) -> str:
    """Return a text as an item: one line, without marks at its ends, cut to `MAX_ITEM`."""
    return one_line(text.strip(" \t,;:.!*–—_-"), MAX_ITEM)


def may_choose(text: str) -> bool:
    """Return whether a text has the stem of any word of a decision or an assumption.

    A look for stems is some twenty times faster than one by the patterns of these words.
    """
    lowered = text.lower()
    for stem in _CHOICE_STEMS:  # noqa: SIM110  # `any` of a generator takes twice as long
        if stem in lowered:
            return True
    return False
