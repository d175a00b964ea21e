"""Erasing takes everything of one scope, says how much it was, and touches nobody else."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from sqlalchemy import Engine, event

from langchain_tokenmem import (
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
)
from langchain_tokenmem.core.search_units import pack_unit
from langchain_tokenmem.errors import ScopeError
from tests.recall.talk import FILLER, filled, partitions_of
from tests.storage.samples import state

CANARY = "xyzzy7319canary"


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def planted(store: TranscriptStore, recall: Recall, session_id: str, user_id: str | None) -> None:
    """Put a token wherever a session can keep text."""
    text = f"Remember {CANARY}, and spell it right. "
    store.add(session_id, [HumanMessage(text, id=f"{CANARY}-{session_id}", name=CANARY)])
    store.add(session_id, [HumanMessage(text * 400, id=f"long-{session_id}")], user_id=user_id)
    recall.add_documents(
        [Document(text, id=CANARY, metadata={CANARY: CANARY})], session_id=session_id
    )
    store.save_state(session_id, state(CANARY, text=text), expected=store.state(session_id).version)
    store.lease(session_id, CANARY, 60)
    number = partitions_of(store, session_id).partitions[0]
    vectors = {pack_unit(number, 1): CANARY.encode() * 4}
    store.index.put_vectors("model", vectors, unless_edited=(number, 0))


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store:
        yield store


def test_no_byte_of_an_erased_session_is_left(store, tmp_path):
    recall = Recall(store)
    filled(store, "other", "The key is under the mat.", user_id="bob")
    before = recall.search("key", session_id="other")
    for number in range(3):
        planted(store, recall, f"{CANARY}-{number}", user_id="ann")
    recall.add_documents([Document(CANARY, id="own")], user_id="ann")
    assert CANARY.encode() in bytes_of(tmp_path)
    counts = recall.erase(session_id=f"{CANARY}-0")
    assert counts["messages"] == 2
    assert counts["documents"] == counts["sessions"] == 1
    assert counts["vectors"] == 1
    assert counts["terms"] > 10
    counts = recall.erase(user_id="ann")
    assert (counts["messages"], counts["sessions"], counts["documents"]) == (4, 2, 3)
    assert CANARY.encode() not in bytes_of(tmp_path)
    assert recall.search("key", session_id="other") == before
    assert store.sessions() == ["other"]
    assert recall.backlog() == {"lexical": 0}


def test_no_byte_of_a_cleared_session_is_left(store, tmp_path):
    recall = Recall(store)
    store.add("s", [HumanMessage(f"Remember {CANARY}. " * 300)])
    assert CANARY.encode() in bytes_of(tmp_path)
    store.clear("s")
    assert CANARY.encode() not in bytes_of(tmp_path)
    assert recall.search(CANARY, session_id="s") == []


def test_no_byte_of_a_deleted_document_is_left(store, tmp_path):
    recall = Recall(store)
    recall.add_documents([Document(f"{CANARY} " * 50, id="d")], session_id="s")
    assert CANARY.encode() in bytes_of(tmp_path)
    assert recall.delete("d", session_id="s")
    assert CANARY.encode() not in bytes_of(tmp_path)


def test_what_was_recalled_from_an_erased_session_is_dropped_from_the_states_of_others(
    store, tmp_path
):
    recall = Recall(store)
    memory = TokenMemory(TokenBudget(context_window=2_000), recall=recall, recall_scope="user")

    def said(session_id, user_id, text, key):
        history = TokenMemoryChatHistory(session_id, memory=memory, store=store, user_id=user_id)
        history.add_messages([HumanMessage(text, id=key)])
        return str([message.content for message in history.messages])

    for session_id, word in (("first", CANARY), ("second", "copper")):
        said(session_id, "ann", f"The name of my lamp is {word}.", f"name-{session_id}")
    assert CANARY in said("asks", "ann", "What is the name of my lamp?", "q")
    assert CANARY in (store.state("asks").state or {})["blocks"]["q"]["text"]
    said("asks too", "ann", "What is copper?", "q2")
    before = store.state("asks too")
    assert "copper" in before.state["blocks"]["q2"]["text"]

    recall.erase(session_id="first", user_id="ann")
    assert "q" not in (store.state("asks").state or {})["blocks"]
    assert CANARY.encode() not in bytes_of(tmp_path)
    assert store.state("asks too") == before


def test_an_erased_session_may_begin_again(store):
    recall = Recall(store)
    filled(store, "s", "The key is under the mat.", user_id="ann")
    recall.erase(session_id="s", user_id="ann")
    assert recall.search("key", session_id="s") == []
    filled(store, "s", "A key of another.", user_id="bob")
    found = recall.search("key", session_id="s", user_id="bob")
    assert found[0].text == "A key of another."
    assert store.count("s") == 2 * len(FILLER) + 1


@pytest.mark.parametrize(
    ("given_ids", "error"),
    [({}, "without a scope"), ({"user_id": " "}, "user_id"), ({"session_id": ""}, "session_id")],
)
def test_without_a_scope_nothing_is_erased(store, given_ids, error):
    filled(store, "s", user_id="ann")
    with pytest.raises(ScopeError, match=error):
        store.erase(**given_ids)
    assert store.count("s") == len(FILLER)


def test_another_users_session_is_not_erased(store):
    filled(store, "s", user_id="ann")
    with pytest.raises(ScopeError, match="another user"):
        store.erase(session_id="s", user_id="bob")
    assert set(store.erase(user_id="bob").values()) == {0}
    assert store.count("s") == len(FILLER)


async def test_the_async_twins(store):
    recall = Recall(store)
    filled(store, "s", "The key.", user_id="ann")
    assert (await recall.aerase(user_id="ann"))["messages"] == 2 * len(FILLER) + 1
    assert (await store.aerase(session_id="s"))["messages"] == 0


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples // 2)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=8), st.integers(0, 3))
def test_erasing_one_user_leaves_the_others_as_they_were(said, gone):
    with TranscriptStore("sqlite://") as store:
        recall = Recall(store)
        for at, (user, count) in enumerate(said):
            store.add(
                f"s{user}-{at % 2}",
                [HumanMessage(f"copper lamp {n}", id=f"{at}-{n}") for n in range(count)],
                user_id=f"u{user}",
            )

        def picture():
            return {
                session: (
                    store.messages(session),
                    recall.search("copper lamp", session_id=session),
                )
                for session in store.sessions()
                if not session.startswith(f"s{gone}-")
            }

        before = picture()
        counts = recall.erase(user_id=f"u{gone}")
        assert counts["messages"] == sum(count for user, count in said if user == gone)
        assert picture() == before
        assert store.sessions(user_id=f"u{gone}") == []


@pytest.mark.slow
def test_a_user_of_many_sessions_is_erased_where_queries_are_short(tmp_path):
    def old_sqlite(connection, _record):
        if hasattr(connection, "setlimit"):  # since Python 3.11
            connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)

    event.listen(Engine, "connect", old_sqlite)
    try:
        with TranscriptStore(f"sqlite:///{tmp_path}/m.db") as store:
            for number in range(1_010):
                store.add(f"s{number}", [HumanMessage("hi")], user_id="ann")
            assert store.erase(user_id="ann")["sessions"] == 1_010
            assert store.sessions() == []
    finally:
        event.remove(Engine, "connect", old_sqlite)
