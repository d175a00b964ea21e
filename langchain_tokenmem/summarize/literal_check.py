"""Check of an entry's literals: paths, identifiers, numbers and quotes that no one said.

A model that writes notes can make up a path or a number that looks right. Literals that are neither
in the noted messages, nor in the earlier notes, nor in the first request are refused. Dates, times,
counts and sums are not checked: a summary may put them differently.
"""
# ruff: noqa: RUF001 - the punctuation of other scripts is intended

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise

from langchain_tokenmem.core.facts.sentences import Identifier, find_identifiers, kind_of
from langchain_tokenmem.core.facts.tool_results import unescaped
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.tool_calls import tool_name
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.prompts import render_message

NUMBER = re.compile(r"\d+(?:[.,'’\u00a0\u202f_]\d+)*")

_THOUSANDS = re.compile(r"(?<=\d)[,'’_\u00a0\u202f](?=\d{3}(?!\d))")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W\d_]+|\d+")
_TOKEN = re.compile(r"[\w.'’-]+")
_ELLIPSIS = re.compile(r"\.{3,}|…|\*+")
_ENDINGS = ("s", "es", "ed", "ing", "'s")
_UNBOUND = 8
"""Characters from which a literal may be part of a longer word."""

_THOUSAND = 3
"""Digits after a thousands separator."""


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
        """Return whether the words of a literal follow one another; an ellipsis splits it."""
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
        """Return whether a number is known, even rounded, or as a share for a percentage."""
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
    """Return a text on one line, with one form of each character, and without escapes of JSON."""
    return unescaped(unicodedata.normalize("NFKC", text)).replace("\n", " ")


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


_ASIDE = re.compile(
    r"""
    (?<=\w):\d+(?:[:-]\d+)*                                          # times, lines of a file
    | \b\d+(?:[.,]\d+)?[\s-](?:ms|s|h|(?:sec|second|min|minute|hr|hour|day|week|month|year)s?)\b
    | (?<![\w$€£\#.,/-])\d{1,9}(?:,\d{3}){0,3}(?=\s                     # counts of things
        (?!(?:dollar|euro|pound|cent|point|token|byte|pixel|meter|mile|degree|gramm?)s\b)
        (?:(?:out\s)?of\s|[^\W\d_]{1,30}(?:-[^\W\d_]{1,30}){0,3}\s){0,2}
        (?:the\s)?[^\W\d_]{3,}(?:s|ren|eople)\b)
    | \b\d{1,9}\s?(?:/|of|out\ of)\s?\d{1,9} | \b\d{1,9}\s?[x×](?!\w)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""What a summary may put differently."""

_SUM = re.compile(
    r"\b(?:total|totals|totalling|totaling|sum|sums|altogether|combined|overall|difference|remaining"
    r"|average|mean|approximately|about|around|roughly)\b|[~≈±]",
    re.IGNORECASE,
)
_NEAR = 60
"""Characters between a number and the word that makes it a sum."""

_QUOTE = re.compile(
    r"""(?<!\w)["“«„](?P<quote>[^"“”«»„\n]{2,200})["”»“](?!\w)"""
    r"""|(?<!\w)['‘](?P<single>[^'’\n]{2,80})['’](?!\w)"""
)
_QUOTABLE = re.compile(r"[A-Z\d_/@.]")
_WORDS_OF_A_QUOTE = 3
_KNOWN_SHARE = 0.6
"""Share of the word pairs of a quote that must have been said."""

_GROUPED = re.compile(r"(?<=\d)['’ ](?=\d{3}(?!\d))")
_CURRENCY = re.compile(r"\b([A-Z]{3})(?=\d[\d,]*\.\d\d\b)")
_YEAR = re.compile(r"(?:19|20)\d\d")
_MEASURE = re.compile(r"(\d+(?:[.,]\d+)*)[^\W\d_]{1,4}")
_PLAIN_PAIR = re.compile(r"[^\W\d_]+(?:/[^\W\d_]+)+")
_MARKER = re.compile(r"^\s*(?:[-*•+]|\d{1,3}[.)]|#+)\s+")
_BULLET = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)])\s")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+")


def known_text(request: SummaryRequest) -> KnownText:
    """Return what an entry may take its literals from.

    These are the noted messages, the earlier notes, the caller's instruction, and of the main
    request the first human message, the system text and the names of tools.
    """
    first = next((one for one in request.sent if role_of(one) == "human"), None)
    system = [one for one in request.sent if role_of(one) == "system"]
    sources = [*request.messages, *system, *([first] if first else [])]
    tools = (str(tool_name(tool) or "") for tool in request.tools)
    orders = (request.prior or "", request.instruction or "")
    return KnownText([*map(render_message, sources), *tools, *orders])


def unknown_literals(text: str, known: KnownText) -> list[str]:
    """Return the literals of a text that are not known, in their order, each once.

    Example:
        >>> known = KnownText(["Edit src/app.py: the limit is 4,711."])
        >>> unknown_literals("- `app.py` has the limit 4711, `src/web.py` has 4712.", known)
        ['src/web.py', '4712']
    """
    return list(dict.fromkeys(one for line in text.split("\n") for one in _unknown_in(line, known)))


def without_lines(text: str, is_refused: Callable[[str], bool]) -> tuple[str, list[str]]:
    r"""Return a text without the refused bullets, and the refused bullets.

    A bullet is removed with the lines that belong to it, in prose only the sentence; a heading is
    removed when nothing is left under it.

    Args:
        text: The text of an entry.
        is_refused: Returns whether a bullet or sentence is refused.

    Example:
        >>> notes = "## Files\n- a.py is new\n## State\n- b.py is open"
        >>> without_lines(notes, lambda line: "a.py" in line)
        ('## State\n- b.py is open', ['- a.py is new'])
    """
    lines: list[str] = []
    dropped: list[str] = []
    depth: int | None = None
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        if depth is not None and line.strip() and indent > depth:
            continue  # belongs to the removed bullet
        depth = None
        if not _BULLET.match(line) and not _is_heading(line):
            kept = [part for part in _SENTENCE.split(line) if not is_refused(part)]
            dropped += [part for part in _SENTENCE.split(line) if part not in kept]
            if kept:
                lines.append(" ".join(kept))
        elif is_refused(line):
            dropped.append(line)
            depth = indent
        else:
            lines.append(line)
    return "\n".join(_without_empty_headings(lines)).strip(), dropped


def _is_heading(line: str) -> bool:
    return line.lstrip().startswith("#")


def _without_empty_headings(lines: Sequence[str]) -> list[str]:
    kept: list[str] = []
    has_text = False
    for line in reversed(lines):
        if _is_heading(line):
            if has_text:
                kept.append(line)
            has_text = False
        else:
            has_text = has_text or bool(line.strip())
            kept.append(line)
    return kept[::-1]


def _unknown_in(line: str, known: KnownText) -> Iterator[str]:
    """Yield the literals of a line that are not known, then its quotes."""
    line = plain(line)
    text = _MARKER.sub("", line)
    if not text.strip() or known.has_words(text):
        return  # cited verbatim
    line = _CURRENCY.sub(r"\1 ", _GROUPED.sub(",", line))
    aside = [match.span() for match in _ASIDE.finditer(line)]
    for found in find_identifiers(line):
        end = found.start + len(found.text)
        if any(first <= found.start and end <= last for first, last in aside):
            continue
        if found.kind == "number" and _is_sum(line, found.start, end):
            continue
        if not _is_known(found, known):
            yield found.text
    for match in _QUOTE.finditer(line):
        quote = match["quote"] or match["single"]
        if not _is_known_quote(quote, known):
            yield quote


def _is_sum(line: str, start: int, end: int) -> bool:
    before = line[max(0, start - _NEAR) : start]
    if before.rstrip(" $€£¥*").endswith("="):
        return True
    return bool(_SUM.search(before) or _SUM.search(line[end : end + _NEAR]))


def _is_known(found: Identifier, known: KnownText) -> bool:
    """Return whether an identifier is one that was said, or a word in capitals."""
    word = found.text
    if found.kind == "capitals":
        return True
    if found.kind == "number":  # or a range of them
        return all(_is_known_number(number, known) for number in word.split("-"))
    if (measure := _MEASURE.fullmatch(word)) and _is_known_number(measure[1], known):
        return True
    if "/" in word:
        return bool(_PLAIN_PAIR.fullmatch(word)) or known.has_path(word)
    return known.has_words(word)


def _is_known_number(number: str, known: KnownText) -> bool:
    """Return whether a number is small, a year, or one that was said."""
    may_be_own = kind_of(number) is None or _YEAR.fullmatch(number)
    return bool(may_be_own) or known.has_number(number)


def _is_known_quote(quote: str, known: KnownText) -> bool:
    """Return whether a quote was said, but for a few words, or is a word of the writer."""
    words = quote.split()
    is_plain = len(words) < _WORDS_OF_A_QUOTE and not _QUOTABLE.search(quote)
    if is_plain or known.has_words(quote):
        return True
    pairs = [" ".join(pair) for pair in pairwise(words)]
    found = sum(map(known.has_words, pairs))
    return bool(pairs) and found >= _KNOWN_SHARE * len(pairs)
