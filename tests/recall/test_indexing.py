"""Vectors are made behind the turn, and no failure of theirs fails one."""

import logging
from collections import ChainMap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.embeddings import to_matrix
from langchain_tokenmem.recall.vectors import VectorIndex
from tests.recall.samples import CountingEmbeddings, days, made

pytestmark = pytest.mark.slow  # a real Chroma; `make test` does without


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db", shared=True) as store:
        yield store


@pytest.fixture
def embeddings():
    return CountingEmbeddings()


@pytest.fixture
def index(store, tmp_path, embeddings):
    index, _ = made(store, tmp_path / "chroma", embeddings, batch=8)
    yield index
    index.close()


def active(index: VectorIndex):
    collection = index._filler.collection()
    assert collection is not None
    return collection


def in_chroma(index: VectorIndex) -> dict[int, np.ndarray]:
    """Return every vector that Chroma has."""
    collection, _ = index._place._opened(active(index).name)
    found = collection.get(include=["embeddings"])
    return {int(u): v for u, v in zip(found["ids"], found["embeddings"], strict=True)}


def in_store(index: VectorIndex, store: TranscriptStore) -> dict[int, bytes]:
    key = active(index).key
    with store.index.reading_vectors() as reader:
        return dict(ChainMap(*reader.vector_pages(key, 100)))


def assert_whole(index: VectorIndex, store: TranscriptStore) -> None:
    """Chroma has exactly the stored vectors."""
    units, vectors = to_matrix(in_store(index, store))
    found = in_chroma(index)
    assert sorted(found) == units.tolist()
    assert np.allclose(np.array([found[unit] for unit in units.tolist()]), vectors, atol=1e-5)


@settings(max_examples=settings.default.max_examples // 4)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6), batch=st.integers(1, 7))
def test_however_messages_come_the_index_is_the_same(tmp_path_factory, sizes, batch):
    folder = tmp_path_factory.mktemp("any")
    with TranscriptStore(f"sqlite:///{folder}/memory.db", shared=True) as store:
        index, _ = made(store, folder / "chroma", CountingEmbeddings(8), batch=batch)
        start = 0
        for number, size in enumerate(sizes):
            store.add(f"s{number % 2}", days(size, start))
            start += size
            if number % 2:
                index.index()
        index.index()
        assert len(in_chroma(index)) == start
        assert_whole(index, store)
        index.close()


def test_a_failing_model_fails_no_turn_and_what_is_owed_is_taken_in_later(
    store, index, embeddings, caplog
):
    store.index.listen(index.wake)
    embeddings.fails = True
    with caplog.at_level(logging.WARNING):
        for start in range(4):
            assert store.add("s", days(1, start)) == [f"day-{start}"]
            index._worker.wait(20)
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1
    assert "the embedding service is away" in caplog.text
    assert store.index.backlog()["vectors"] == 1
    with pytest.raises(RecallError, match="messages are indexed later"):
        index.index()
    embeddings.fails = False
    store.add("s", days(1, 4))
    index._worker.wait(20)
    assert store.index.backlog()["vectors"] == 0
    assert_whole(index, store)


def test_words_that_are_edited_while_they_are_embedded_leave_no_vector(store, index, embeddings):
    asked, edited = embeddings.embed_documents, []

    def edits(texts):
        if "first" in texts and not edited:
            edited.append(store.add("s", [HumanMessage("second", id="m")]))
        return asked(texts)

    embeddings.embed_documents = edits
    store.add("s", [HumanMessage("first", id="m")])
    index.index()
    index.index()
    assert embeddings.texts == ["first", "second"]
    (vector,) = in_store(index, store).values()
    assert np.allclose(to_matrix({1: vector})[1][0], embeddings.embed_query("second"), atol=1e-2)
    assert_whole(index, store)


def test_words_that_are_cleared_while_they_are_embedded_leave_no_vector(store, index, embeddings):
    asked = embeddings.embed_documents

    def clears(texts):
        store.clear("s")
        return asked(texts)

    embeddings.embed_documents = clears
    store.add("s", [HumanMessage("first", id="m")])
    index.index()
    assert (embeddings.texts, in_store(index, store)) == (["first"], {})


def test_a_text_that_the_model_refuses_does_not_keep_other_sessions_waiting(
    store, index, embeddings
):
    asked = embeddings.embed_documents

    def refuses(texts):
        if any("poison" in text for text in texts):
            raise ValueError("400 Bad Request")
        return asked(texts)

    embeddings.embed_documents = refuses
    store.add("a", days(2, topic="poison"))
    store.add("b", days(2))
    for _ in range(2):
        with pytest.raises(RecallError, match="400 Bad Request"):
            index.index()
    assert len(embeddings.texts) == 2
    assert store.index.backlog()["vectors"] == 1
    assert not active(index).is_complete
    embeddings.embed_documents = asked
    index.index()
    assert_whole(index, store)


def test_no_word_that_was_said_is_in_the_files_of_chroma(store, index, tmp_path):
    canary = "Zwetschgendatschi4711"
    store.add(f"session-{canary}", [HumanMessage(canary, id=canary, name=canary)], user_id=canary)
    index.index()
    index.close()
    files = [one for one in (tmp_path / "chroma").rglob("*") if one.is_file()]
    assert any(one.name == "chroma.sqlite3" for one in files)
    assert [one for one in files if canary.encode() in one.read_bytes()] == []
    assert canary.encode() in b"".join(one.read_bytes() for one in tmp_path.glob("memory.db*"))
