"""`Recall.search`: verbatim, ranked, within a size, in any language, and nothing unrelated."""

import asyncio
import logging
import threading
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from sqlalchemy import event, text

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.core.inserted_text import block_of
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.recall import HashingEmbeddings
from langchain_tokenmem.recall.analysis import TextAnalyser
from langchain_tokenmem.recall.fusion import Boosts
from langchain_tokenmem.storage.tables import terms
from tests.recall.samples import FILLER, NOON, filled, talk

PLANTED = {
    "服务器搬到哪里?": "我们决定把服务器搬到法兰克福数据中心。",
    "会議はいつに延期されましたか": "会議は来週の火曜日に延期されました。",
    "예산은 확정했나요?": "오늘 회의에서 예산을 확정했습니다.",
    "ส่งของไปเชียงใหม่เมื่อไร": "เราจะส่งของไปเชียงใหม่พรุ่งนี้",
    "what did we change in auth.py?": "The fix is in src/app/auth.py, line 12.",
    "ERR_TIMEOUT-4711": "Build failed with ERR_TIMEOUT-4711 again.",
    "where is parseHTTPResponse called": "Call parseHTTPResponse before closing.",
    "max_retry_count": "Rename max_retry_count in the settings.",
}
UNSPACED = (
    "今天天气很好,我们去公园。",
    "昨日は映画を見ました。",
    "점심은 맛있었어요.",
    "วันนี้อากาศดีมาก",
)
OTHERS = (*UNSPACED, "A file py and an error and a count of other things.")
DATED = ("We saw the film yesterday.", "That was 3 weeks ago, this year.")
BUDGETS = ("The budget is 5000 euros.", "The budget was raised to 6000.", "Budget approved.")
FIRST = {
    "identifiers and scripts without spaces": ((*OTHERS, *PLANTED.values()), PLANTED),
    "words of time alone, as words": (
        DATED,
        {"Who sang 'Yesterday'?": DATED[0], "3 weeks ago": DATED[1]},
    ),
    "the latest or the first": (
        BUDGETS,
        {
            "What is the newest budget for the project?": BUDGETS[-1],
            "What was the earliest budget for the project?": BUDGETS[0],
        },
    ),
}


def texts_of(hits):
    return [hit.text for hit in hits]


def ids_of(hits):
    return [hit.message_id for hit in hits]


# --- what is found


def test_a_hit_says_what_was_said_and_when_and_by_whom(store, recall):
    text = "  The invoice\tNo. 4711 is <b>due</b>… 😀 "
    then = NOON - timedelta(days=400)
    marks = {"tokenmem": {"created_at": then.isoformat()}}
    store.add("s", talk(*FILLER, start=100), now=NOON)
    store.add("s", [AIMessage(text, id="i1", name="Billing", response_metadata=marks)], now=NOON)
    (hit,) = recall.search("invoice 4711", session_id="s", k=1)
    assert (hit.message_id, hit.session_id, hit.text) == ("i1", "s", text)
    assert (hit.role, hit.name, hit.created_at, hit.seq) == ("ai", "Billing", then, 7)
    assert hit.document_id is None
    assert hit.score > 0
    assert hit.lexical == pytest.approx(1)


@pytest.mark.parametrize("what", FIRST)
def test_what_a_question_means_is_found_first(store, recall, what):
    planted, questions = FIRST[what]
    filled(store, "s", *planted)
    for question, answer in questions.items():
        assert recall.search(question, session_id="s")[0].text == answer


def test_another_language_has_its_stems_and_begins_the_index_anew(store, recall):
    filled(store, "s", "Die Häuser stehen am Fluss.")
    with Recall(store, language="german") as german:
        assert german.search("Haus", session_id="s")[0].text == "Die Häuser stehen am Fluss."
    with pytest.raises(ConfigurationError, match="klingon"):
        Recall(store, language="klingon")


def test_an_answer_is_found_by_the_words_of_its_question(store, recall):
    store.add("s", talk(*FILLER, "What does the licence cost?", "Forty euros.", *FILLER))
    assert "Forty euros." in texts_of(recall.search("cost of the licence", session_id="s"))[:3]


@pytest.mark.slow
def test_a_long_paste_is_found_by_its_middle(store, recall):
    lines = [f"2026-03-01 worker {n} finished batch {n * 7}" for n in range(6_000)]
    lines[3_000] = "2026-03-01 the flux capacitor overheated at station nine"
    store.add("s", talk(*FILLER, start=50))
    store.add("s", [HumanMessage("\n".join(lines), id="paste")])
    hit = recall.search("why did the flux capacitor overheat?", session_id="s")[0]
    assert "flux capacitor overheated at station nine" in hit.text
    assert len(hit.text) < 3_000
    assert (hit.message_id, hit.parts > 100, hit.part > 10) == ("paste", True, True)


# --- what is not


def test_an_unrelated_or_empty_question_recalls_nothing(store, recall):
    filled(store, "s", "The key is under the mat.", "We agreed on forty euros.")
    unrelated = ("How do I configure a reverse proxy with TLS?", "Which vitamins are fat soluble?")
    folded = "la\u017ft \u017funday"  # to letters of a weekday
    for question in (*unrelated, folded, "hi", "thanks!", "  ", "?!"):
        assert recall.search(question, session_id="s") == []
    assert recall.search("key", session_id="s", k=0) == []


@pytest.mark.parametrize("others", [[], ["What a fine dog!"], ["Good dog!", "Dogs like cheese."]])
def test_a_word_that_every_message_of_a_short_history_has_is_found(store, recall, others):
    store.add("s", [HumanMessage(text) for text in ["My dog is Rex.", *others]])
    hits = recall.search("What is the name of my dog?", session_id="s")
    assert set(texts_of(hits)) == {"My dog is Rex.", *others}


def test_system_messages_and_text_inserted_by_the_memory_are_never_found(store, recall):
    filled(store, "s")
    block = "<recalled_messages>\nThe key is under the mat.\n</recalled_messages>"
    asked = HumanMessage(f"{block}\nWhat is the time?", id="with-block")
    store.add("s", [SystemMessage("The key is a zebra.", id="sys"), asked])
    for _ in range(2):
        assert recall.search("key under the mat zebra", session_id="s") == []
        assert recall.rebuild() == store.count("s")


def test_only_some_messages_may_be_found(store, recall):
    mat, shed = "The key is under the mat.", "The key is in the shed."
    ids = filled(store, "s", mat, shed)
    branch = set(ids[: len(FILLER) + 1])
    hits = recall.search("key", session_id="s", among=branch)
    assert hits[0].text == mat
    assert {*ids_of(hits)} <= branch
    rest = recall.search("key", session_id="s", exclude={hits[0].message_id})
    assert rest[0].text == shed
    assert mat not in texts_of(rest)
    for nothing in ({"among": set()}, {"exclude": set(ids)}):
        assert recall.search("key", session_id="s", **nothing) == []


def test_a_conversation_that_is_left_out_as_a_whole_is_not_searched(store, recall):
    ids = filled(store, "s", "The key is under the mat.")
    statements: list[str] = []
    engine = store.database._engine
    event.listen(engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    assert recall.search("key", session_id="s", exclude={*ids, "another"}) == []
    assert statements
    assert not any(terms.name in one for one in statements)
    key = ids[len(FILLER)]
    assert recall.search("key", session_id="s", exclude={*ids, "another"} - {key})
    recall.add_documents([Document("The key of the shed is lost.")], session_id="s")
    found = recall.search("key", session_id="s", exclude={*ids, *map(str, range(len(ids)))})
    assert texts_of(found) == ["The key of the shed is lost."]


# --- in which order, and how much


@pytest.mark.slow
def test_searches_go_on_during_a_rebuild_an_interrupted_one_is_continued_and_nothing_is_lost(
    store, recall
):
    for name in "abc":
        store.add(name, [HumanMessage(f"report {n} of {name}") for n in range(70)], user_id="u")

    def found():
        hits = recall.search("report 66", user_id="u", scope="user", k=9)
        return [(hit.session_id, hit.text, hit.score) for hit in hits]

    before = found()
    for _, done, total in store.index.rebuild_lexical():
        assert (found(), total) == (before, 210)
        if done > 100:
            break
    assert recall.rebuild() == 210 - done
    assert found() == before
    with store.index.writing_to(1) as (connection, _):
        connection.execute(text("DELETE FROM tokenmem_terms"))
        connection.execute(text("UPDATE tokenmem_sessions SET unit_count = 0, term_count = 0"))
    assert found() == []
    assert recall.rebuild() == 210
    assert found() == before


def test_of_equal_hits_the_newest_is_first(store, recall):
    for word in ("alpha", "beta", "gamma"):
        far = [f"{word} {text}" for text in FILLER * 3]  # further than a neighbour's words reach
        store.add("s", [*map(HumanMessage, far), HumanMessage(f"secret {word}", id=word)])
    hits = recall.search("secret", session_id="s", k=3)
    assert ids_of(hits) == ["gamma", "beta", "alpha"]


def test_a_misspelled_name_of_a_speaker_means_the_speaker(store, recall):
    said = "The new camera takes sharp pictures."
    other = AIMessage(f"{said} I have one, too.", name="Akib", id="Akim")
    store.add("s", [HumanMessage(said, name="Muhhamed", id="Mohammed"), other])
    for name in ("Akim", "Mohammed"):
        hits = recall.search(f"Which camera takes {name}'s pictures?", session_id="s")
        assert hits[0].message_id == name


def test_a_named_speaker_and_a_named_date_come_first(store):
    recall = Recall(store, boosts=Boosts(speaker=0.5, date=0.5))
    kinds = ("red", "green", "old", "big")
    for number, (name, day) in enumerate([("Ann", 1), ("Bob", 3), ("Ann", 9), ("Bob", 20)]):
        at = datetime(2026, 3, day, tzinfo=UTC)
        sold = HumanMessage(f"I sold the {kinds[number]} boat", id=f"b{number}", name=name)
        store.add("s", [*talk(*FILLER, start=100 * number), sold], now=at)
    ann = recall.search("When did Ann sell the boat?", session_id="s")
    assert {hit.name for hit in ann[:2]} == {"Ann"}
    third = recall.search("Who sold the boat on 3 March?", session_id="s")[0]
    assert third.message_id == "b1"


def test_an_update_and_what_it_updates_come_oldest_first_and_the_later_one_is_marked(store, recall):
    for day, crates in enumerate(("is 40 crates.", "is now 45 crates."), 1):
        message = HumanMessage(f"The delivery quantity {crates}")
        store.add("s", [message], now=datetime(2026, 5, day, 9, tzinfo=UTC))
    found = recall.search("What is the delivery quantity?", session_id="s")
    assert block_of(found, 1_000, len)["text"].splitlines()[2:-1] == [
        "2026-05-01 (UTC)",
        "09:00 user: The delivery quantity is 40 crates.",
        "2026-05-02 (UTC)",
        "09:00 user (newer): The delivery quantity is now 45 crates.",
    ]


@pytest.mark.slow
def test_a_time_in_the_question_is_found_among_many_that_say_the_same(store, recall):
    now, lunches = datetime.now(UTC), 30
    for ago in range(lunches, 0, -1):
        dish = HumanMessage(f"For lunch I had dish{ago} with friends.", id=f"d{ago}")
        store.add("s", [dish, AIMessage("Enjoy!")], now=now - timedelta(days=ago))
    times = {"yesterday": {1}, "two weeks ago": {*range(11, 18)}, "last week": {*range(1, 14)}}
    for when, days_ago in times.items():
        best = recall.search(f"What did I have for lunch {when}?", session_id="s")[0]
        assert (now.date() - best.created_at.date()).days in days_ago
    for which, ago in {"first": lunches, "latest": 1}.items():
        best = recall.search(f"What was the {which} lunch with friends?", session_id="s")[0]
        assert best.message_id == f"d{ago}"


def test_what_was_said_at_some_time_is_found_whatever_its_words(store, recall):
    question, now = "What did we talk about last week?", datetime.now(UTC)
    monday = now - timedelta(now.weekday() + 7)
    for day, line in enumerate(FILLER[:6], -1):  # Sunday to Friday
        said = [HumanMessage(line, id=f"q{day}"), AIMessage("I see. What happened then?")]
        store.add("s", said, now=monday + timedelta(day))
    said = HumanMessage("The tomatoes ripen.", id="other")
    store.add("other", [said], user_id="ann", now=monday)
    hits = recall.search(question, session_id="s", k=5)
    assert {*ids_of(hits)} == {f"q{day}" for day in range(5)}
    assert {hit.why for hit in hits} == {"said at the time that the question names"}
    assert ids_of(recall.search(question, session_id="other", user_id="ann")) == ["other"]
    hits = recall.search(question, session_id="s", exclude={"q0"}, before=monday + timedelta(1))
    assert {*texts_of(hits)} == {"I see. What happened then?"}
    assert recall.search("What did the president say last week?", session_id="s") == []


def test_what_names_the_date_comes_after_what_was_said_on_it(store, recall):
    day = datetime(2023, 5, 7, 12, tzinfo=UTC)
    lines = {0: "ok", 1: "Today I fell off my bike.", 9: "Report: 7 May 2023."}
    for later, line in lines.items():
        store.add("s", [HumanMessage(line, id=f"d{later}")], now=day + timedelta(later))
    recall.add_documents([Document("7 May 2023", metadata={"created_at": day})], session_id="s")
    hits = recall.search("What happened on 7 May 2023?", session_id="s")
    assert [hit.message_id for hit in hits if hit.document_id is None] == ["d1", "d0", "d9"]
    among = recall.search("What happened on 7 May 2023?", session_id="s", among={"d0"})
    assert "d0" in ids_of(among)


@pytest.mark.slow
def test_what_was_said_again_comes_once_and_a_contradiction_twice(store, recall):
    for number in range(9):
        store.add("s", [HumanMessage("I am allergic to hazelnuts!", id=f"n{number}")])
        store.add("s", [AIMessage(FILLER[number % 6], id=f"f{number}")])
    store.add("s", [HumanMessage("pelican " * 5_000, id="p"), AIMessage("no", id="n")])
    costs = ("The licence costs 40 euros a month.", "The licence costs 45 euros a month.")
    ship = ("we do ship to Norway these days", "we do not ship to Norway these days")
    filled(store, "t", *costs, *ship)
    hits = recall.search("allergic to hazelnuts", session_id="s", k=20)
    assert texts_of(hits).count("I am allergic to hazelnuts!") == 1
    assert ids_of(recall.search("pelican", session_id="s")).count("p") == 1
    assert set(texts_of(recall.search("What does the licence cost?", session_id="t"))) >= set(costs)
    assert set(texts_of(recall.search("Do we ship to Norway?", session_id="t"))) >= set(ship)


def test_hits_fill_their_token_limit_in_rank_order(store, recall):
    store.add("s", [HumanMessage(f"budget item {n} " + "x " * n, id=f"m{n}") for n in range(40)])
    recall.count_tokens = lambda text: len(text.split())
    sizes = []
    for limit in (0, 10, 25, 60, 200):
        hits = recall.search("budget item", session_id="s", k=40, max_tokens=limit)
        assert sum(len(hit.text.split()) + 16 for hit in hits) <= limit
        sizes.append(len(hits))
    assert all(one <= two for one, two in pairwise(sizes))
    assert sizes[-1] > 5
    counted = {"max_tokens": 200, "count_tokens": lambda _text: 184}
    assert len(recall.search("budget item", session_id="s", k=40, **counted)) == 1


def test_a_fault_of_the_caller_is_not_reported_as_one_of_the_store(store, recall):
    filled(store, "s")
    with pytest.raises(RecallError, match="count_tokens raised ValueError"):
        recall.search("tram", session_id="s", max_tokens=50, count_tokens=int)
    times = [({"after": time}, "after is .*; give a datetime, a date") for time in ("soon", 5, "")]
    for wrong, error in (
        *(({"k": 1.5}, r"k is 1\.5"), ({"query": None}, "query is None")),
        *(({"filter": "kind"}, "filter is a str"), *times),
    ):
        with pytest.raises(ConfigurationError, match=error):
            recall.search(**{"query": "tram", **wrong}, session_id="s")
    with pytest.raises(ConfigurationError, match="cannot be negative"):
        Recall(store, lexical_weight=-1)


def test_statistics_are_those_of_the_scope(store, recall):
    filled(store, "a", "zebra")
    before = recall.search("zebra", session_id="a")
    filled(store, "b", *["zebra zebra"] * 5, user_id="other")
    assert recall.search("zebra", session_id="a") == before != []


# --- around it


def test_a_failing_analyser_never_fails_a_turn(store, recall, caplog, monkeypatch):
    def fail(*_args):
        raise RuntimeError("no analysis today")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(TextAnalyser, "entries", fail)
        filled(store, "s", "The key is under the blue mat.")
    assert "could not be analysed" in caplog.text
    assert recall.backlog() == {"lexical": 1}
    assert recall.search("blue mat", session_id="s")[0].text == "The key is under the blue mat."
    assert recall.backlog() == {"lexical": 0}


async def test_async_methods_do_the_same(store, recall):
    filled(store, "s", "The key is under the mat.")
    found = recall.search("key", session_id="s", k=1)
    many = await asyncio.gather(*(recall.asearch("key", session_id="s", k=1) for _ in range(8)))
    assert many == [found] * 8
    assert texts_of(await recall.ahistory_search("k.y", session_id="s")) == texts_of(found)
    assert await recall.aindex() == 0
    assert await recall.aadd_documents([Document("A key.", id="d")], session_id="s") == ["d"]
    assert (await recall.adocument("d", session_id="s")).page_content == "A key."
    assert await recall.acount(session_id="s") == 1
    assert await recall.arebuild() == store.count("s") + 1
    assert (await recall.aerase(session_id="s"))["documents"] == 1
    await recall.aclose()


# --- regular expressions


def test_history_search_gives_the_newest_matches_in_order(store, recall):
    store.add("s", [HumanMessage(f"ticket ABC-{n}", id=f"m{n}") for n in range(300)])
    store.hide("s", ["m299"])
    for pattern, options, found in (
        (r"abc-\d*7$", {"limit": 3}, [277, 287, 297]),
        (r"abc-\d*7$", {"ignore_case": False}, []),
        *((r"ABC-3$", {}, [3]), ("^", {"limit": 1}, [298])),
    ):
        hits = recall.history_search(pattern, session_id="s", **options)
        assert texts_of(hits) == [f"ticket ABC-{n}" for n in found]
    assert recall.history_search("x", session_id="unknown") == []
    with pytest.raises(ConfigurationError, match="not a regular expression"):
        recall.history_search("(", session_id="s")


def test_the_limit_of_history_search_is_wall_clock_time_for_all_messages(
    store, recall, monkeypatch
):
    """`regex` counts CPU time: while others have the processor, its own limit does not come."""
    store.add("s", [HumanMessage(f"ticket {n}", id=f"m{n}") for n in range(300)])
    may_end, searched = threading.Event(), []

    class Starved:
        def search(self, text, **_):
            may_end.wait(60)
            searched.append(text)

    monkeypatch.setattr(regex, "compile", lambda *_: Starved())
    with pytest.raises(RecallError, match="took too long"):
        recall.history_search("x", session_id="s", timeout_s=0.1)
    assert not searched
    may_end.set()


START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 90), min_size=1, max_size=12),
    st.none() | st.integers(0, 90),
    st.none() | st.integers(0, 90),
    st.sampled_from([None, HashingEmbeddings(16)]),
)
def test_no_hit_is_of_another_time_than_was_asked_for(days, first, last, embeddings):
    after = None if first is None else START + timedelta(days=first)
    before = None if last is None else START + timedelta(days=last)
    with TranscriptStore("sqlite://") as store, Recall(store, embeddings=embeddings) as recall:
        for number, day in enumerate(days):
            said_at = START + timedelta(days=day)
            store.add("s", [HumanMessage(f"The tram is late, case {number}.")], now=said_at)
            text = Document(f"tram plan {number}", metadata={"created_at": said_at.isoformat()})
            recall.add_documents([text], session_id="s")
        recall.index()
        hits = recall.search("the tram", session_id="s", k=99, after=after, before=before)
    assert all(after is None or hit.created_at >= after for hit in hits)
    assert all(before is None or hit.created_at < before for hit in hits)
    asked = [d for d in days if (first is None or d >= first) and (last is None or d < last)]
    assert len(hits) == 2 * len(asked)


@pytest.mark.parametrize("day", ["2026-03-02", date(2026, 3, 2), datetime(2026, 3, 2)])  # noqa: DTZ001
def test_a_day_begins_with_its_first_moment_in_utc(store, recall, day):
    for hour in (0, 24, 48):
        store.add("s", [HumanMessage(f"tram {hour}")], now=START + timedelta(hours=hour))
    assert texts_of(recall.search("tram", session_id="s", before=day)) == ["tram 0"]
    assert len(recall.search("tram", session_id="s", after=day)) == 2


def test_a_hit_says_why_it_was_found(store):
    store.add("s", talk("What does the licence cost?", "42 euros a month."))
    with Recall(store) as by_words:
        question, answer = by_words.search("cost of the licence", session_id="s")
    assert question.terms == ("cost", "licenc")
    assert question.why == 'has "cost", "licenc", 100 % of the question; above the floor'
    assert answer.why.startswith("its neighbours have ")
    assert answer.why.endswith("; below the floor")
    with Recall(store, embeddings=HashingEmbeddings(64)) as by_meaning:
        by_meaning.index()
        first = by_meaning.search("cost of the licence", session_id="s")[0]
    assert "; meaning 0." in first.why
