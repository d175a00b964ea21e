"""Identifiers in the texts of tools: words that can only be copied, with the key that names them.

One plain pattern, so that long results are read at a megabyte a second; prose is read by
`literals.find_literals`, which knows more shapes and their kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from langchain_tokenmem.core.facts.vocabulary import any_of

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
_DATE = re.compile(
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

WEIGHTS = {"path": 1.0, "address": 0.9, "id": 1.0, "name": 0.6, "number": 0.35, "capitals": 0.25}
"""Worth of an identifier by its kind: how likely an agent passes it to a tool again."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """A word of a text that can only be copied.

    Attributes:
        text: The word.
        kind: A key of `WEIGHTS`.
        start: Where it stands in the text that it was found in.
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
    if len(word) < 3 or _DATE.fullmatch(word):  # noqa: PLR2004
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
