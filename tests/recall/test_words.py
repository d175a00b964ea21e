"""Search by words: the formula, the neighbours, statistics per scope, long histories."""

from __future__ import annotations

import logging
import math

import pytest
from langchain_core.messages import HumanMessage

from langchain_tokenmem import Recall
from langchain_tokenmem.core.search_units import Scope, pack_unit, unpack_unit
from langchain_tokenmem.recall import LexicalIndex
from langchain_tokenmem.recall.analysis import TextAnalyser
from langchain_tokenmem.recall.words import Bm25, ReadLimits, TermWeight, idf, score
from tests.recall.talk import FILLER, filled, talk


def texts(store, scope, scores):
    with store.index.reading(scope) as reader:
        found = reader.sources([int(unit) for unit in scores.units])
    order = sorted(zip(scores.values.tolist(), scores.units.tolist(), strict=True), reverse=True)
    return [
        found[unpack_unit(unit)[:2]].text for _, unit in order if unpack_unit(unit)[:2] in found
    ]


def test_the_formula_by_hand():
    unit = pack_unit(1, 10)
    scores = score(
        {"a": [(unit, 2, 8)]}, {"a": TermWeight(1.5, 1)}, 8.0, Bm25(k1=1.0, b=0.5, neighbours=0)
    )
    assert scores.units.tolist() == [unit]
    assert scores.values[0] == pytest.approx(1.5 * 2 * 2 / (1 + 2))
    assert scores.shares[0] == 1
    assert scores.counts[0] == 1
    assert idf(1, 10) == pytest.approx(math.log(1 + 9.5 / 1.5))


def test_a_word_is_lent_to_the_neighbours():
    parameters = Bm25(neighbours=2, neighbour_weight=0.3)
    scores = score({"a": [(pack_unit(1, 10), 1, 5)]}, {"a": TermWeight(1, 1)}, 5.0, parameters)
    places = [unpack_unit(unit) for unit in scores.units.tolist()]
    assert places == [(1, seq, 0) for seq in (8, 9, 10, 11, 12)]
    assert scores.values.argmax() == 2
    assert scores.shares.tolist() == pytest.approx([0.3, 0.3, 1, 0.3, 0.3])


def test_the_first_message_lends_nothing_to_another_shelf():
    scores = score({"a": [(pack_unit(2, 1), 1, 5)]}, {"a": TermWeight(1, 1)}, 5.0, Bm25())
    assert {unpack_unit(unit)[0] for unit in scores.units.tolist()} == {2}


def test_words_are_found_as_soon_as_they_are_said(store):
    index = LexicalIndex(store)
    filled(store, "s", "The key is under the blue mat.")
    found = texts(store, Scope("s"), index.search("Where are the keys?", Scope("s")))
    assert found[0] == "The key is under the blue mat."


def test_what_was_said_before_is_taken_in(store):
    filled(store, "s", "The key is under the blue mat.")
    assert store.index.backlog()["lexical"] == 1
    index = LexicalIndex(store)
    assert index.index() == 2 * len(FILLER) + 1
    assert index.index() == 0
    assert store.index.backlog()["lexical"] == 0
    assert texts(store, Scope("s"), index.search("keys", Scope("s")))


def test_an_answer_is_found_by_the_words_of_its_question(store):
    index = LexicalIndex(store)
    store.add("s", talk(*FILLER, "What does the licence cost?", "Forty euros.", *FILLER))
    found = texts(store, Scope("s"), index.search("cost of the licence", Scope("s")))
    assert "Forty euros." in found[:3]


def test_statistics_are_those_of_the_scope(store):
    index = LexicalIndex(store)
    filled(store, "a", "zebra")
    with store.index.reading(Scope("a")) as reader:
        before = (reader.totals(), reader.counts(["zebra", "tram"]))
    for number in range(5):
        filled(store, f"b{number}", "zebra zebra", user_id="other")
    with store.index.reading(Scope("a")) as reader:
        assert (reader.totals(), reader.counts(["zebra", "tram"])) == before
    assert index.search("zebra", Scope("a")).units.size


@pytest.mark.slow
def test_common_terms_are_looked_up_for_the_best_only(store):
    texts_ = [f"the report of day {number} and of team {number % 7}" for number in range(400)]
    texts_[123] = "the report of the walrus"
    store.add("s", [HumanMessage(text, id=f"m{n}") for n, text in enumerate(texts_)])
    whole = LexicalIndex(store, effort=ReadLimits(postings=10_000))
    quick = LexicalIndex(store, effort=ReadLimits(postings=50, candidates=10))
    for query in ("walrus report", "report of team 3 walrus"):
        one, two = (
            texts(store, Scope("s"), each.search(query, Scope("s"))) for each in (whole, quick)
        )
        assert one[0] == two[0] == "the report of the walrus"


def test_a_term_that_is_rare_nowhere_brings_the_newest(store):
    store.add("s", [HumanMessage(f"report {number}", id=f"m{number}") for number in range(300)])
    index = LexicalIndex(store, effort=ReadLimits(postings=20))
    found = index.search("report", Scope("s"))
    assert {unpack_unit(unit)[1] for unit in found.units.tolist()} >= set(range(281, 301))
    assert found.units.size < 30


def test_a_failing_analyser_never_fails_a_turn(store, caplog, monkeypatch):
    recall = Recall(store)

    def fail(*_args):
        raise RuntimeError("no analysis today")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(TextAnalyser, "entries", fail)
        filled(store, "s", "The key is under the blue mat.")
    assert "could not be analysed" in caplog.text
    assert store.count("s") == 2 * len(FILLER) + 1
    assert recall.backlog() == {"lexical": 1}
    store.add("s", [HumanMessage("one more", id="more")])
    assert recall.search("blue mat", session_id="s")[0].text == "The key is under the blue mat."
    assert recall.search("more", session_id="s", k=1)[0].text == "one more"
    assert recall.backlog() == {"lexical": 0}


def test_another_analyser_begins_the_index_anew(store):
    LexicalIndex(store)
    filled(store, "s", "Die Häuser stehen am Fluss.")
    german = LexicalIndex(store, analyser=TextAnalyser("german"))
    found = texts(store, Scope("s"), german.search("Haus", Scope("s")))
    assert found[0] == "Die Häuser stehen am Fluss."


def test_a_session_that_is_claimed_is_found_by_its_user(store):
    recall = Recall(store)
    filled(store, "s", "The key is under the blue mat.")
    store.add("s", [HumanMessage("hello", id="late")], user_id="u")
    found = recall.search("blue mat", session_id="t", user_id="u", scope="user")
    assert found[0].text == "The key is under the blue mat."
    assert recall.search("blue mat", session_id="s")[0].session_id == "s"
