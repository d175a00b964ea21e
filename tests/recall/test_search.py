"""`Recall.search`: verbatim, ranked, within a size, and nothing for what is not there."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
import regex
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_tokenmem import Recall
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.recall.fusion import Boosts, DuplicateFilter
from langchain_tokenmem.storage.search_index import IndexReader
from tests.recall.talk import FILLER, NOON, filled, talk


def said(hits):
    return [hit.text for hit in hits]


def test_a_hit_says_what_was_said_and_when_and_by_whom(store, recall):
    text = "  The invoice\tNo. 4711 is <b>due</b>… 😀 "
    store.add("s", talk(*FILLER, start=100), now=NOON)
    store.add("s", [AIMessage(text, id="i1", name="Billing")], now=NOON)
    (hit,) = recall.search("invoice 4711", session_id="s", k=1)
    assert (hit.message_id, hit.session_id, hit.text) == ("i1", "s", text)
    assert (hit.role, hit.name, hit.created_at, hit.seq) == ("ai", "Billing", NOON, 7)
    assert hit.document_id is None
    assert hit.score > 0
    assert hit.lexical == pytest.approx(1)


def test_an_empty_question_and_an_empty_session_find_nothing(store, recall):
    assert recall.search("  ", session_id="s") == []
    assert recall.search("anything", session_id="nobody") == []
    filled(store, "s")
    assert recall.search("?!", session_id="s") == []
    assert recall.search("tram", session_id="s", k=0) == []


def test_the_same_question_always_gets_the_same_answer(store, recall):
    store.add("s", [HumanMessage(f"report {n % 5} of the week", id=f"m{n}") for n in range(60)])
    first = recall.search("weekly report 3", session_id="s", k=10)
    assert [recall.search("weekly report 3", session_id="s", k=10) for _ in range(3)] == [first] * 3


def test_of_equal_hits_the_newest_is_first(store, recall):
    words = ("alpha", "beta", "gamma", "delta")
    for word in words:
        store.add("s", talk(*[f"{word} {text}" for text in FILLER], start=hash(word)))
        store.add("s", [HumanMessage(f"secret {word}", id=word)])
    found = [hit.message_id for hit in recall.search("secret", session_id="s", k=4)]
    assert found == ["delta", "gamma", "beta", "alpha"]


def test_what_is_known_is_left_out(store, recall):
    filled(store, "s", "The key is under the mat.", "The key is in the shed.")
    hits = recall.search("where is the key", session_id="s")
    assert (
        said(hits)[:2] == ["The key is in the shed.", "The key is under the mat."] or len(hits) > 1
    )
    rest = recall.search("where is the key", session_id="s", exclude={hits[0].message_id})
    assert hits[0].message_id not in {hit.message_id for hit in rest}
    assert rest[0].message_id == hits[1].message_id


def test_only_some_messages_may_be_found(store, recall):
    ids = filled(store, "s", "The key is under the mat.", "The key is in the shed.")
    branch = set(ids[: len(FILLER) + 1])
    found = recall.search("key", session_id="s", among=branch)
    assert found[0].text == "The key is under the mat."
    assert {hit.message_id for hit in found} <= branch
    assert recall.search("key", session_id="s", among=set()) == []


def test_a_fault_of_the_callers_own_is_not_said_to_be_the_stores(store, recall):
    filled(store, "s")
    with pytest.raises(RecallError, match="count_tokens raised ValueError"):
        recall.search("tram", session_id="s", max_tokens=50, count_tokens=int)
    with pytest.raises(ConfigurationError, match=r"k is 1\.5"):
        recall.search("tram", session_id="s", k=1.5)
    assert recall.search("tram", session_id="s", max_tokens=50)


def test_hits_fill_the_size_in_rank_order(store, recall):
    store.add("s", [HumanMessage(f"budget item {n} " + "x " * n, id=f"m{n}") for n in range(40)])
    recall.count_tokens = lambda text: len(text.split())
    for limit in (0, 10, 25, 60, 200):
        hits = recall.search("budget item", session_id="s", k=40, max_tokens=limit)
        assert sum(len(hit.text.split()) + 16 for hit in hits) <= limit
    assert len(recall.search("budget item", session_id="s", k=40, max_tokens=200)) > 5
    counted = recall.search(
        "budget item", session_id="s", k=40, max_tokens=200, count_tokens=lambda _text: 184
    )
    assert len(counted) == 1


@pytest.mark.slow
def test_a_full_size_ends_the_search_and_a_long_hit_does_not(store, recall, monkeypatch):
    store.add("s", [HumanMessage(f"budget item {n} " + "x " * 40, id=f"m{n}") for n in range(600)])
    store.add("s", [HumanMessage("budget item summary " + "budget item " * 90, id="long")])
    read = []
    sources = IndexReader.sources

    def counting(reader, units):
        read.extend(units)
        return sources(reader, units)

    monkeypatch.setattr(IndexReader, "sources", counting)
    hits = recall.search("budget item", session_id="s", k=20, max_tokens=200, count_tokens=len)
    assert [hit.message_id for hit in hits] != ["long"]
    assert len(hits) == 1
    assert len(read) < 100


@pytest.mark.slow
def test_a_long_paste_is_found_by_its_middle(store, recall):
    lines = [f"2026-03-01 worker {n} finished batch {n * 7}" for n in range(6_000)]
    lines[3_000] = "2026-03-01 the flux capacitor overheated at station nine"
    store.add("s", talk(*FILLER, start=50))
    store.add("s", [HumanMessage("\n".join(lines), id="paste")])
    hit = recall.search("why did the flux capacitor overheat?", session_id="s")[0]
    assert hit.message_id == "paste"
    assert "flux capacitor overheated at station nine" in hit.text
    assert len(hit.text) < 3_000
    assert hit.parts > 100
    assert hit.part > 10


def test_of_a_message_its_best_part_is_shown_once(store, recall):
    store.add("s", [HumanMessage("pelican " * 5_000, id="p"), AIMessage("no", id="n")])
    hits = recall.search("pelican", session_id="s")
    assert [hit.message_id for hit in hits].count("p") == 1


def test_a_named_speaker_and_a_named_date_come_first(store):
    recall = Recall(store, boosts=Boosts(speaker=0.5, date=0.5))
    kinds = ("red", "green", "old", "big")
    for number, (name, day) in enumerate([("Ann", 1), ("Bob", 3), ("Ann", 9), ("Bob", 20)]):
        at = datetime(2026, 3, day, tzinfo=UTC)
        store.add("s", talk(*FILLER, start=100 * number), now=at)
        store.add(
            "s",
            [HumanMessage(f"I sold the {kinds[number]} boat", id=f"b{number}", name=name)],
            now=at,
        )
    ann = recall.search("When did Ann sell the boat?", session_id="s")
    assert {hit.name for hit in ann[:2]} == {"Ann"}
    third = recall.search("Who sold the boat on 3 March?", session_id="s")[0]
    assert third.message_id == "b1"


def test_system_messages_are_not_found(store, recall):
    store.add("s", [SystemMessage("The zebra protocol applies.", id="sys"), *talk(*FILLER)])
    assert all(hit.role != "system" for hit in recall.search("zebra protocol", session_id="s"))


def test_a_cleared_session_is_not_found_and_goes_on(store, recall):
    filled(store, "s", "The key is under the mat.")
    store.clear("s")
    assert recall.search("key", session_id="s") == []
    assert recall.backlog() == {"lexical": 0}
    store.add("s", talk("A new key hangs in the hall.", start=900))
    assert said(recall.search("key", session_id="s")) == ["A new key hangs in the hall."]


async def test_async_twins_do_the_same(store, recall):
    filled(store, "s", "The key is under the mat.")
    found = await recall.asearch("key", session_id="s", k=1)
    assert found == recall.search("key", session_id="s", k=1)
    assert await recall.aindex() == 0
    assert await recall.ahistory_search("k.y", session_id="s") == recall.history_search(
        "k.y", session_id="s"
    )
    many = await asyncio.gather(*(recall.asearch("key", session_id="s") for _ in range(8)))
    assert all(each == many[0] for each in many)
    assert await recall.arebuild() == store.count("s")
    await recall.aclose()


def test_rebuild_gives_the_same_answers(store, recall):
    filled(store, "s", "The key is under the mat.", "The key is in the shed.")
    before = recall.search("key in the shed", session_id="s")
    assert recall.rebuild() == store.count("s")
    assert recall.search("key in the shed", session_id="s") == before


def test_a_setting_that_cannot_work_is_refused(store):
    with pytest.raises(ConfigurationError, match="never negative"):
        Recall(store, neighbours=-1)


# --- regular expressions


@pytest.mark.slow
def test_history_search_gives_the_newest_matches_in_order(store, recall):
    store.add("s", [HumanMessage(f"ticket ABC-{n}", id=f"m{n}") for n in range(500)])
    hits = recall.history_search(r"abc-\d*7$", session_id="s", limit=3)
    assert said(hits) == ["ticket ABC-477", "ticket ABC-487", "ticket ABC-497"]
    assert recall.history_search(r"abc-\d*7$", session_id="s", ignore_case=False) == []
    assert said(recall.history_search(r"ABC-3$", session_id="s")) == ["ticket ABC-3"]
    assert recall.history_search("x", session_id="nobody") == []


def test_a_pattern_that_is_none_is_said(store, recall):
    with pytest.raises(ConfigurationError, match="no regular expression"):
        recall.history_search("(", session_id="s")


def test_a_pattern_that_runs_away_is_stopped(store, recall):
    store.add("s", [HumanMessage("a" * 5_000 + "b", id="m")])
    with pytest.raises(RecallError, match="took too long"):
        recall.history_search(r"^(a|aa|a*)*(a|aa)*$", session_id="s", timeout_s=0.05)


def test_the_limit_of_history_search_is_wall_clock_time_on_a_busy_machine(
    store, recall, monkeypatch
):
    """`regex` counts CPU time: while others have the processor, its own limit does not come."""
    store.add("s", [HumanMessage("1," * 2_000, id="m")])
    may_end, ended = threading.Event(), []

    class Starved:
        def search(self, text, **_):
            may_end.wait(60)
            ended.append(text)

    monkeypatch.setattr(regex, "compile", lambda *_: Starved())
    with pytest.raises(RecallError, match="took too long"):
        recall.history_search("x", session_id="s", timeout_s=0.1)
    assert not ended
    may_end.set()


@pytest.mark.slow
def test_the_limit_of_history_search_is_for_all_messages_together(store, recall, monkeypatch):
    store.add("s", [HumanMessage(f"ticket {n}", id=f"m{n}") for n in range(300)])
    searched = []

    class Slow:
        def search(self, text, **_):
            searched.append(text)
            time.sleep(0.02)

    monkeypatch.setattr(regex, "compile", lambda *_: Slow())
    with pytest.raises(RecallError, match="took too long"):
        recall.history_search("x", session_id="s", timeout_s=0.1)
    time.sleep(0.2)
    assert len(searched) <= 6


# --- near-duplicates


@pytest.mark.parametrize(
    ("one", "two", "is_new"),
    [
        ("the cat sat on the mat", "The cat sat on the mat!", False),
        (
            "it costs 40 euros a month for all of us",
            "it costs 45 euros a month for all of us",
            True,
        ),
        ("we do ship to Norway these days", "we do not ship to Norway these days", True),
        ("tea", "coffee", True),
    ],
)
def test_near_duplicates(recall, one, two, is_new):
    analyser = recall.lexical.analyser
    likeness = DuplicateFilter(analyser.harmless)
    assert likeness.is_new(analyser.words(one))
    assert likeness.is_new(analyser.words(two)) is is_new


def test_created_at_is_what_the_message_tells(store, recall):
    then = NOON - timedelta(days=400)
    marked = HumanMessage(
        "The lighthouse closed.",
        id="l",
        response_metadata={"tokenmem": {"created_at": then.isoformat()}},
    )
    store.add("s", [marked, *talk(*FILLER)])
    assert recall.search("lighthouse", session_id="s")[0].created_at == then
