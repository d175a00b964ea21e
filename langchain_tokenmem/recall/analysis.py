"""Text analysis for the index of words: terms of texts and questions, stop-words, dates."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from importlib.metadata import version
from typing import Literal

import regex
import snowballstemmer  # type: ignore[import-untyped]
from stopwordsiso import has_lang, stopwords

from langchain_tokenmem.core.search_units import Entry, IndexSource
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.recall.text_parts import indexable_text, parts_of

_ENGLISH = """
a about above after again against all also am an and any are as at be because been before being
below between both but by can could did do does doing don down during each few for from further
had has have having he her here hers herself him himself his how i if in into is it its itself
just ll like may me might more most must my myself no nor not now of off on once only or other our
ours ourselves out over own re s same shall she should so some such t than that the their theirs
them themselves then there these they this those through to too under until up ve very was we were
what when where which while who whom whose why will with would you your yours yourself yourselves
ain aren couldn didn doesn hadn hasn haven isn mightn mustn needn shan shouldn wasn weren won wouldn
much many get gets getting got
"""
"""Only English function words, like the Snowball project's list.

The larger lists of packages (stopwordsiso 1,298 words, stop-words 1,333) contain nouns and verbs,
too: with them LoCoMo's evidence within 1,024 tokens falls by 3.4 points.
"""

_NEGATIONS = """
no nor not t ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn
wasn weren won wouldn
"""

NEGATIONS = frozenset(_NEGATIONS.split())
"""Stop-words that reverse the meaning of a sentence."""

_UNSPACED_FUNCTION = frozenset(
    "的了在是吗呢吧啊哪么什怎谁几多有没不与就也这那我你他她它们嗎麼誰幾沒與這們"
)
"""Chinese interrogatives, demonstratives and conjunctions; traditional forms where they differ."""

_PARTICLES = frozenset("はがをのにでとへもか")
"""Japanese particles; one follows every noun, so a pair with one says less than the noun."""


def is_function_pair(term: str) -> bool:
    """Return whether a pair of letters is only grammar, not what a question asks for.

    Chinese and Japanese have no spaces, so a question is cut into pairs of letters, and most of
    them contain a part of its grammar: in "where is the passport?" only the pair for "passport" is
    a word of the answer. Pairs with such a character or a Japanese particle are grammar, and so are
    pairs of hiragana only.

    Example:
        >>> is_function_pair("在哪"), is_function_pair("护照")
        (True, False)
    """
    if not 0 < len(term) <= 2:  # noqa: PLR2004  a pair, or a letter alone
        return False
    is_hiragana = all("ぁ" <= letter <= "ゟ" for letter in term)
    return is_hiragana or not (_UNSPACED_FUNCTION | _PARTICLES).isdisjoint(term)


_CODES = {
    "arabic": "ar", "armenian": "hy", "basque": "eu", "catalan": "ca", "danish": "da",
    "dutch": "nl", "finnish": "fi", "french": "fr", "german": "de", "greek": "el", "hindi": "hi",
    "hungarian": "hu", "indonesian": "id", "irish": "ga", "italian": "it", "lithuanian": "lt",
    "norwegian": "no", "portuguese": "pt", "romanian": "ro", "russian": "ru", "spanish": "es",
    "swedish": "sv", "turkish": "tr",
}  # fmt: skip


def stop_words(language: str) -> Iterable[str]:
    """Return the stop-words of a language, by its English name; empty if it is unknown."""
    if language == "english":
        return _ENGLISH.split()
    code = _CODES.get(language, "")
    return sorted(stopwords(code)) if has_lang(code) else ()


Order = Literal["first", "latest"]

_ORDERING = frozenset({"latest", "newest", "recent", "earliest", "oldest"})
"""Terms that ask for the newest of several; not "first", which is often part of a name."""

VERSION = 2
"""Increase it with every change that yields other terms for a text."""

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー"
_LETTERS = r"[\p{L}\p{M}\p{N}]"

# A word with what joins identifiers, paths, addresses and times: auth.py, a/b, snake_case, ERR-7.
_CHAINS = regex.compile(rf"{_LETTERS}+(?:[._/\\:@#'\u2019\-]+{_LETTERS}+)*")
_PIECES = regex.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}]){_LETTERS})+")
_HUMPS = regex.compile(r"\p{Lu}+(?=\p{Lu}\p{Ll})|\p{Lu}?[\p{Ll}\p{M}]+|\p{Lu}+|\p{N}+|\p{L}+")
_IS_UNSPACED = regex.compile(rf"[{_UNSPACED}]")
_IS_NAME = regex.compile(r"[._/\\:@#]|\p{N}")
_POSSESSIVE = regex.compile(r"['\u2019]s$", regex.IGNORECASE)
_MARKS = regex.compile(r"(?<=\p{Latin})\p{Mn}+")

_KNOWN_WORDS = 16_384
"""Words whose terms are kept in each cache. Both take half a kilobyte per word: 8 MB."""

_LONGEST_TERM = 100
"""Maximum characters of a word; anything longer is data, which no one asks for."""


class TextAnalyser:
    """Terms of texts and questions.

    NFKC and case folding; Snowball stems; runs of Chinese, Japanese, Korean and Thai letters as
    pairs of neighbours; identifiers, paths and codes whole as well as split (`auth.py`,
    `parseHTTPResponse`, `snake_case`, `ERR-4711`). Stop-words are left out of questions, not of
    texts. Date and speaker of a message are among its terms.

    Args:
        language: Language of stems and stop-words, by its English name: `english`, `german`,
            `french` ... Letters of other scripts pass through a stemmer unchanged.

    Raises:
        ConfigurationError: When there is no stemmer for the language.

    Example:
        >>> TextAnalyser().query_terms("Where did we fix the errors in auth.py?")
        ['fix', 'error', 'auth.py', 'auth', 'py']
    """

    def __init__(self, language: str = "english") -> None:
        if language not in snowballstemmer.algorithms():
            raise ConfigurationError(
                f"There is no stemmer for {language!r}; there is one for "
                f"{', '.join(snowballstemmer.algorithms())}."
            )
        self._language = language
        self._stop_words = _stop_terms(language)

    @property
    def version(self) -> str:
        """Identifies what the terms depend on; a new version needs a new index."""
        snowball = version("snowballstemmer").partition(".")[0]
        return f"{VERSION} {self._language} snowball-{snowball}"

    @property
    def harmless(self) -> frozenset[str]:
        """Terms that do not affect the meaning of a text: stop-words other than negations."""
        return self._stop_words - NEGATIONS

    def words(self, text: str) -> list[str]:
        """Return the words of a text, folded but not stemmed, for comparing texts."""
        return [
            part
            for piece in _PIECES.findall(_folded(unicodedata.normalize("NFKC", text)))
            for part in (_pairs(piece) if _IS_UNSPACED.match(piece) else (piece,))
        ]

    def terms(self, text: str) -> list[str]:
        """Return every term of a text, in order, as often as it occurs."""
        return [term for chain in _chains(text) for term in _terms_of_chain(chain, self._language)]

    def query_terms(self, text: str) -> list[str]:
        """Return the terms that a question is about, each once.

        Stop-words, words such as "latest" or "3 weeks ago", and pairs of Chinese or Japanese
        letters that are only grammar are left out, unless the question consists of nothing else.
        """
        is_about_more = bool(self.terms(_DISTANCES.sub(" ", text)))
        dated = _with_dates(text, datetime.now(UTC).date()) if is_about_more else text
        found = dict.fromkeys(self.terms(dated))
        words = [term for term in found if term not in self._stop_words]
        about = [term for term in words if not (is_function_pair(term) or term in _ORDERING)]
        return about or words or list(found)

    def entries(self, source: IndexSource) -> Sequence[Entry]:
        """Return an entry for each part of a message; empty if it must not be found."""
        text = indexable_text(source)
        if not text:
            return ()
        about = self.about(source)
        counted = [Counter([*self.terms(part), *about]) for part in parts_of(text)]
        elaborates = source.role == "ai" and len(counted) > 1
        return [Entry(at, one.total(), one, elaborates) for at, one in enumerate(counted)]

    def about(self, source: IndexSource) -> list[str]:
        """Return the terms of a message's date and speaker."""
        moment = source.created_at
        words = f"{moment.day} {MONTHS[moment.month - 1]} {moment.year}"
        return self.terms(f"{source.name or ''} {words}")


def _chains(text: str) -> list[str]:
    return list(_CHAINS.findall(unicodedata.normalize("NFKC", text)))


@lru_cache(maxsize=_KNOWN_WORDS)
def _terms_of_chain(chain: str, language: str) -> tuple[str, ...]:
    """Return the terms of a chain, cached: people keep using the same few words."""
    return tuple(_new_terms(chain, language))


def _new_terms(chain: str, language: str) -> Iterator[str]:
    chain = _POSSESSIVE.sub("", chain)
    pieces = [hump for piece in _PIECES.findall(chain) for hump in _split(piece)]
    if _is_name(chain, pieces) and len(chain) <= _LONGEST_TERM:
        yield _folded(chain)
        segments = regex.split(r"[/\\]", chain)
        if len(segments) > 1:
            yield from (_folded(part) for part in segments if _IS_NAME.search(part))
        if len(pieces) == 1:
            return
    for piece in pieces:
        if _IS_UNSPACED.match(piece):
            yield from _pairs(piece)
        elif len(piece) <= _LONGEST_TERM:
            yield _stem(_folded(piece), language)


@lru_cache(maxsize=_KNOWN_WORDS)
def _stem(word: str, language: str) -> str:
    # A stemmer stores its current word, so threads cannot share one; creating one takes
    # 4 microseconds, stemming 80.
    return str(snowballstemmer.stemmer(language).stemWord(word))


@lru_cache
def _stop_terms(language: str) -> frozenset[str]:
    chains = (chain for word in stop_words(language) for chain in _chains(word))
    return frozenset(term for chain in chains for term in _terms_of_chain(chain, language))


def _is_name(chain: str, pieces: Sequence[str]) -> bool:
    """Return whether a chain is kept whole: a path, a code or an identifier, not a plain word."""
    if len(pieces) < 2:  # noqa: PLR2004  nothing to split
        return False
    if _IS_UNSPACED.search(chain):
        return False
    return bool(_IS_NAME.search(chain)) or (
        "-" not in chain and not regex.search("['\u2019]", chain)
    )


def _split(piece: str) -> list[str]:
    if piece == piece.lower() or _IS_UNSPACED.match(piece):
        return [piece]
    return list(_HUMPS.findall(piece))


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(max(1, len(run) - 1))]


def _folded(word: str) -> str:
    folded = word.casefold()
    if folded.isascii():
        return folded
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", folded)))


_MONTHS = {
    form: number for number, name in enumerate(MONTHS, 1) for form in (name, name[:3], name[:4])
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d{2})"

_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"\b{_YEAR}-(?P<number>\d{{2}})-(?P<day>\d{{2}})\b",
        rf"\b{_YEAR}-(?P<number>\d{{2}})\b(?!-)",
        rf"\b{_DAY}\s+(?:of\s+)?(?P<month>{_MONTH})\b\.?(?:,?\s+{_YEAR}\b)?",
        rf"\b(?P<month>{_MONTH})\b\.?\s+{_DAY}(?!\d)\b(?:,?\s+{_YEAR}\b)?",
        rf"\b(?P<month>{_MONTH})\b\.?,?\s+(?:of\s+)?{_YEAR}\b",
        rf"\b(?:in|last|since|until|during)\s+(?P<month>{_MONTH})\b",
        rf"\b{_YEAR}\b",
    )
)


@dataclass(frozen=True, slots=True)
class NamedDate:
    """A date that a question names, at least in part.

    Attributes:
        year: Four digits.
        month: 1 to 12.
        day: 1 to 31.
    """

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def fits(self, moment: datetime) -> bool:
        """Return whether a moment matches; a day also matches the days before and after it.

        People often report things a day later, and time zones differ.
        """
        if self.year is not None and moment.year != self.year:
            return False
        if self.month is not None and moment.month != self.month:
            return False
        return self.day is None or abs(moment.day - self.day) <= 1


@dataclass(frozen=True, slots=True)
class NamedSpan:
    """The days that a question names by their distance from today, first and last."""

    first: date
    last: date

    def fits(self, moment: datetime) -> bool:
        """Return whether a moment is on one of the days."""
        return self.first <= moment.date() <= self.last


_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_COUNTS = {"a": 1, **{word: count for count, word in enumerate(_NUMBERS, 1)}}
_DISTANCES = re.compile(
    r"\b(?:(?P<day>today|yesterday)|(?P<word>this|last|past) (?P<unit>week|month|year)"
    rf"|last (?P<weekday>{'|'.join(_WEEKDAYS)})"
    rf"|(?P<count>\d{{1,3}}|{'|'.join(_COUNTS)}) (?P<units>day|week|month|year)s? ago)\b",
    re.IGNORECASE | re.ASCII,
)
_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}


_ORDERS: dict[Order, re.Pattern[str]] = {
    "latest": re.compile(r"\b(?:latest|newest|most recent(?:ly)?|last time)\b", re.IGNORECASE),
    "first": re.compile(r"\b(?:first|earliest|oldest)\b", re.IGNORECASE),
}


def order_in(question: str) -> Order | None:
    """Return whether a question asks for the latest or the first of something, in English.

    Example:
        >>> order_in("What is the latest budget?")
        'latest'
    """
    found = [order for order, pattern in _ORDERS.items() if pattern.search(question)]
    return found[0] if len(found) == 1 else None


def dates_in(question: str, now: datetime | None = None) -> list[NamedDate | NamedSpan]:
    """Return the dates that a question names, in English or as ISO 8601.

    Args:
        question: The question as asked.
        now: When it was asked; without it, "yesterday" and "two weeks ago" are not recognised.

    Example:
        >>> dates_in("What did she say on 7 May 2023, and last June?")
        [NamedDate(year=2023, month=5, day=7), NamedDate(year=None, month=6, day=None)]
    """
    found: list[NamedDate | NamedSpan] = list(_found(question))
    return found if now is None else [*found, *_spans(question, now.date())]


def _with_dates(question: str, today: date) -> str:
    """Return a question with days such as "yesterday" as dates, and without longer spans.

    A message's date is among its terms; "3" and "week" would match anything.
    """

    def dated(match: re.Match[str]) -> str:
        if match.start() and match[0][0].isupper():  # a title
            return match[0]
        (span,) = _spans(match[0], today)
        day = span.first
        return f"{day.day} {MONTHS[day.month - 1]}" if day == span.last else " "

    return _DISTANCES.sub(dated, question)


def _spans(question: str, today: date) -> Iterator[NamedSpan]:
    """Yield the days named relative to today; for counted units, half a unit more and less."""
    for match in _DISTANCES.finditer(question):
        if named := match["day"]:
            day = today - timedelta(named.lower() == "yesterday")
            yield NamedSpan(day, day)
        elif weekday := match["weekday"]:
            day = today - timedelta((today.weekday() - _WEEKDAYS.index(weekday.lower())) % 7 or 7)
            yield NamedSpan(day, day)
        elif counted := match["count"]:
            count = _COUNTS.get(counted.lower()) or int(counted)
            days = _DAYS[match["units"].lower()]
            middle, half = today - timedelta(count * days), timedelta(days // 2)
            yield NamedSpan(middle - half, middle + half)
        else:
            unit, is_this = match["unit"].lower(), match["word"].lower() == "this"
            first = _first_of(unit, today)
            last = first - timedelta(1)
            yield NamedSpan(first, today) if is_this else NamedSpan(_first_of(unit, last), last)


def _first_of(unit: str, day: date) -> date:
    """Return the first day of a day's week, month or year."""
    if unit == "week":
        return day - timedelta(day.weekday())
    return day.replace(day=1) if unit == "month" else day.replace(month=1, day=1)


def _found(question: str) -> Iterator[NamedDate]:
    taken = question
    for form in _FORMS:
        for match in form.finditer(taken):
            parts = {key: value for key, value in match.groupdict().items() if value}
            month = _MONTHS.get(parts.get("month", "").lower()) or int(parts.get("number", 0))
            day = int(parts.get("day", 0))
            if month <= 12 and day <= 31:  # noqa: PLR2004  months of a year, days of a month
                year = int(parts["year"]) if "year" in parts else None
                yield NamedDate(year, month or None, day or None)
        taken = form.sub(lambda match: " " * len(match[0]), taken)
