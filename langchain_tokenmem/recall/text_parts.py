"""The text of a message that is indexed, and the overlapping parts of a long one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import regex

from langchain_tokenmem.core.inserted_text import FENCES
from langchain_tokenmem.core.search_units import MOST_PARTS, IndexSource

PART_TOKENS = 256
"""Tokens of a part: a paragraph or two, enough for a sentence and what it is about."""

OVERLAP_TOKENS = 48
"""Tokens that two parts share, so that a sentence is complete in one of them."""

PASSAGE_TOKENS = 80
"""Minimum tokens shown of a part, about a third of it: the sentence that matches, and
what it is about. On BEAM more hits fit, with more words of the answers in 1,024 tokens."""

_FENCED = regex.compile(rf"<({FENCES})\b[^>]*>.*?</\1>", regex.DOTALL | regex.IGNORECASE)
_INDEXED_ROLES = frozenset({"human", "ai", "tool", "document"})

# Roughly o200k's splitting, without a vocabulary, so that an index never depends on one.
_PIECES = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]|\s*\p{N}{1,3}|\s*[\p{L}\p{M}]{1,7}"
    r"|\s*[^\s\p{L}\p{M}\p{N}]{1,2}|\s+"
)
_BREAKS = regex.compile(r"\n\s*\n|\n|(?<=[.!?。\uff01\uff1f])\s*")


def indexable_text(source: IndexSource) -> str:
    """Return the text to index: empty for system messages, and without what the memory inserted."""
    if source.role not in _INDEXED_ROLES:
        return ""
    text = source.text
    return _FENCED.sub(" ", text).strip() if "</" in text else text.strip()


def rough_tokens(text: str) -> int:
    """Estimate the tokens of a text without a vocabulary.

    Example:
        >>> rough_tokens("Where did we fix the errors?")
        7
    """
    return sum(1 for _ in _PIECES.finditer(text))


def parts_of(text: str) -> list[str]:
    """Return a short text as one part, a long one in overlapping parts.

    A part has about `PART_TOKENS` tokens and ends at a paragraph, line or sentence if there is one
    in its second half. Texts of over 800,000 tokens have longer parts.
    """
    if len(text) <= PART_TOKENS + OVERLAP_TOKENS:  # no text has more tokens than characters
        return [text]
    ends = [match.end() for match in _PIECES.finditer(text)]
    if len(ends) <= PART_TOKENS + OVERLAP_TOKENS:
        return [text]
    size = max(PART_TOKENS, 2 * len(ends) // MOST_PARTS)
    overlap = size * OVERLAP_TOKENS // PART_TOKENS
    parts: list[str] = []
    start = 0
    while True:
        if len(ends) - start <= size + overlap:
            parts.append(text[_at(ends, start) :])
            return parts
        end = _end(text, ends, start, size)
        parts.append(text[_at(ends, start) : _at(ends, end)])
        start = end - overlap


def _at(ends: list[int], token: int) -> int:
    return ends[token - 1] if token else 0


def _end(text: str, ends: list[int], start: int, size: int) -> int:
    """Return where a part ends (exclusive, in tokens), at a break in the text if possible."""
    half, last = _at(ends, start + size // 2), _at(ends, start + size)
    breaks = [match.end() for match in _BREAKS.finditer(text, half, last) if match.end() > half]
    if not breaks:
        return start + size
    for token in range(start + size, start + size // 2, -1):
        if _at(ends, token) <= breaks[-1]:
            return token
    return start + size


def passage_of(part: str, matches: Callable[[str], bool]) -> str:
    """Return a part from its first sentence that matches to the last one.

    A passage of fewer than `PASSAGE_TOKENS` is extended by the sentences around it; a part without
    a matching sentence is returned whole.

    Example:
        >>> about = "We met. " + "The key is under the mat. " * 9 + "It rains. " * 40
        >>> passage_of(about, lambda sentence: "key" in sentence).count("key")
        9
    """
    sentences = sentences_of(part)
    found = [at for at, sentence in enumerate(sentences) if matches(sentence)]
    if not found:
        return part
    first, last = found[0], found[-1]
    while rough_tokens(passage := "".join(sentences[first : last + 1])) < PASSAGE_TOKENS:
        if (first, last) == (0, len(sentences) - 1):
            break
        first, last = max(first - 1, 0), min(last + 1, len(sentences) - 1)
    return passage.strip()


def sentences_of(text: str) -> list[str]:
    """Return the sentences and lines of a text, each with its trailing white space."""
    ends = [0, *dict.fromkeys([*(match.end() for match in _BREAKS.finditer(text)), len(text)])]
    return [text[start:end] for start, end in pairwise(ends)]
