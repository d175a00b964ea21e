"""Terms, vectors and the floor: what makes words and meaning one ranking."""

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import Recall
from langchain_tokenmem.core.search_units import pack_unit
from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.analysis import TextAnalyser
from langchain_tokenmem.recall.dates import span_in
from langchain_tokenmem.recall.embeddings import HashingEmbeddings, embed_texts
from langchain_tokenmem.recall.fusion import Floor, fused
from langchain_tokenmem.recall.text_parts import (
    OVERLAP_TOKENS,
    PART_TOKENS,
    PASSAGE_TOKENS,
    parts_of,
    passage_of,
    rough_tokens,
)
from langchain_tokenmem.recall.words import Scores, score
from tests.recall.samples import FILLER, talk
from tests.strategies import any_text

analyser = TextAnalyser()


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The errors were fixed", ["the", "error", "were", "fix"]),
        ("auth.py", ["auth.py", "auth", "py"]),
        ("parseHTTPResponse", ["parsehttpresponse", "pars", "http", "respons"]),
        ("snake_case_name", ["snake_case_name", "snake", "case", "name"]),
        ("ERR-4711", ["err-4711", "err", "4711"]),
        ("Caroline's dog", ["carolin", "dog"]),
        ("\ufb01ne \uff21\uff22\uff23", ["fine", "abc"]),
        ("請記住密碼", ["請記", "記住", "住密", "密碼"]),
        ("パスワード", ["パス", "スワ", "ワー", "ード"]),
        ("", []),
    ],
)
def test_terms_of_a_text(text, terms):
    assert analyser.terms(text) == terms


@given(any_text(max_size=200))
def test_no_text_breaks_the_analyser(text):
    assert analyser.terms(text) == analyser.terms(text)
    assert set(analyser.query_terms(text)) <= set(analyser.terms(text))
    assert all(term and "\x00" not in term for term in analyser.terms(text))


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


SENTENCES = st.sampled_from(["A key. ", "It rains today.\n", "word " * 30, "文字。"])


@given(st.lists(SENTENCES, max_size=60))
def test_a_passage_has_every_sentence_of_a_part_that_matches(sentences):
    part = "".join(sentences)
    passage = passage_of(part, lambda sentence: "key" in sentence)
    assert passage in part
    assert passage.count("key") == part.count("key")
    assert rough_tokens(passage) >= min(rough_tokens(part.strip()), PASSAGE_TOKENS) - 1


@given(any_text(), st.integers(2, 300))
def test_any_text_has_one_finite_vector_of_length_one(text, dim):
    vector = np.array(HashingEmbeddings(dim).embed_query(text))
    assert vector.shape == (dim,)
    assert np.isclose(np.linalg.norm(vector), 1.0)
    assert HashingEmbeddings(dim).embed_documents([text]) == [vector.tolist()]


@pytest.mark.parametrize("wrong", [[[1.0, 2.0]], [[1.0] * 4], [[float("nan")] * 4] * 2, []])
def test_what_is_no_vector_for_each_text_is_refused(wrong):
    class Wrong(HashingEmbeddings):
        def embed_documents(self, texts):
            return wrong

    with pytest.raises(RecallError, match="Nothing was stored"):
        embed_texts(Wrong(4), ["a", "b"], 4)


def scores_of(
    *rows: tuple[int, float, float, int], known: float = 1.0, length: int = 20, scope: int = 50
) -> Scores:
    """Units with score, share and count of own terms, all of the same weight."""
    units = np.array([row[0] for row in rows], np.int64)
    columns = [np.array([row[at] for row in rows], np.float64) for at in (1, 2, 3)]
    values, shares, counts = columns
    strongest = np.where(counts > 0, shares / np.maximum(counts, 1), 0)
    lengths = np.full(len(rows), float(length))
    return Scores(units, values, shares, strongest, counts, lengths, known, scope)


def ranked(lexical, meaning=(), lacking=()):
    weights = {"lexical_weight": 0.4, "dense_weight": 0.6}
    ranking = fused(lexical, meaning, floor=Floor(), lacking=lacking, **weights)
    return dict(zip(ranking.units.tolist(), ranking.scores.tolist(), strict=True))


@pytest.mark.parametrize(
    ("share", "count", "known", "length", "passes"),
    [
        *((0.2, 2, 0.4, 20, True), (0.2, 2, 0.2, 20, False), (0.2, 3, 0.2, 20, True)),
        *((0.2, 5, 0.4, 300, False), (0.65, 2, 0.4, 300, True), (0.3, 5, 0.4, 300, True)),
        (0.9, 0, 0.2, 20, False),
    ],
)
def test_the_longer_a_message_the_more_words_it_needs(share, count, known, length, passes):
    found = ranked(scores_of((1, 5.0, share, count), (2, 1.0, 0.02, 0), known=known, length=length))
    assert set(found) == ({1, 2} if passes else set())


@pytest.mark.parametrize(
    ("scope", "length", "share"),
    [(50, 300, 0.5), (9_000, 10, 0.5), (500, 100, 0.69), (9_000, 300, 0.78)],
)
def test_one_word_is_enough_in_a_short_message_or_history(share, scope, length):
    for known, passes in ((share, True), (share - 0.02, False)):
        found = ranked(scores_of((1, 5.0, known, 1), known=known, scope=scope, length=length))
        assert set(found) == ({1} if passes else set())


COUNTS = st.tuples(st.integers(1, 5), st.integers(1, 400))


@given(st.dictionaries(st.integers(1, 30), COUNTS, min_size=1), st.floats(5, 200))
def test_no_message_comes_before_one_with_the_word_because_of_its_neighbours(said, average):
    own = {pack_unit(1, seq): counts for seq, counts in said.items()}
    rows = [(unit, times, max(times, length), 0) for unit, (times, length) in own.items()]
    found = score({"key": rows}, {"key": len(rows)}, 100, average)
    by_unit = dict(zip(found.units.tolist(), found.values.tolist(), strict=True))
    weakest = min(by_unit[unit] for unit in own)
    assert all(value < weakest for unit, value in by_unit.items() if unit not in own)


def test_a_long_answer_comes_after_what_the_user_stated(store, recall):
    steps = [f"Step {n}: the Oslo budget grows with the visitors." for n in range(80)]
    stated = HumanMessage("The Oslo budget is 4,000 euros.", id="stated")
    store.add("s", [stated, AIMessage("\n\n".join(steps), id="long")])
    found = [hit.message_id for hit in recall.search("What is the Oslo budget?", session_id="s")]
    assert found.index("long") > found.index("stated")


@given(
    st.lists(st.tuples(st.floats(0.1, 9), st.booleans()), min_size=2, max_size=20),
    st.integers(0, 9),
)
def test_a_missing_vector_never_puts_better_words_behind_worse_ones_without_vector(rows, seed):
    random = np.random.default_rng(seed)
    lexical = scores_of(*((unit, value, 0.5, 2) for unit, (value, _) in enumerate(rows)))
    lacking = {unit for unit, (_, is_owed) in enumerate(rows) if is_owed}
    meaning = [(u, float(random.uniform(0, 1))) for u in range(len(rows)) if u not in lacking]
    found = ranked(lexical, meaning, lacking=lacking)
    best = max(value for value, _ in rows)
    for unit in lacking:
        assert found[unit] == pytest.approx(rows[unit][0] / best)


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What did I say yesterday?", "2026-04-14 2026-04-14"),
        ("What happened last week?", "2026-04-06 2026-04-12"),
        ("What was decided this month?", "2026-04-01 2026-04-15"),
        ("Whom did she meet last year?", "2025-01-01 2025-12-31"),
        ("Who called two weeks ago?", "2026-03-29 2026-04-04"),
        ("Who called last Wednesday?", "2026-04-08 2026-04-08"),
        ("Who called the day before yesterday?", "2026-04-13 2026-04-13"),
        ("What happened over the past two months?", "2026-02-14 2026-04-15"),
        ("What did we do in May?", "2025-05-01 2025-05-31"),
        ("on May 7th, 2023?", "2023-05-06 2023-05-08"),
        ("What happened in 2024?", "2024-01-01 2024-12-31"),
        ("Was war am 3.4.2026?", "2026-04-02 2026-04-04"),
        *((question, None) for question in ("may I ask?", "room 12 at 99-99-99", "on 30 February")),
        ("in May or June 2024", None),
    ],
)
def test_the_days_that_a_question_names(question, days):
    span = span_in(question, datetime(2026, 4, 15, 12, tzinfo=UTC))
    assert (span and f"{span.first} {span.last}") == days


@pytest.mark.parametrize(
    "question",
    [
        "What did we talk about last week?",
        "Do you remember what I told you yesterday?",
        "Please summarize what we did in May 2024.",
        "What did we do in the last 10 days?",
    ],
)
def test_what_asks_for_nothing_but_a_time(question):
    assert analyser.time_asked(question) is not None


@pytest.mark.parametrize(
    "question",
    [
        *("Did it last 3 days?", "What did we do before 2025?", "Thanks, that is it for today"),
        *("I was there last year", "What is 2048?", "What did the president say last week?"),
    ],
)
def test_what_asks_for_more_than_a_time_or_for_none(question):
    assert analyser.time_asked(question) is None


def test_a_message_that_waits_for_its_vector_is_found_as_before(store, monkeypatch):
    with Recall(store, embeddings=HashingEmbeddings(64)) as recall:

        def found():
            hit = recall.search("Where is the spare key?", session_id="s", k=1)[0]
            return hit.message_id, hit.cosine is not None

        store.add("s", talk(*FILLER, "The spare tyre is in the garage.", *FILLER))
        recall.index()
        monkeypatch.setattr(recall._dense, "wake", lambda _change: None)
        monkeypatch.setattr(recall._dense._worker, "wake", lambda: None)
        assert recall._dense._worker.wait(30)  # woken by the first messages, it may still be there
        store.add("s", [HumanMessage("The spare key is in the red drawer.", id="new")])
        assert recall.backlog()["vectors"] == 1
        assert found() == ("new", False)
        recall.index()
        assert found() == ("new", True)
