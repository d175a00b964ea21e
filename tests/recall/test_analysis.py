"""Terms: the same for every backend, languages without spaces and identifiers included."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem.core.search_units import IndexSource
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.recall import analysis
from langchain_tokenmem.recall.analysis import NamedDate, TextAnalyser, dates_in
from langchain_tokenmem.recall.text_parts import (
    OVERLAP_TOKENS,
    PART_TOKENS,
    parts_of,
    rough_tokens,
)

analyser = TextAnalyser()


def source(text: str, **changes) -> IndexSource:
    return IndexSource(1, text, "human", datetime(2026, 3, 5, tzinfo=UTC), **changes)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The errors were fixed", ["the", "error", "were", "fix"]),
        ("auth.py", ["auth.py", "auth", "py"]),
        ("parseHTTPResponse", ["parsehttpresponse", "pars", "http", "respons"]),
        ("snake_case_name", ["snake_case_name", "snake", "case", "name"]),
        ("ERR-4711", ["err-4711", "err", "4711"]),
        ("well-known", ["well", "known"]),
        ("Caroline's dog", ["carolin", "dog"]),
        ("\ufb01ne \uff21\uff22\uff23", ["fine", "abc"]),
        ("Café", ["cafe"]),
        ("請記住密碼", ["請記", "記住", "住密", "密碼"]),
        ("パスワード", ["パス", "スワ", "ワー", "ード"]),
        ("हिन्दी", ["हिन्दी"]),
        ("", []),
        ("... !?", []),
    ],
)
def test_terms_of_a_text(text, terms):
    assert analyser.terms(text) == terms


def test_a_path_is_found_by_its_file_and_by_its_words():
    terms = analyser.terms("see src/app/auth.py please")
    assert {"src/app/auth.py", "auth.py", "auth", "src", "app"} <= set(terms)


def test_stop_words_are_left_out_of_questions_not_of_texts():
    assert analyser.query_terms("What did we do about the invoice?") == ["invoic"]
    assert "the" in analyser.terms("the invoice")


def test_a_question_of_stop_words_alone_keeps_them():
    assert analyser.query_terms("who is who?") == ["who", "is"]


def test_date_and_speaker_belong_to_an_entry():
    (entry,) = analyser.entries(source("hello", name="Ann"))
    assert entry.terms == {"hello": 1, "ann": 1, "5": 1, "march": 1, "2026": 1}
    assert entry.length == 5


@pytest.mark.parametrize(
    "unindexed",
    [
        source("", name="Ann"),
        IndexSource(1, "be nice", "system", datetime(2026, 1, 1, tzinfo=UTC)),
        source("recalled", is_added=True),
        source("<recalled_messages>\nold words\n</recalled_messages>"),
    ],
)
def test_what_is_never_indexed(unindexed):
    assert list(analyser.entries(unindexed)) == []


def test_an_inserted_block_is_cut_out_of_a_message():
    (entry,) = analyser.entries(
        source("<recalled_messages>\ntulips\n</recalled_messages>\nAnd roses?")
    )
    assert "rose" in entry.terms
    assert "tulip" not in entry.terms


def test_an_unknown_language_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="klingon"):
        TextAnalyser("klingon")


def test_threads_that_share_an_analyser_get_the_terms_of_their_own_words(monkeypatch):
    interval = sys.getswitchinterval()
    monkeypatch.setattr(analysis, "_stem", analysis._stem.__wrapped__)
    monkeypatch.setattr(analysis, "_terms_of_chain", analysis._terms_of_chain.__wrapped__)
    shared = TextAnalyser()
    words = ["relational", "conditional", "rationalization", "hopefulness", "electricity"]
    alone = [shared.terms(word) for word in words]
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda n: shared.terms(words[n % 5]), range(400)))
    finally:
        sys.setswitchinterval(interval)
    assert [found[n] for n in range(400) if found[n] != alone[n % 5]] == []


def test_another_language_has_its_stems_and_stop_words():
    german = TextAnalyser("german")
    assert german.query_terms("Wo sind die Häuser?") == ["haus"]
    assert german.version != analyser.version


@given(st.text(max_size=200))
def test_no_text_breaks_the_analyser(text):
    assert analyser.terms(text) == analyser.terms(text)
    assert set(analyser.query_terms(text)) <= set(analyser.terms(text))
    assert all(term and "\x00" not in term for term in analyser.terms(text))


def test_a_short_text_is_one_part():
    assert parts_of("short") == ["short"]


@given(st.lists(st.sampled_from(["word ", "Satz. ", "line\n", "文字", "x" * 40]), max_size=3_000))
def test_parts_cover_a_text_and_overlap(pieces):
    text = "".join(pieces).strip()
    parts = parts_of(text)
    end = 0
    for number, part in enumerate(parts):
        at = text.index(part, 0 if not number else max(0, end - 40 * OVERLAP_TOKENS))
        assert at <= end
        end = max(end, at + len(part))
        assert rough_tokens(part) <= PART_TOKENS + OVERLAP_TOKENS + 1
    assert end == len(text)


@pytest.mark.parametrize(
    ("question", "dates"),
    [
        ("on 7 May 2023", [NamedDate(2023, 5, 7)]),
        ("on May 7th, 2023?", [NamedDate(2023, 5, 7)]),
        ("2023-05-07", [NamedDate(2023, 5, 7)]),
        ("in June", [NamedDate(None, 6, None)]),
        ("in June 2022", [NamedDate(2022, 6, None)]),
        ("back in 2021", [NamedDate(2021, None, None)]),
        ("may I ask?", []),
        ("room 12 at 99-99-99", []),
    ],
)
def test_dates_of_a_question(question, dates):
    assert dates_in(question) == dates


def test_a_day_has_one_day_of_grace():
    moment = datetime(2023, 5, 8, tzinfo=UTC)
    assert NamedDate(2023, 5, 7).fits(moment)
    assert not NamedDate(2023, 5, 5).fits(moment)
    assert not NamedDate(2022, 5, 8).fits(moment)


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("护照在哪里?", ["护照"]),
        ("我的护照在哪里", ["护照"]),
        ("護照在哪裡", ["護照"]),
        ("你是谁", ["你是", "是谁"]),
        ("京都の会議はいつですか?", ["京都", "会議"]),
        ("パスポートはどこですか", ["パス", "スポ", "ポー", "ート"]),
        ("犬はどこ", ["犬は", "はど", "どこ"]),
    ],
)
def test_grammar_without_spaces_is_left_out_of_questions(question, terms):
    found = TextAnalyser().query_terms(question)
    assert found[: len(terms)] == terms
    assert set(found) - set(terms) <= {"哪裡", "裡"}
