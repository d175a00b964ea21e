"""An old store: a search never waits for all of its history; a model never holds a connection."""

import logging

import pytest
from langchain_core.messages import HumanMessage

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.recall import HashingEmbeddings, worker
from tests.recall.samples import filled
from tests.storage.samples import sql


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store:
        yield store


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(worker, "AT_ONCE", 200)
    monkeypatch.setattr(worker, "_PAUSE_SECONDS", 0)


def old(store, name, count):
    store.add(name, [HumanMessage(f"{name} report {n}", id=f"{name}{n}") for n in range(count)])


@pytest.mark.slow
def test_a_first_search_takes_in_a_bounded_number_and_leaves_the_rest_to_a_thread(
    store, small, caplog, monkeypatch
):
    old(store, "s", 900)
    recall = Recall(store)
    asleep = recall._lexical_backlog._worker
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(asleep, "wake", lambda: None)
        assert recall.search("report 3", session_id="s", k=1)[0].message_id == "s3"
        assert recall.search("report 850", session_id="s", k=1, among={"s850"}) == []
        assert recall.backlog() == {"lexical": 1}
        with store.index.reading(worker.Scope("s")) as reader:
            assert reader.totals()[0] == 200  # the second search did not take in more
    assert caplog.text.count("not indexed yet") == 1
    recall.search("report 850", session_id="s", k=1)
    assert recall._lexical_backlog.wait(30)
    assert recall.backlog() == {"lexical": 0}
    assert recall.search("report 850", session_id="s", k=1)[0].message_id == "s850"
    recall.close()


@pytest.mark.slow
def test_a_session_that_cannot_be_read_does_not_keep_the_others_waiting(
    store, small, monkeypatch, tmp_path, caplog
):
    old(store, "a", 500)
    old(store, "b", 500)
    sql(tmp_path / "memory.db", "UPDATE tokenmem_messages SET message = '[]' WHERE session = 1")
    recall = Recall(store)
    assert recall.search("report", session_id="a") == []
    recall.search("report", session_id="b")
    assert recall._lexical_backlog.wait(30)
    assert [one.partition for one in store.index.pending("lexical")] == [1]
    assert "Session 'a'" in caplog.text
    assert recall.search("report 450", session_id="b", k=1)[0].message_id == "b450"


def test_a_model_is_never_asked_while_a_connection_is_held(store):
    used: list[int] = []

    def embedded(texts: list[str]) -> list[list[float]]:
        used.append(store.database._open("test").pool.checkedout())
        return HashingEmbeddings(32).embed_documents(texts)

    with Recall(store, embeddings=embedded) as recall:
        filled(store, "s", "The key is under the blue mat.")
        recall.index()
        assert recall._dense._worker.wait(30)
        used.clear()  # the worker asks for the fingerprint, beside others who read
        assert recall.search("Where is the key?", session_id="s")
        assert set(used) == {0}
