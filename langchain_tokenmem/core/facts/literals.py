"""Identifiers: words that can only be copied, such as paths, ids, addresses and long numbers.

Every shape starts at a border, so a long run without one is tried once and not at each of its
characters. Borders and path letters leave out Chinese, Japanese and Korean, where no space ends a
literal. Every repetition has an upper bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from langchain_tokenmem.core.facts.sentences import NOT_NAMES, any_of

_WORD = re.compile(
    r"""
    https?://[^\s"'<>()\[\]{},\\]{1,200}                        # addresses
    | [\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}           # of mail
    | [~.]{0,2}/?[\w.@+-]{0,80}\w(?:/[\w.@+-]{0,80}\w){1,20}    # paths
    | (?<![\w/])/[\w.@+-]{0,80}\w
    | \d{1,3}(?:,\d{3})+(?:\.\d{1,9})?                          # numbers
    | \#?[A-Za-z0-9_]\w{0,80}(?:[.-]\w{1,60}){0,12}             # and identifiers
    """,
    re.VERBOSE,
)
_WORD_OF_A_DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[T ]?\d\d?(?::\d\d)*.*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{4}/\d\d/\d\d"
)
_NUMBER = re.compile(r"\d[\d.,-]*")
_MIXED = re.compile(r"#?\w*(?:_\w|[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z])\w*")
_CAPITALS = re.compile(r"[A-Z]{3,}\w*")
_DOTTED = re.compile(
    r"[A-Za-z_]\w+(?:[.-]\w+)*\.[A-Za-z_]\w+|\w*\d\w*(?:[.-]\w+)+|\w+(?:-\w+)*-\w*\d\w*"
)
_KEY = re.compile(r"([A-Za-z_][\w-]{0,40})[\"'*` ]{0,3}[:=][\s\"'*`\[({$#]{0,8}$")
_FILE = re.compile(rf"[\w.-]+\.{any_of('extension')}")
_BEFORE = 60
_MIN_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Identifier:
    """A word of a text that can only be copied.

    Attributes:
        text: The word.
        kind: `path`, `address`, `id`, `name`, `number` or `capitals`.
        start: Its offset in the text in which it was found, in characters.
        key: The key before it, as in `"order_id": "#W1"`; empty where there is none.
    """

    text: str
    kind: str
    start: int
    key: str = ""


def kind_of(word: str) -> str | None:
    """Return the kind of a word, or `None` where it can be guessed: plain words, dates, counts.

    Example:
        >>> [kind_of(word) for word in ("src/app.py", "order_id", "W4711", "1,250", "table")]
        ['path', 'name', 'id', 'number', None]
    """
    if word.isalpha() and word[1:].islower():  # most words, and none of the patterns below
        return None
    if len(word) < 3 or _WORD_OF_A_DATE.fullmatch(word):  # noqa: PLR2004
        return None
    if _NUMBER.fullmatch(word):
        return "number" if sum(map(str.isdigit, word)) >= _MIN_DIGITS else None
    rules = (
        ("address", "@" in word or "://" in word),
        ("path", "/" in word or _FILE.fullmatch(word)),
        ("name", "." in word and not any(map(str.isdigit, word)) and _DOTTED.fullmatch(word)),
        ("id", _DOTTED.fullmatch(word)),
        ("id", any(map(str.isdigit, word)) and _MIXED.fullmatch(word)),
        ("name", _MIXED.fullmatch(word)),
        ("capitals", _CAPITALS.fullmatch(word)),
    )
    return next((kind for kind, holds in rules if holds), None)


def find_identifiers(text: str) -> Iterator[Identifier]:
    """Yield the identifiers of a text in their order, each time that they stand there."""
    for match in _WORD.finditer(text):
        word = match[0].rstrip(".-")
        kind = kind_of(word)
        if kind:
            start = match.start()
            key = _KEY.search(text, max(0, start - _BEFORE), start)
            yield Identifier(word, kind, start, key[1] if key else "")


def words_of(text: str) -> set[str]:
    """Return the identifiers of a text, each once."""
    return {one.text for one in find_identifiers(text)}


def capitalises_nouns(text: str) -> bool:
    """Return whether so many words inside sentences are capitalised that it says nothing.

    Args:
        text: The text; its first 4,000 characters are looked at.

    Returns:
        True for German-like text, also for titles and lists of names.
    """
    words = text[:4000].split()
    inside = [word for before, word in pairwise(words) if before[-1:].isalpha()]
    letters = [word for word in inside if word[:1].isalpha()]
    capitals = sum(word[:1].isupper() and word not in NOT_NAMES for word in letters)
    return len(letters) > 20 and capitals > 0.22 * len(letters)  # noqa: PLR2004
