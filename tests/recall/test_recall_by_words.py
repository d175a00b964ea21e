"""Recall by words: scope, erasure, duplicates, unrelated questions, scripts without spaces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.core.messages import marked
from langchain_tokenmem.errors import ScopeError
from tests.recall.talk import FILLER, filled

UNSPACED = (
    "今天天气很好,我们去公园。",
    "昨日は映画を見ました。",
    "점심은 맛있었어요.",
    "วันนี้อากาศดีมาก",
)


def test_recall_never_returns_another_users_messages(store, recall):
    told = "The password of the safe is heliotrope."
    filled(store, "ann-1", told, user_id="ann")
    filled(store, "bob-1", user_id="bob")
    assert recall.search("password of the safe", session_id="bob-1") == []
    assert (
        recall.search("password of the safe", session_id="bob-1", user_id="bob", scope="user") == []
    )
    mine = recall.search("password of the safe", session_id="new", user_id="ann", scope="user")
    assert mine[0].text == told


def test_sessions_share_nothing_unless_searched_with_their_user(store, recall):
    filled(store, "one", "The key is under the mat.", user_id="ann")
    filled(store, "two", user_id="ann")
    assert recall.search("key under the mat", session_id="two") == []
    assert recall.search("key under the mat", session_id="two", user_id="ann") == []
    both = recall.search("key under the mat", session_id="two", user_id="ann", scope="user")
    assert both[0].session_id == "one"
    with pytest.raises(ScopeError, match="user_id"):
        recall.search("key under the mat", session_id="two", scope="user")


def test_erasing_one_user_leaves_another_users_messages_and_hits(store, recall):
    for user in ("ann", "bob"):
        filled(store, f"{user}-1", "The key is under the mat.", user_id=user)
    before = (store.messages("bob-1"), recall.search("key", session_id="bob-1"))
    recall.erase(user_id="ann")
    assert (store.messages("bob-1"), recall.search("key", session_id="bob-1")) == before
    with pytest.raises(ScopeError):
        recall.erase()


@pytest.mark.slow
def test_erasing_ten_thousand_messages_deletes_and_counts_them_all(store, recall):
    total = 10_000
    for start in range(0, total, 2_500):
        said = [HumanMessage(f"item {n}", id=str(n)) for n in range(start, start + 2_500)]
        store.add("s", said, user_id="ann")
    assert recall.search("item 77", session_id="s")
    counts = recall.erase(user_id="ann")
    assert counts["messages"] == total
    assert counts["terms"] >= 2 * total
    assert store.count("s") == 0
    assert recall.search("item 77", session_id="s") == []
    assert set(recall.erase(user_id="ann").values()) == {0}


def test_erasing_a_session_leaves_its_words_in_no_file(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store:
        recall = Recall(store)
        filled(store, "s", "The plover77 flies at dawn.", user_id="ann")
        filled(store, "t", "Nothing of the kind.", user_id="bob")
        recall.erase(session_id="s")
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert files
    assert [name for name, data in files.items() if b"plover77" in data] == []


@pytest.mark.slow
def test_a_fact_said_49_times_is_recalled_once(store, recall):
    for number in range(49):
        store.add("s", [HumanMessage("I am allergic to hazelnuts!", id=f"n{number}")])
        store.add("s", [AIMessage(FILLER[number % 6], id=f"f{number}")])
    hits = recall.search("allergic to hazelnuts", session_id="s", k=20)
    assert [hit.text for hit in hits].count("I am allergic to hazelnuts!") == 1
    assert len({hit.message_id for hit in hits}) == len(hits)


def test_text_inserted_by_the_memory_is_never_indexed(store, recall):
    filled(store, "s")
    block = "<recalled_messages>\nThe key is under the mat.\n</recalled_messages>"
    store.add(
        "s",
        [
            marked(HumanMessage("The key is under the mat.", id="block"), added=True),
            HumanMessage(f"{block}\nWhat is the time?", id="with-block"),
        ],
    )
    assert recall.search("key under the mat", session_id="s") == []
    assert recall.rebuild() == store.count("s")
    assert recall.search("key under the mat", session_id="s") == []


def test_excluded_messages_are_not_returned_by_a_search(store, recall):
    ids = filled(store, "s", "The key is under the mat.")
    hit = recall.search("key under the mat", session_id="s")[0]
    left = recall.search("key under the mat", session_id="s", exclude=set(ids))
    assert hit.message_id in ids
    assert left == []


@pytest.mark.parametrize(
    "unrelated",
    [
        "How do I configure a reverse proxy with TLS?",
        "What is the boiling point of tungsten?",
        "Explain quantum entanglement.",
        "Which vitamins are fat soluble?",
        "hi",
        "thanks!",
    ],
)
def test_an_unrelated_question_recalls_nothing(store, recall, unrelated):
    filled(store, "s", "The key is under the mat.", "We agreed on forty euros.")
    assert recall.search(unrelated, session_id="s") == []


def test_hits_keep_to_their_own_token_limit(store, recall):
    store.add("s", [HumanMessage(f"copper lamp number {n}", id=f"m{n}") for n in range(200)])
    sizes = [
        len(recall.search("copper lamp", session_id="s", k=100, max_tokens=limit))
        for limit in (20, 200, 2_000)
    ]
    assert all(one < two for one, two in pairwise(sizes))
    assert sizes[0] <= 1


def test_contradictory_facts_are_both_returned(store, recall):
    facts = ("The licence costs 40 euros a month.", "The licence costs 45 euros a month.")
    filled(store, "s", *facts)
    found = {hit.text for hit in recall.search("What does the licence cost?", session_id="s")}
    assert found.issuperset(facts)


@pytest.mark.parametrize(
    ("planted", "question"),
    [
        ("我们决定把服务器搬到法兰克福数据中心。", "服务器搬到哪里?"),
        ("会議は来週の火曜日に延期されました。", "会議はいつに延期されましたか"),
        ("오늘 회의에서 예산을 확정했습니다.", "예산은 확정했나요?"),
        ("เราจะส่งของไปเชียงใหม่พรุ่งนี้", "ส่งของไปเชียงใหม่เมื่อไร"),
    ],
)
def test_a_question_in_a_script_without_spaces_finds_its_sentence(store, recall, planted, question):
    filled(store, "s", *UNSPACED, planted)
    assert recall.search(question, session_id="s")[0].text == planted


@pytest.mark.parametrize(
    ("planted", "question"),
    [
        ("The fix is in src/app/auth.py, line 12.", "what did we change in auth.py?"),
        ("Build failed with ERR_TIMEOUT-4711 again.", "ERR_TIMEOUT-4711"),
        ("Call parseHTTPResponse before closing.", "where is parseHTTPResponse called"),
        ("Rename max_retry_count in the settings.", "max_retry_count"),
    ],
)
def test_file_names_identifiers_and_error_codes_are_found_by_words(
    store, recall, planted, question
):
    filled(store, "s", planted, "A file py and an error and a count of other things.")
    assert recall.search(question, session_id="s")[0].text == planted
