"""Faults of the field, group R (the part that needs no vectors), as tests."""

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


def test_R1_recall_never_returns_another_users_messages(store, recall):
    told = "The password of the safe is heliotrope."
    filled(store, "ann-1", told, user_id="ann")
    filled(store, "bob-1", user_id="bob")
    assert recall.search("password of the safe", session_id="bob-1") == []
    assert (
        recall.search("password of the safe", session_id="bob-1", user_id="bob", scope="user") == []
    )
    mine = recall.search("password of the safe", session_id="new", user_id="ann", scope="user")
    assert mine[0].text == told


def test_R2_sessions_share_nothing_unless_asked_with_a_user(store, recall):
    filled(store, "one", "The key is under the mat.", user_id="ann")
    filled(store, "two", user_id="ann")
    assert recall.search("key under the mat", session_id="two") == []
    assert recall.search("key under the mat", session_id="two", user_id="ann") == []
    both = recall.search("key under the mat", session_id="two", user_id="ann", scope="user")
    assert both[0].session_id == "one"
    with pytest.raises(ScopeError, match="user_id"):
        recall.search("key under the mat", session_id="two", scope="user")


def test_R3_forgetting_one_user_keeps_the_others(store, recall):
    for user in ("ann", "bob"):
        filled(store, f"{user}-1", "The key is under the mat.", user_id=user)
    before = (store.messages("bob-1"), recall.search("key", session_id="bob-1"))
    recall.erase(user_id="ann")
    assert (store.messages("bob-1"), recall.search("key", session_id="bob-1")) == before
    with pytest.raises(ScopeError):
        recall.erase()


@pytest.mark.slow
def test_R4_ten_thousand_messages_are_forgotten_and_counted(store, recall):
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


def test_R5_erasing_leaves_no_derived_data(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store:
        recall = Recall(store)
        filled(store, "s", "The plover77 flies at dawn.", user_id="ann")
        filled(store, "t", "Nothing of the kind.", user_id="bob")
        recall.erase(session_id="s")
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert files
    assert [name for name, data in files.items() if b"plover77" in data] == []


def test_R13_the_same_words_come_once(store, recall):
    for number in range(49):
        store.add("s", [HumanMessage("I am allergic to hazelnuts!", id=f"n{number}")])
        store.add("s", [AIMessage(FILLER[number % 6], id=f"f{number}")])
    hits = recall.search("allergic to hazelnuts", session_id="s", k=20)
    assert [hit.text for hit in hits].count("I am allergic to hazelnuts!") == 1
    assert len({hit.message_id for hit in hits}) == len(hits)


def test_R13_what_the_memory_inserted_is_never_indexed(store, recall):
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


def test_R13_what_stands_in_the_tail_is_not_recalled(store, recall):
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
def test_R14_an_unrelated_question_brings_nothing(store, recall, unrelated):
    filled(store, "s", "The key is under the mat.", "We agreed on forty euros.")
    assert recall.search(unrelated, session_id="s") == []


def test_R14_recall_keeps_to_its_own_size(store, recall):
    store.add("s", [HumanMessage(f"copper lamp number {n}", id=f"m{n}") for n in range(200)])
    sizes = [
        len(recall.search("copper lamp", session_id="s", k=100, max_tokens=limit))
        for limit in (20, 200, 2_000)
    ]
    assert all(one < two for one, two in pairwise(sizes))
    assert sizes[0] <= 1


def test_R14_contradictory_facts_are_both_shown(store, recall):
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
def test_R15_a_question_without_spaces_finds_its_sentence(store, recall, planted, question):
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
def test_R15_file_names_and_error_codes_are_found(store, recall, planted, question):
    filled(store, "s", planted, "A file py and an error and a count of other things.")
    assert recall.search(question, session_id="s")[0].text == planted
