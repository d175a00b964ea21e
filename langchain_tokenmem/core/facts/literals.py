"""Literals that must survive verbatim: paths, ids, amounts, dates, names, codes.

Every shape starts at a border, so a long run without one is tried once and not at each of its
characters. Borders and path letters leave out Chinese, Japanese and Korean, where no space ends a
literal. Every repetition has an upper bound.
"""
# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

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

WEIGHTS = {"path": 1.0, "address": 0.9, "id": 1.0, "name": 0.6, "number": 0.35, "capitals": 0.25}
"""Worth of an identifier by its kind: how likely an agent passes it to a tool again."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """A word of a text that can only be copied.

    Attributes:
        text: The word.
        kind: A key of `WEIGHTS`.
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


_W = "A-Za-z0-9_À-ɏЀ-ӿ"
_WORD_BORDER = rf"(?<![{_W}-])"
_TOKEN_BORDER = rf"(?<![{_W}/.\\-])"
_WORD_END = rf"(?![{_W}-])"

_MONTH = any_of("month")
_DATE = (
    r"(?:\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d{1,9})?Z?)?"
    r"|\d{1,4}年(?:\d{1,2}月(?:\d{1,2}日)?)?|\d{1,2}月\d{1,2}日"
    r"|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{4}/\d{2}/\d{2}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.|er)?(?: of| de)? (?i:{_MONTH})\b\.?(?:,? (?:de )?\d{{4}})?"
    rf"|{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?|{_MONTH} \d{{4}}"
    r"|\d{1,2}:\d{2}(?::\d{2})?(?: ?[AaPp][Mm])?|Q[1-4](?: \d{4})?)"
)
_SYMBOL = "[$€£¥₹₩₽₺]"
_AMOUNT = r"\d[\d.,'’]{0,18}"
_CURRENCY = any_of("currency")
_PRICE = (
    rf"(?:{_SYMBOL} ?{_AMOUNT}(?: ?(?:k|K|M|bn|million|billion|Mio)\b)?"
    rf"|{_TOKEN_BORDER}{_AMOUNT} ?(?:(?:million|billion) )?(?:{_SYMBOL}|[元円원]|{_CURRENCY}\b))"
)
_VERSION = (
    r"(?:[vV]\d{1,6}(?:\.\d{1,9}){0,4}(?:[-+][\w.]{1,20})?"
    r"|\d{1,6}\.\d{1,9}\.\d{1,9}(?:\.\d{1,9}){0,2}(?:[-+][\w.]{1,20})?"
    r"|(?<=[a-z] )\d{1,3}\.\d{1,3}(?:rc|a|b|\.post|-beta|-rc|-alpha)\d{0,3})"
)
_PATH = (
    r"(?:[A-Za-z]:\\[\w .\\-]{1,200}"
    rf"|(?:~|\.{{1,2}})?/?(?:[{_W}.@+-]{{1,80}}/){{1,20}}[{_W}.@+*-]{{0,80}}"
    rf"|/[{_W}.@+-]{{2,80}}"
    rf"|[{_W}-]{{1,60}}(?:\.[{_W}-]{{1,30}}){{0,3}}\.{any_of('extension')}\b"
    r"|\.(?:env|gitignore|dockerignore|bashrc)\b|(?:Docker|Make)file\b)"
)
_ERROR = (
    r"(?:E\d{3,6}|[A-Z]{2,6}-\d{3,6}|(?:HTTP|Error|error|code|status|exit code) \d{1,5}"
    r"|E[A-Z]{4,20}|ERR_[A-Z_]{2,40}|0x[0-9A-Fa-f]{2,16}"
    r"|[A-Z]\w{1,60}(?:Error|Exception|Warning|Fault)|SIG[A-Z]{3,5})"
)
_IDENTIFIER = (
    r"(?:[#@][\w-]{2,60}|[A-Z][A-Z0-9]{0,40}(?:_[A-Z0-9]{1,40}){1,8}(?:=\S{1,60})?"
    r"|[A-Za-z][A-Za-z0-9]{0,60}(?:_\w{1,60})(?:\(\))?"
    r"|[a-z]{1,40}(?:[A-Z][a-z0-9]{1,40}){1,8}(?:\(\))?"
    r"|(?:[A-Z][a-z0-9]{1,40}){2,8}|[A-Za-z_][\w.]{1,60}\(\)"
    r"|(?=[A-Za-z-]{0,12}\d)(?=[\d-]{0,12}[A-Za-z])[A-Za-z0-9]{2,24}(?:-[A-Za-z0-9]{1,24}){0,5}"
    r"|[a-z_]\w{1,30}(?:\.[a-z_]\w{1,30}){1,5}|--[a-z][\w-]{1,40})"
)
_CAPITAL = "[A-ZÀ-ÞА-ЯŠŽČĐŁŚŻ]"
_HYPHENATED = r"(?:['’-][A-ZÀ-Þ][^\W\d_]{1,24})?"
_NAME = (
    rf"{_CAPITAL}[^\W\d_]{{1,24}}{_HYPHENATED}"
    r"(?: (?:(?:de|del|da|van|von|der|la|le|of|al|bin) ){0,2}"
    rf"{_CAPITAL}[^\W\d_]{{0,24}}\.?{_HYPHENATED}(?: ?\d{{1,4}}\b)?){{0,4}}"
)
# One named group each, in the order in which they are tried.
_SHAPES = (
    r"(?P<image>\[image[^\]\n]{0,200}\])",
    r"(?P<url>\b(?:https?|ftp|s3|gs|ssh|postgres(?:ql)?|redis)://[^\s<>\"'）)】，。]{1,300})",
    rf"{_TOKEN_BORDER}(?P<email>[\w.+-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,4}})",
    r"(?<![0-9A-Fa-f-])(?P<uuid>[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12})",
    r"`(?P<code>[^`\n]{1,80})`",
    r"[\"“„«「『](?P<quoted>[^\"“”„«»「」『』\n]{2,60})[\"”“»」』]",
    rf"{_WORD_BORDER}(?P<date>{_DATE}){_WORD_END}",
    rf"(?P<price>{_PRICE})",
    rf"(?<![{_W}./-])(?P<version>{_VERSION})(?![{_W}/])",
    rf"{_TOKEN_BORDER}(?P<path>{_PATH})",
    rf"{_WORD_BORDER}(?P<error>{_ERROR}){_WORD_END}",
    rf"(?<![{_W}.#@-])(?P<identifier>{_IDENTIFIER}){_WORD_END}",
    rf"{_TOKEN_BORDER}(?P<measure>{_AMOUNT}[ -]?{any_of('unit')})(?![{_W}])",
    rf"(?<![{_W}.-])(?P<number>[+-]?\d[\d.,:/'’-]{{0,30}}\d|\d)(?![{_W}])",
    rf"(?<![\w'’])(?P<name>{_NAME})",
)
_LITERAL = re.compile("|".join(_SHAPES))

# How much a literal is worth, for each four tokens of it; only the relations matter. What
# cannot be guessed again (an id, an amount, a date) weighs most, what is likely noise least.
_KINDS_BY_WEIGHT = {
    3.0: ("uuid", "date", "price", "version", "error", "path", "email", "full_name"),
    2.4: ("identifier",),
    1.8: ("measure", "long_number"),
    1.5: ("url", "quoted"),
    1.0: ("image",),
    0.9: ("name",),
    0.4: ("acronym", "number", "word"),
}
KIND_WEIGHTS = {kind: weight for weight, kinds in _KINDS_BY_WEIGHT.items() for kind in kinds}

# "and/or", "n/a" and the like are no paths.
_IS_PATH = re.compile(r"^[/~.]|^[A-Za-z]:\\|\.\w|/.*/|/$|_|file$")
_LONG_PAIR = 9
# A port, an order number; not a year.
_IS_LONG = re.compile(r"(?!(?:19|20)\d\d$)\d{4,}")
_TRAILING = ".,;:!?)]}'’\""
_TOO_MANY = 40
# "3" alone says nothing; with its unit it is a measure.
_MIN_NUMBER = 3


@dataclass(frozen=True)
class Literal:
    """One piece of text that is worth keeping as it stands.

    Attributes:
        kind: A key of `KIND_WEIGHTS`.
        text: The literal itself.
    """

    kind: str
    text: str


def _clean(kind: str, text: str) -> tuple[str, str]:
    """Settle the kind of one match and drop the punctuation that only ends its sentence."""
    if kind in ("url", "path", "number", "price", "version", "measure"):
        text = text.rstrip(_TRAILING)
    if kind == "number" and _IS_LONG.fullmatch(text):
        kind = "long_number"
    elif kind == "path" and not _IS_PATH.search(text):
        kind = "identifier" if len(text) >= _LONG_PAIR else "number"
    elif kind == "code":
        is_path = "/" in text and " " not in text
        is_word = text.isalpha() and text.islower()
        kind = "path" if is_path else "word" if is_word else "identifier"
    elif kind == "name":
        words = text.split()
        own = [at for at, word in enumerate(words) if word not in NOT_NAMES]
        words = words[own[0] : own[-1] + 1] if own else []
        text = " ".join(words)
        kind = "full_name" if len(words) > 1 else "acronym" if text.isupper() else "name"
    return kind, text


def find_literals(sentence: str, *, single_names: bool = True) -> list[Literal]:
    """Return the literals of one sentence, in their order, each text once.

    Args:
        sentence: A sentence of bounded length (`sentences.MAX_SENTENCE` characters).
        single_names: Whether one capitalised word inside a sentence counts as a name; not so in
            a language that capitalises its nouns.

    Returns:
        At most 40 literals.
    """
    found: dict[str, Literal] = {}
    for match in _LITERAL.finditer(sentence):
        group = str(match.lastgroup)
        kind, text = _clean(group, match[group])
        if kind in ("name", "acronym") and not single_names:
            continue
        if kind == "name":  # the word that opens a sentence is capitalised for that reason alone
            before = sentence[: sentence.find(text, match.start())]
            if not before.strip("\"'“”„«([*_ "):
                continue
        if len(text) < (_MIN_NUMBER if kind == "number" else 2) or ";" in text:
            continue
        found.setdefault(text, Literal(kind, text))
        if len(found) == _TOO_MANY:
            break
    return list(found.values())


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
