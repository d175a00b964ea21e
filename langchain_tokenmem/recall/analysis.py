"""Text analysis for the index of words: terms of texts and questions, stop-words."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version

import regex
import snowballstemmer  # type: ignore[import-untyped]
from stopwordsiso import has_lang, stopwords

from langchain_tokenmem.core.search_units import Entry, IndexSource
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.recall.dates import (
    MONTHS,
    NamedSpan,
    span_in,
    with_dates,
    without_times,
)
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

_PAST = """
chatted did discussed done happened mentioned recap remember remind said spoke summarise summarize
talked told was were went worked
"""
"""Words of which a question has one if it asks what was said or done at some time."""

_TALK = """
anything briefly chat conversation conversations discuss discussion discussions everything happen
know mention please recall say something speak summary talk talking tell thing things topic topics
work working
"""
"""Further words of a question that asks so, of anything."""

_BOUNDS = frozenset(["after", "before", "between", "by", "from", "not", "since", "till", "until"])
"""Words that make a time the bound of another one."""

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


_ORDERING = frozenset({"latest", "newest", "recent", "earliest", "oldest"})
"""Terms that ask for the newest of several; not "first", which is often part of a name."""

VERSION = 2
"""Increase it with every change that yields other terms for a text."""

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
        is_about_more = bool(self.terms(without_times(text)))
        dated = with_dates(text, datetime.now(UTC).date()) if is_about_more else text
        found = dict.fromkeys(self.terms(dated))
        words = [term for term in found if term not in self._stop_words]
        about = [term for term in words if not (is_function_pair(term) or term in _ORDERING)]
        return about or words or list(found)

    def time_asked(self, question: str) -> NamedSpan | None:
        """Return the time of a question that asks what was said or done then, and nothing else.

        Example:
            >>> TextAnalyser().time_asked("What did we talk about in May 2023?")
            NamedSpan(first=datetime.date(2023, 5, 1), last=datetime.date(2023, 5, 31))
            >>> TextAnalyser().time_asked("What did Anna say in May 2023?")
        """
        words = without_times(question).casefold().split()
        asks = (
            question.rstrip().endswith("?")
            or words[:1] in (["please"], ["what"])
            or _is_past(words[:1])
        )
        if not asks or not _is_past(words) or not _BOUNDS.isdisjoint(words):
            return None
        span = span_in(question, datetime.now(UTC))
        known = self._stop_words.union(self.terms(f"{_TALK} {_PAST}"))
        return span if known.issuperset(self.terms(" ".join(words))) else None

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


def _is_past(words: Iterable[str]) -> bool:
    return not frozenset(_PAST.split()).isdisjoint(word.strip("?!.,:;") for word in words)


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
