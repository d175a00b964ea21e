"""Vectors in Chroma: made behind the turn, rebuilt, healed; no failure of theirs fails a turn."""

import logging
import shutil
from collections import ChainMap
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.embeddings import to_matrix
from langchain_tokenmem.recall.vectors import VectorIndex
from tests.recall.samples import CountingEmbeddings, days, index_of, seqs

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
    index = index_of(store, tmp_path / "chroma", embeddings, batch=8)
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


def refusing(
    error: Exception, when: Callable[[list[str]], bool] = bool
) -> Callable[[list[str]], None]:
    """Return what makes a model refuse texts, or some of them."""

    def refuse(texts: list[str]) -> None:
        if when(texts):
            raise error

    return refuse


@settings(max_examples=settings.default.max_examples // 4)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6), batch=st.integers(1, 7))
def test_however_messages_come_the_index_is_the_same(tmp_path_factory, sizes, batch):
    folder = tmp_path_factory.mktemp("any")
    with TranscriptStore(f"sqlite:///{folder}/memory.db", shared=True) as store:
        index = index_of(store, folder / "chroma", CountingEmbeddings(8), batch=batch)
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
    embeddings.before = refusing(ConnectionError("the embedding service is away"))
    with caplog.at_level(logging.WARNING):
        for start in range(4):
            assert store.add("s", days(1, start)) == [f"day-{start}"]
            index._worker.wait(20)
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1
    assert "the embedding service is away" in caplog.text
    assert store.index.backlog()["vectors"] == 1
    with pytest.raises(RecallError, match="messages are indexed later"):
        index.index()
    embeddings.before = len
    store.add("s", days(1, 4))
    index._worker.wait(20)
    assert store.index.backlog()["vectors"] == 0
    assert_whole(index, store)


@pytest.mark.parametrize("change", ["edited", "cleared"])
def test_words_that_change_while_they_are_embedded_leave_no_vector(
    store, index, embeddings, change
):
    def changes(_texts):
        embeddings.before = len
        if change == "edited":
            store.add("s", [HumanMessage("second", id="m")])
        else:
            store.clear("s")

    embeddings.before = changes
    store.add("s", [HumanMessage("first", id="m")])
    index.index()
    index.index()
    assert embeddings.texts == ["first", "second"][: 1 + (change == "edited")]
    vectors = in_store(index, store)
    assert len(vectors) == len(embeddings.texts) - 1
    for vector in vectors.values():
        found = to_matrix({1: vector})[1][0]
        assert np.allclose(found, embeddings.embed_query("second"), atol=1e-2)
    assert_whole(index, store)


def test_a_text_that_the_model_refuses_does_not_keep_other_sessions_waiting(
    store, index, embeddings
):
    embeddings.before = refusing(
        ValueError("400 Bad Request"), lambda texts: "poison" in str(texts)
    )
    store.add("a", days(2, topic="poison"))
    store.add("b", days(2))
    for _ in range(2):
        with pytest.raises(RecallError, match="400 Bad Request"):
            index.index()
    assert len(embeddings.texts) == 2
    assert store.index.backlog()["vectors"] == 1
    assert not active(index).is_complete
    embeddings.before = len
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


# Rebuilding and healing: the same ids, nothing embedded twice, words are searched until the end


@pytest.fixture
def indexed(store, tmp_path):
    """Index 30 messages, close, and return how to open the index again."""
    store.add("s", days(25))
    store.add("t", days(5))
    opened = []

    def again(embeddings=None, **options):
        model = embeddings or CountingEmbeddings()
        opened.append(index_of(store, tmp_path / "chroma", model, **options))
        return opened[-1]

    first = again(batch=8)
    first.index()
    first.close()
    yield again
    for index in opened:
        index.close()


def test_a_rebuild_makes_the_same_ids_and_embeds_nothing_again(store, indexed, tmp_path):
    embeddings = CountingEmbeddings()
    index = indexed(embeddings)
    before, name = in_chroma(index).keys(), active(index).name
    assert index.rebuild() == 30
    assert embeddings.texts == []
    assert in_chroma(index).keys() == before
    assert active(index).name != name
    folder = tmp_path / "chroma" / "tokenmem"
    assert len([one for one in folder.iterdir() if one.is_dir()]) == 1
    assert_whole(index, store)


def test_recall_is_lexical_until_an_interrupted_rebuild_has_resumed_and_ended(store, indexed):
    new = CountingEmbeddings(64, name="new")
    index = indexed(new, batch=4, exact_most=0)
    old = index._filler.collection()
    new.before = refusing(ConnectionError("away"), lambda _texts: len(new.texts) >= 12)
    with pytest.raises(RecallError, match="away"):
        index.rebuild()
    with pytest.raises(RecallError, match=r"is being built; recall is lexical until it is"):
        seqs(index, store, "day")
    index.close()

    new.before = len
    again = indexed(new, batch=4, exact_most=0)
    assert again.rebuild() == 30
    assert len(new.texts) == 30  # the first twelve were not embedded again
    assert active(again).fingerprint.dimension == 64
    assert len(seqs(again, store, "day", k=50)) == 25
    assert_whole(again, store)
    with store.index.reading_vectors() as reader:
        assert reader.count_vectors(old.key) == 0


def missing_entries(index, _folder):
    index._place.delete(active(index).name, sorted(in_chroma(index))[:7])
    return "has 23 vectors, the store has 30"


def cut_file(name, share):
    """Chroma answers with nothing, with something else, or with a segmentation fault."""

    def damage(_index, folder):
        (file,) = folder.rglob(name)
        whole = file.read_bytes()
        file.write_bytes(whole[: int(len(whole) * share)])
        return "changed since"

    return damage


def killed_while_writing(index, folder):
    (folder / "tokenmem" / f"{active(index).name}.sizes").unlink()
    return "left by a process that died"


def folder_deleted(_index, folder):
    shutil.rmtree(folder / "tokenmem")
    return "does not exist"


@pytest.mark.parametrize(
    "damage",
    [
        *(missing_entries, killed_while_writing, folder_deleted),
        *(cut_file("header.bin", 0), cut_file("data_level0.bin", 0.5)),
        *(cut_file("chroma.sqlite3", 0.1), cut_file("chroma.sqlite3", 0.6)),
    ],
)
def test_damage_of_chroma_is_noticed_and_healed_from_the_store(
    store, indexed, tmp_path, caplog, damage
):
    theirs = tmp_path / "chroma" / "their-collection"
    theirs.mkdir()
    (theirs / "data.bin").write_bytes(b"theirs")
    first = indexed()
    said = damage(first, tmp_path / "chroma")
    first.close()
    embeddings = CountingEmbeddings()
    index = indexed(embeddings, exact_most=0)
    with caplog.at_level(logging.WARNING):
        index.index()
    assert said in caplog.text
    assert embeddings.texts == []
    assert len(in_chroma(index)) == 30
    assert len(seqs(index, store, "day number3", k=50)) == 25
    assert_whole(index, store)
    assert (theirs / "data.bin").read_bytes() == b"theirs"


def test_damage_that_shows_in_a_search_is_healed_behind_it(store, indexed, monkeypatch):
    index = indexed(exact_most=0)
    index.index()
    name = active(index).name

    def damaged(*_args, **_kwargs):
        import chromadb

        raise chromadb.errors.InternalError("hnsw")

    with monkeypatch.context() as patch:
        patch.setattr("chromadb.api.models.Collection.Collection.query", damaged)
        with pytest.raises(RecallError, match="rebuilt"):
            seqs(index, store, "day")
    assert index._worker.wait(30)
    assert active(index).name != name
    assert len(seqs(index, store, "day", k=50)) == 25


def test_a_collection_begun_by_another_process_before_an_acknowledgement_is_filled_whole(
    store, indexed, monkeypatch
):
    """What went into the old collection must not be acknowledged for the new one."""
    embeddings = CountingEmbeddings()
    index, other = indexed(embeddings, batch=8), indexed(batch=8)
    store.add("new", days(3, 300))
    acknowledge = store.index.acknowledge_vectors
    begun = []

    def after_another_began(*args, **options):
        if not begun:
            begun.append(other._filler.start().name)
        return acknowledge(*args, **options)

    monkeypatch.setattr(store.index, "acknowledge_vectors", after_another_began)
    index.index()
    assert active(index).name == begun[0]
    assert len(in_chroma(index)) == 33
    assert_whole(index, store)
    assert len(embeddings.texts) == 3
    assert store.index.backlog()["vectors"] == 0
