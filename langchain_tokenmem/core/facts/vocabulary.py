"""Cue words that mark a constraint, an error, an open item and the like, in ten languages.

The words stand in `vocabulary.toml`: a table for each cue, in it a list for each language.
"""

# ruff: noqa: RUF001 - the punctuation of other scripts is meant as it stands

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

_TABLES: dict[str, dict[str, list[str]]] = tomllib.loads(
    files(__package__).joinpath("vocabulary.toml").read_text(encoding="utf-8")
)
_UNSPACED = ("zh", "ja", "signs")
"""Lists whose words need no border: no space ends them."""


def words_of(table: str, *lists: str) -> list[str]:
    """Return the words of a table: of the lists that are named, or of all."""
    return [word for name in lists or _TABLES[table] for word in _TABLES[table].get(name, ())]


def any_of(table: str, *lists: str) -> str:
    """Return an expression for any one of these words; an apostrophe is any of the two."""
    return f"(?:{'|'.join(words_of(table, *lists))})".replace("’", "['’]")


@cache
def cues(table: str) -> re.Pattern[str]:
    """Return a pattern for the words of a table, between borders where spaces end them."""
    spaced = any_of(table, *(name for name in _TABLES[table] if name not in _UNSPACED))
    unspaced = words_of(table, *_UNSPACED)
    return re.compile("|".join([rf"(?<!\w){spaced}(?!\w)", *unspaced]), re.IGNORECASE)


STOP_WORDS = frozenset(words_of("stop_words"))
NOT_NAMES = frozenset(words_of("not_names"))

ABBREVIATION = re.compile(rf"(?:^|[\s(]){any_of('abbreviation')}$")
