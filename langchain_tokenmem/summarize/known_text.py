"""Lookup of literals in texts, whatever their spacing, quotes, separators and case.

A literal is known where its words stand in the texts one after the other. `getUserName`,
`get_user_name` and "get user name" are the same words; `1,299.50`, `1 299,50` and `1299.5` are the
same number; a path is known by its last component.
"""
# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal

NUMBER = re.compile(r"\d+(?:[.,'’\u00a0\u202f_]\d+)*")

_ESCAPED_SPACE = re.compile(r"\\+[nrt]")
_ESCAPED_MARK = re.compile(r"\\+([\"'/`])")
_THOUSANDS = re.compile(r"(?<=\d)[,'’_\u00a0\u202f](?=\d{3}(?!\d))")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W\d_]+|\d+")
_TOKEN = re.compile(r"[\w.'’-]+")
_ELLIPSIS = re.compile(r"\.{3,}|…|\*+")
_ENDINGS = ("s", "es", "ed", "ing", "'s")
_UNBOUND = 8
"""Characters from which a literal may stand inside of a longer word."""

_THOUSAND = 3
"""Digits behind a separator of thousands."""


class KnownText:
    """Texts in which literals are looked up.

    Args:
        texts: The texts.

    Example:
        >>> known = KnownText(["def getUserName(): ...  # src/users.py, 1,299.50 EUR"])
        >>> known.has_words("get_user_name"), known.has_path("/repo/src/users.py")
        (True, True)
        >>> known.has_number("1299.5"), known.has_number("1300.5")
        (True, False)
    """

    def __init__(self, texts: Iterable[str]) -> None:
        text = _THOUSANDS.sub("", plain("\n".join(texts)))
        words = words_of(text)
        self._phrases = f" {' '.join(words)} "
        self._squeezed = "".join(words)
        self._tokens = {"".join(words_of(token)) for token in _TOKEN.findall(text)}
        self._tokens.update(re.findall(r"[^\W\d_]+", text.casefold()))
        self._numbers = {one for found in NUMBER.findall(text) for one in values_of(found)}

    def has_words(self, literal: str) -> bool:
        """Return whether the words of a literal stand one after the other; an ellipsis parts it."""
        pieces = _ELLIPSIS.split(_THOUSANDS.sub("", plain(literal)))
        return all(self._has_piece(one) or self._has_piece(one.removesuffix("s")) for one in pieces)

    def has_path(self, path: str) -> bool:
        """Return whether a path is known: whole, or by its last component."""
        if self.has_words(path):
            return True
        parts = [part for part in re.split(r"[/\\]+", path) if part.strip(".~")]
        if not parts or not self.has_words(parts[-1]):
            return False
        return "." in parts[-1] or all(map(self.has_words, parts))

    def has_number(self, number: str) -> bool:
        """Return whether a number is known, as a rounded one, too, or as a share for a percent."""
        values = values_of(number)
        if not values.isdisjoint(self._numbers):
            return True
        return any(self._is_rounded(value) or self._is_scaled(value) for value in values)

    def _has_piece(self, piece: str) -> bool:
        words = words_of(piece)
        if not words:
            return True
        phrase, squeezed = " ".join(words), "".join(words)
        if f" {phrase} " in self._phrases or squeezed in self._tokens:
            return True
        if len(squeezed) >= _UNBOUND and squeezed in self._squeezed:
            return True
        stems = [phrase.removesuffix(end) for end in _ENDINGS]
        forms = {form for stem in stems for form in (stem, *(stem + end for end in _ENDINGS))}
        return any(f" {form} " in self._phrases for form in forms if form)

    def _is_rounded(self, value: Decimal) -> bool:
        digits = _fraction_digits(value)
        return any(
            _fraction_digits(one) > digits and round(float(one), digits) == float(value)
            for one in self._numbers
        )

    def _is_scaled(self, value: Decimal) -> bool:
        return not self._numbers.isdisjoint(map(value.scaleb, (-2, 2, 3, 6)))


def plain(text: str) -> str:
    """Return a text with one form of each character, and with the escapes of JSON undone."""
    text = unicodedata.normalize("NFKC", text)
    if "\\" not in text:
        return text
    return _ESCAPED_MARK.sub(r"\1", _ESCAPED_SPACE.sub(" ", text))


def words_of(text: str) -> list[str]:
    """Return the words of a text without case; humps, digits and underscores end a word."""
    return _WORD.findall(_HUMP.sub(" ", text).casefold())


def values_of(number: str) -> set[Decimal]:
    """Return what a number may mean: `1.299` is 1299, or 1.299.

    Example:
        >>> values_of("1,299.50") == {Decimal("1299.5")}
        True
        >>> sorted(map(str, values_of("1.299")))
        ['1.299', '1299']
    """
    groups, marks = re.split(r"\D+", number), re.findall(r"\D+", number)
    whole, last = "".join(groups[:-1]), groups[-1]
    found: set[Decimal] = set()
    if marks and marks.count(marks[-1]) == 1:
        found.add(Decimal(f"{whole}.{last}"))
    if len(last) == _THOUSAND and len(set(marks)) == 1:
        found.add(Decimal(whole + last))
    return found or {Decimal(whole + last)}


def _fraction_digits(value: Decimal) -> int:
    return len(f"{value.normalize():f}".partition(".")[2])
