"""Estimate of token counts without a vocabulary.

Four characters per token is wrong by half for everything but English prose: a text is therefore
cut into the pieces that the o200k_base pattern would cut, and every piece is weighed by its script
and length. Weights are least-squares fits of tokens per piece against o200k_base over translated
program messages (40 languages), source code and agent transcripts, rounded up: where the truth is
uncertain (Simplified or Traditional, Russian or Serbian) the dearer one is taken, because a count
that is too low breaks the promise and one that is too high only costs room.

Time is linear: every repetition in the patterns is bounded.
"""

from __future__ import annotations

import bisect
import functools
import math
import re

# Relative error that 99 % of messages stay within, against o200k_base (docs/counting.md).
ESTIMATE_ACCURACY = 0.35

_LATIN_EXTRA = r"\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u1e00-\u1eff"
_OTHER_LETTERS = (
    r"\u0300-\u1dff\u2c00-\u2dff\u3005-\u3007\u3031-\u3035\u3041-\u30ff\u3100-\u9fff\ua000-\ud7ff"
    r"\uf900-\ufdff\ufe70-\ufefe\uff66-\uffdc\U00010000-\U0001efff\U00020000-\U0003ffff"
)
_BLOB = r"[A-Za-z0-9+/=]{40,64}"
_ASCII_WORD = r"[^\r\n0-9A-Za-z\u0080-\U0010ffff]?(?:[A-Z]{0,32}[a-z]{1,32}|[A-Z]{1,32})"
_ACCENTED_WORD = (
    rf"[^\r\n\w]?[A-Za-z]{{0,32}}[{_LATIN_EXTRA}][A-Za-z{_LATIN_EXTRA}\u0300-\u036f]{{0,32}}"
)
_OTHER_WORD = rf"[^\r\n\w]?[{_OTHER_LETTERS}]{{1,32}}"
_SYMBOLS = rf" ?(?:(?![{_OTHER_LETTERS}])[^\w\s]|_){{1,32}}[\r\n/]{{0,32}}"
_REST = r"\d{1,3}|" + _SYMBOLS + r"|\s{0,99}[\r\n]{1,32}|\s{1,99}(?!\S)|\s{1,99}|\w|[^\w\s]"
_ASCII_PIECES = re.compile(f"{_ASCII_WORD}|{_REST}")
_ASCII_PIECES_OR_BLOBS = re.compile(f"{_BLOB}|{_ASCII_PIECES.pattern}")
_PIECES_OR_BLOBS = re.compile(f"{_BLOB}|{_ACCENTED_WORD}|{_ASCII_WORD}|{_OTHER_WORD}|{_REST}")
_CYRILLIC = re.compile("[\u0400-\u052f]")
_RUSSIAN = re.compile("[ыэЫЭ]")  # letters that no other large language uses
_ACCENTED = re.compile(f"[{_LATIN_EXTRA}]")
# Indonesian, Dutch, Italian, German, Spanish and Portuguese; none is an English word.
_FUNCTION_WORD = re.compile(
    " (?:yang|dan|untuk|dengan|tidak|ini|dari|het|een|van|niet|voor|di|che|il|della|und|der|"
    "das|nicht|ein|de|que|los|las|el|para|uma|com)(?= )"
)

# (first code point, tokens per piece, tokens per character): each script to the next entry's start.
_SCRIPTS = (
    (0x0000, 0.55, 0.30),  # Latin with accents, IPA
    (0x0300, 0.00, 1.00),  # combining marks
    (0x0370, 0.30, 0.42),  # Greek
    (0x0400, 0.55, 0.20),  # Cyrillic: Russian
    (0x0530, 0.90, 0.28),  # Armenian
    (0x0590, 0.40, 0.45),  # Hebrew
    (0x0600, 0.55, 0.27),  # Arabic
    (0x0700, 0.50, 1.50),  # Syriac, Thaana, N'Ko
    (0x0900, 0.25, 0.38),  # Devanagari
    (0x0980, 0.15, 0.44),  # Bengali
    (0x0A00, 0.00, 0.75),  # Gurmukhi
    (0x0A80, 0.10, 0.48),  # Gujarati
    (0x0B00, 0.50, 0.80),  # Oriya
    (0x0B80, 1.00, 0.28),  # Tamil
    (0x0C00, 0.60, 0.47),  # Telugu
    (0x0C80, 0.85, 0.37),  # Kannada
    (0x0D00, 1.10, 0.28),  # Malayalam
    (0x0D80, 0.50, 0.80),  # Sinhala
    (0x0E00, 0.30, 0.45),  # Thai
    (0x0E80, 0.50, 1.00),  # Lao, Tibetan
    (0x1000, 0.70, 0.53),  # Burmese
    (0x10A0, 0.50, 0.33),  # Georgian
    (0x1100, 0.50, 2.00),  # Hangul jamo, Ethiopic, Cherokee and other rare scripts
    (0x1780, 0.00, 0.64),  # Khmer
    (0x1800, 0.50, 2.00),  # Mongolian and other rare scripts
    (0x1E00, 0.50, 0.30),  # Latin for Vietnamese
    (0x1F00, 0.30, 1.60),  # polytonic Greek
    (0x2000, 0.00, 1.10),  # dashes, quotes, arrows, mathematics, box drawing
    (0x2600, 0.00, 1.60),  # dingbats and older emoji
    (0x2800, 0.00, 2.00),  # braille and other rare symbols
    (0x3000, 0.00, 1.00),  # ideographic punctuation
    (0x3040, 0.45, 0.68),  # kana
    (0x3100, 0.50, 1.60),  # bopomofo, enclosed letters
    (0x3400, 0.50, 2.20),  # rare ideographs
    (0x4E00, 0.45, 0.88),  # ideographs
    (0xA000, 0.50, 2.00),  # Yi and other rare scripts
    (0xAC00, 0.85, 0.48),  # Hangul
    (0xD800, 0.00, 1.50),  # surrogates, private use
    (0xF900, 0.00, 2.00),  # compatibility forms
    (0xFE00, 0.00, 1.00),  # variation selectors
    (0xFE20, 0.00, 2.00),  # compatibility forms
    (0xFF00, 0.00, 1.20),  # full-width forms
    (0x10000, 0.00, 3.00),  # ancient scripts, musical symbols
    (0x1F000, 0.00, 2.05),  # emoji
    (0x1F900, 0.00, 2.40),  # newer emoji
    (0x1FB00, 0.00, 3.00),  # rare ideographs and the rest
)
_STARTS = [start for start, _, _ in _SCRIPTS]
# Lifts the lowest per cent of messages towards the truth; the fits alone are right on average.
_SAFETY = 1.04
_BASE64_TOKENS_PER_CHARACTER = 0.76
_HEX_TOKENS_PER_CHARACTER = 0.66
# Ukrainian, Bulgarian and Serbian words are in more pieces than Russian ones.
_OTHER_CYRILLIC_TOKENS_PER_CHARACTER = 0.10
_RUSSIAN_LETTERS = 0.008
# A text counts as another language in Latin letters than English by its share of accented
# characters, or by its share of function words of languages that do without accents.
_ACCENTS_FROM, _ACCENTS_FULL = 0.003, 0.013
_FUNCTION_WORDS_FROM, _FUNCTION_WORDS_FULL = 0.03, 0.08


def estimate_tokens(text: str) -> int:
    """Return about how many o200k_base tokens a text has, rather too many than too few.

    Args:
        text: Any text, lone surrogates included.

    Returns:
        Tokens; 0 for the empty text, at least 1 for any other.

    Example:
        >>> estimate_tokens("The quick brown fox")
        4
    """
    if not text:
        return 0
    pieces = (_ASCII_PIECES_OR_BLOBS if text.isascii() else _PIECES_OR_BLOBS).findall(text)
    english = sum(map(_english_cost, pieces))
    surcharge = 0.0 if text.isascii() else _cyrillic_surcharge(text)
    foreign = _foreignness(text)
    dearer = sum(map(_foreign_cost, pieces)) - english if foreign else 0.0
    return math.ceil(_SAFETY * (english + surcharge + foreign * dearer))


def _cyrillic_surcharge(text: str) -> float:
    cyrillic = len(_CYRILLIC.findall(text))
    if not cyrillic:
        return 0.0
    russian = min(1.0, len(_RUSSIAN.findall(text)) / cyrillic / _RUSSIAN_LETTERS)
    return (1 - russian) * cyrillic * _OTHER_CYRILLIC_TOKENS_PER_CHARACTER


def _foreignness(text: str) -> float:
    words = len(_FUNCTION_WORD.findall(text)) / (text.count(" ") + 1)
    share = (words - _FUNCTION_WORDS_FROM) / (_FUNCTION_WORDS_FULL - _FUNCTION_WORDS_FROM)
    if not text.isascii():
        accents = len(_ACCENTED.findall(text)) / len(text)
        share = max(share, (accents - _ACCENTS_FROM) / (_ACCENTS_FULL - _ACCENTS_FROM))
    return min(1.0, max(0.0, share))


# Words repeat: most lookups end in these caches. A piece has at most about 130 characters.
@functools.lru_cache(maxsize=16_384)
def _english_cost(piece: str) -> float:
    return _cost(piece, foreign=False)


@functools.lru_cache(maxsize=16_384)
def _foreign_cost(piece: str) -> float:
    if piece.isascii() and piece[-1].isalpha():
        return _cost(piece, foreign=True)
    return _english_cost(piece)


def _cost(piece: str, *, foreign: bool) -> float:
    last = piece[-1]
    if piece.isspace():
        return max(1.0, len(piece) / 16) if last in "\r\n" else 1.0
    if not piece.isascii():
        return _cost_of_other_scripts(piece)
    if len(piece) >= 40:  # noqa: PLR2004  # the shortest blob: words are shorter
        return _cost_of_blob(piece, foreign=foreign)
    if last.isalpha():
        return _cost_of_word(piece, foreign=foreign)
    return 1.0 if last.isdigit() else _cost_of_symbols(piece)


def _cost_of_word(piece: str, *, foreign: bool) -> float:
    lead = piece[0]
    letters = len(piece) if lead.isalpha() else len(piece) - 1
    if foreign:
        return (1.2 if lead != " " else 1.0) + 0.28 * max(0, letters - 4)
    capitals = 0.12 * max(0, letters - 2) if letters > 1 and piece[-1].isupper() else 0.0
    if lead == " ":
        return 1.0 + 0.04 * max(0, letters - 4) + capitals
    if lead.isalpha():
        return 1.02 + 0.10 * max(0, letters - 2) + capitals
    return 1.05 + 0.12 * max(0, letters - 2) + capitals


def _cost_of_symbols(piece: str) -> float:
    symbols = piece.strip()
    count = len(symbols)
    if count > 3 and len(set(symbols)) == 1:  # noqa: PLR2004  # rules such as ---- are few tokens
        return 1.0 + count / 32
    return (1.0, 1.0, 1.06, 1.4)[count] if count <= 3 else 0.52 * count  # noqa: PLR2004


def _cost_of_other_scripts(piece: str) -> float:
    characters = piece.lstrip() or piece
    lead = characters[1] if characters[0].isascii() and len(characters) > 1 else characters[0]
    return max(1.0, _script(lead)[1] + sum(map(_cost_of_character, characters)))


@functools.lru_cache(maxsize=16_384)
def _cost_of_character(character: str) -> float:
    return _script(character)[2]


def _script(character: str) -> tuple[int, float, float]:
    return _SCRIPTS[bisect.bisect_right(_STARTS, ord(character)) - 1]


def _cost_of_blob(piece: str, *, foreign: bool) -> float:
    digits = sum(map(str.isdigit, piece))
    capitals = sum(map(str.isupper, piece))
    small = sum(map(str.islower, piece))
    if min(capitals, small) > 5 and digits > 2:  # noqa: PLR2004  # a path or a name has fewer
        return len(piece) * _BASE64_TOKENS_PER_CHARACTER
    if digits > 5 and not piece.strip("0123456789abcdefABCDEF"):  # noqa: PLR2004
        return len(piece) * _HEX_TOKENS_PER_CHARACTER
    return sum(_cost(part, foreign=foreign) for part in _ASCII_PIECES.findall(piece))
