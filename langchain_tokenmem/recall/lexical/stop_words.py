"""Stop-words: words that say nothing about what a question asks for."""

from __future__ import annotations

from collections.abc import Iterable

from stopwordsiso import has_lang, stopwords

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
"""The closed classes of English only, in the manner of the Snowball project's list.

The larger lists of packages (stopwordsiso 1,298 words, stop-words 1,333) hold nouns and verbs, too:
with them LoCoMo's evidence within 1,024 tokens falls by 3.4 points.
"""

_NEGATIONS = """
no nor not t ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn
wasn weren won wouldn
"""

NEGATIONS = frozenset(_NEGATIONS.split())
"""Stop-words that turn what a sentence says into its contrary."""

_UNSPACED_FUNCTION = frozenset(
    "的了在是吗呢吧啊哪么什怎谁几多有没不与就也这那我你他她它们嗎麼誰幾沒與這們"
)
"""Chinese characters that ask, point or join; simplified, and traditional where it differs."""

_PARTICLES = frozenset("はがをのにでとへもか")
"""Japanese particles; they stand behind every noun, so a pair with one says less than the noun."""


def is_function_pair(term: str) -> bool:
    """Return whether two neighbouring letters say nothing about what a question asks for.

    Chinese and Japanese have no spaces, so a question is cut into pairs of letters, and most of
    them hold a part of its grammar: of what means "where is the passport?" only the pair for
    "passport" is a word of the answer. Pairs with such a character or a Japanese particle are
    grammar, and pairs of nothing but hiragana.

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
    """Return the stop-words of a language, by its English name; none for an unknown one."""
    if language == "english":
        return _ENGLISH.split()
    code = _CODES.get(language, "")
    return sorted(stopwords(code)) if has_lang(code) else ()
