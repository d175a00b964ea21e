"""The word lists of the facts reader."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files

import pytest

from langchain_tokenmem.core.facts import sentences

TABLES = tomllib.loads(files(sentences.__package__).joinpath("vocabulary.toml").read_text("utf-8"))
LANGUAGES = {"en", "de", "fr", "es", "pt", "it", "nl", "ru", "zh", "ja"}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_holds_lists_of_words_that_are_expressions(table):
    assert TABLES[table].keys() <= LANGUAGES | {"any"}
    for words in TABLES[table].values():
        assert words
        assert len(set(words)) == len(words)
        for word in words:
            assert word == word.strip()
            assert re.compile(word).groups == 0


def test_words_have_borders_where_spaces_end_them():
    assert sentences.cues("error").search("Der Fehler ist behoben")
    assert not sentences.cues("error").search("debugging")
    assert sentences.cues("error").search("发生错误了")


@pytest.mark.parametrize("apostrophe", ["'", "\u2019"])
def test_a_word_has_either_apostrophe(apostrophe):
    assert re.search(sentences.any_of("rule_modal"), f"You mustn{apostrophe}t deploy")
    assert sentences.cues("greeting").search(f"you{apostrophe}re welcome")
