"""Tags that a note's content gives by itself: paths, functions and packages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from langchain_tokenmem.core.facts.literals import find_literals

# The finder of literals is made for sentences.
_CHUNK = re.compile(r".{1,600}(?:\s|$)|.{600}")

_NAMED = {
    "function": ("function", "method", "def", "func", "fn"),
    "package": ("package", "module", "library", "crate"),
}
_KINDS = {word: kind for kind, words in _NAMED.items() for word in words}
_DECLARED = re.compile(
    rf"(?:\b(?P<article>the|a|an|this|that|each|every|any|our|my|your|its|no|one)\s+)?"
    rf"(?<![\w./-])(?P<word>{'|'.join(_KINDS)})\s+[`'\"]?"
    r"(?P<name>@?[A-Za-z_][\w.$/@-]{0,99})(?P<call>\(\))?",
    re.IGNORECASE,
)
_CALL = re.compile(r"(?<![\w.])[A-Za-z_]\w{0,60}(?:\.\w{1,60}){0,4}\(\)")
# A plain word behind "function" or "package" is often a verb or a joining word.
_OTHER_WORDS = """
a about after all an and are as at be because been before being but by call called calls can could
do does each for from get gets had has have if in into is it its itself may must name named names
needs not of on or our out over returns runs should since so takes than that the their them then
there these they this those to under uses using was we were when where which while who will with
works would you your
"""
_NO_NAMES = frozenset(_OTHER_WORDS.split())
# Behind an article: "the package arrived", "the function works".
_VERB_END = re.compile(r"(?:ed|ing|s)$")
_IS_IDENTIFIER = re.compile(r"[_.$/@\d-]|[a-z][A-Z]")
# "his/her/their" has slashes, too: a path without a root has a dot, a line, a digit or an end.
_IS_PATH = re.compile(r"^[/~.]|^[A-Za-z]:\\|[._\d]|/$|file$")
_DATE = re.compile(r"[\d./:-]+")
_HOST = re.compile(r"^(?:www\.|[\w.-]+\.(?:com|org|net|io|dev|ai|app|edu|gov|eu|uk|de|fr|co)/)")


def tags_in(content: str) -> list[str]:
    """Return the paths, functions and packages that a content names, each once, in this order.

    Example:
        >>> tags_in("Edit /src/app/config.py: function parse_config in package main")
        ['/src/app/config.py', 'function parse_config', 'package main']
        >>> tags_in("See https://example.com/a/b.py of 2026/11/22, either/or.")
        []
    """
    return list(dict.fromkeys([*_paths(content), *_declared(content), *_calls(content)]))


def _paths(content: str) -> Iterator[str]:
    for line in content.splitlines():
        for chunk in _CHUNK.findall(line):
            for literal in find_literals(chunk):
                text = literal.text
                is_other = _DATE.fullmatch(text) or _HOST.search(text)
                if literal.kind == "path" and _IS_PATH.search(text) and not is_other:
                    yield text


def _declared(content: str) -> Iterator[str]:
    for match in _DECLARED.finditer(content):
        name = match["name"].rstrip(".-/$@")
        is_identifier = bool(_IS_IDENTIFIER.search(name) or match["call"])
        is_verb = match["article"] and _VERB_END.search(name)
        is_word = len(name) < 2 or name.lower() in _NO_NAMES or is_verb  # noqa: PLR2004
        if name and (is_identifier or not is_word):
            yield f"{_KINDS[match['word'].lower()]} {name}"


def _calls(content: str) -> Iterator[str]:
    yield from (f"function {match[0][:-2]}" for match in _CALL.finditer(content))
