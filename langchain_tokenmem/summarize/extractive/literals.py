"""Extraction of literals that must survive verbatim: paths, ids, amounts, dates, names, codes."""

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from langchain_tokenmem.summarize.extractive.literal_patterns import LITERAL
from langchain_tokenmem.summarize.extractive.vocabulary import NOT_NAMES


@dataclass(frozen=True)
class Literal:
    """One piece of text that is worth keeping as it stands.

    Attributes:
        kind: A key of `KIND_WEIGHTS`.
        text: The literal itself.
    """

    kind: str
    text: str


# How much a literal is worth, for each four tokens of it; only the relations matter. What
# cannot be guessed again (an id, an amount, a date) weighs most, what is likely noise least.
KIND_WEIGHTS = MappingProxyType(
    {
        "uuid": 3.0,
        "date": 3.0,
        "price": 3.0,
        "version": 3.0,
        "error": 3.0,
        "path": 3.0,
        "email": 3.0,
        "full_name": 3.0,
        "identifier": 2.4,
        "measure": 1.8,
        "url": 1.5,
        "quoted": 1.5,
        "name": 0.9,
        "image": 1.0,
        "acronym": 0.4,
        "number": 0.4,
        "word": 0.4,
    }
)

# "and/or", "n/a" and the like are no paths.
_IS_PATH = re.compile(r"^[/~.]|^[A-Za-z]:\\|\.\w|/.*/|/$|_|file$")
_LONG_PAIR = 9
_TRAILING = ".,;:!?)]}'’\""
_TOO_MANY = 40
# "3" alone says nothing; with its unit it is a measure.
_MIN_NUMBER = 3


def _clean(kind: str, text: str) -> tuple[str, str]:
    """Settle the kind of one match and drop the punctuation that only ends its sentence."""
    if kind == "code":
        if "/" in text and " " not in text:
            return "path", text
        return ("word" if text.isalpha() and text.islower() else "identifier"), text
    if kind in ("url", "path", "number", "price", "version", "measure"):
        text = text.rstrip(_TRAILING)
    if kind == "path" and not _IS_PATH.search(text):
        kind = "identifier" if len(text) >= _LONG_PAIR else "number"
    if kind == "name":
        words = text.split()
        while words and words[0] in NOT_NAMES:
            words.pop(0)
        while words and words[-1] in NOT_NAMES:
            words.pop()
        text = " ".join(words)
        kind = "full_name" if len(words) > 1 else "name"
        if kind == "name" and text.isupper():
            kind = "acronym"
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
    found: list[Literal] = []
    seen: set[str] = set()
    for match in LITERAL.finditer(sentence):
        kind, text = _clean(str(match.lastgroup), match[str(match.lastgroup)])
        start = sentence.find(text, match.start())
        opens = not sentence[:start].strip("\"'“”„«([*_ ")
        if kind in ("name", "acronym") and (not single_names or (opens and kind == "name")):
            continue
        if len(text) < (_MIN_NUMBER if kind == "number" else 2) or text in seen or ";" in text:
            continue
        seen.add(text)
        found.append(Literal(kind, text))
        if len(found) == _TOO_MANY:
            break
    return found


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
