"""Rebuilding and healing: same ids, nothing embedded twice, words are searched until the end."""

import logging
import shutil

import pytest

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.core.search_units import Scope
from langchain_tokenmem.errors import RecallError
from tests.recall.samples import CountingEmbeddings, days, made, seqs
from tests.recall.test_indexing import active, assert_whole, in_chroma

pytestmark = pytest.mark.slow  # a real Chroma; `make test` does without

SCOPE = Scope("s")


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store:
        store.add("s", days(25))
        store.add("t", days(5))
        yield store


@pytest.fixture
def indexed(store, tmp_path):
    """Index, close, and return how to open it again."""
    opened = []

    def again(embeddings=None, **options):
        index, _ = made(store, tmp_path / "chroma", embeddings or CountingEmbeddings(), **options)
        opened.append(index)
        return index

    first = again(batch=8)
    first.index()
    first.close()
    yield again
    for index in opened:
        index.close()


def collections_in(tmp_path):
    return [one for one in (tmp_path / "chroma" / "tokenmem").iterdir() if one.is_dir()]


def test_a_rebuild_makes_the_same_ids_and_embeds_nothing_again(store, indexed, tmp_path):
    embeddings = CountingEmbeddings()
    index = indexed(embeddings)
    before, name = in_chroma(index), active(index).name
    assert index.rebuild() == 30
    assert embeddings.texts == []
    assert sorted(in_chroma(index)) == sorted(before)
    assert active(index).name != name
    assert len(collections_in(tmp_path)) == 1
    assert_whole(index, store)


def test_recall_is_lexical_until_an_interrupted_rebuild_has_resumed_and_ended(store, indexed):
    new = CountingEmbeddings(64, name="new")
    index = indexed(new, batch=4, exact_most=0)
    old = index._filler.collection()
    asked = new.embed_documents

    def breaks(texts):
        if len(new.texts) >= 12:
            raise ConnectionError("away")
        return asked(texts)

    new.embed_documents = breaks
    with pytest.raises(RecallError, match="away"):
        index.rebuild()
    with pytest.raises(RecallError, match=r"is being built; recall is lexical until it is"):
        seqs(index, store, "day", SCOPE)
    index.close()

    new.embed_documents = asked
    again = indexed(new, batch=4, exact_most=0)
    assert again.rebuild() == 30
    assert len(new.texts) == 30  # the first twelve were not embedded again
    assert active(again).fingerprint.dimension == 64
    assert len(seqs(again, store, "day", SCOPE, k=50)) == 25
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
    assert len(seqs(index, store, "day number3", SCOPE, k=50)) == 25
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
            seqs(index, store, "day", SCOPE)
    assert index._worker.wait(30)
    assert active(index).name != name
    assert len(seqs(index, store, "day", SCOPE, k=50)) == 25


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
