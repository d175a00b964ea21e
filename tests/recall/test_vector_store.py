"""`VectorStoreIndex`: any LangChain vector store proposes, the store decides."""

import logging

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.core.search_units import Scope
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings, VectorStoreIndex
from tests.recall.samples import CountingEmbeddings, days, seqs


@pytest.fixture
def vectors():
    return InMemoryVectorStore(CountingEmbeddings())


def recalled(store, vectors, **options):
    """A recall that asks the vector store for scopes of any size."""
    recall = Recall(store, VectorStoreIndex(vectors, **options))
    recall._dense._exact_most = 0
    return recall


def _fails(*_args, **_options):
    raise ConnectionError("the vector database is away")


def words_in(vectors: InMemoryVectorStore) -> set[str]:
    return {entry["text"] for entry in vectors.store.values()}


def test_a_vector_store_proposes_and_our_own_vectors_give_the_score(store, vectors):
    store.add("s", days(60))
    with recalled(store, vectors) as recall:
        recall.index()
        assert words_in(vectors) == {message.text for message in days(60)}
        by_store = recall.search("day number7 word10", session_id="s", k=3)
        recall._dense._exact_most = 1_000
        exactly = recall.search("day number7 word10", session_id="s", k=3)
        assert [hit.message_id for hit in by_store] == [hit.message_id for hit in exactly]
        assert by_store[0].cosine == pytest.approx(exactly[0].cosine, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["chroma", "vector store", "vector store without a filter"])
def test_scope_is_in_the_question_and_checked_again(store, vectors, place, tmp_path):
    for session, user in (("a", "u"), ("b", "u"), ("c", "v"), ("d", None)):
        said = [HumanMessage("the same words", id=f"{session}{n}") for n in range(5)]
        store.add(session, said, user_id=user)
    options = {"where": lambda _key, _values: {}} if "without" in place else {}
    if place == "chroma":
        index = ChromaIndex(tmp_path / "chroma", embeddings=CountingEmbeddings())
    else:
        index = VectorStoreIndex(vectors, **options)
    scopes = {Scope("a", "u"): "a", Scope("a", "u", whole_user=True): "ab"}
    with Recall(store, index) as recall:
        recall._dense._exact_most = 0
        recall.index()
        question = recall._dense.question("the same words")
        for scope, sessions in {**scopes, Scope("c"): "c", Scope("d"): "d"}.items():
            with store.index.reading(scope) as reader:
                found = [unit for unit, _ in recall._dense.search(question, reader, 50)]
                sources = reader.sources(found)
            assert {source.session_id for source in sources.values()} == {*sessions}
            assert len(found) == 5 * len(sessions) == len(sources)


def test_entries_of_others_in_the_same_vector_store_are_never_hits(store, vectors):
    vectors.add_texts(
        ["day number3 of a stranger"] * 3,
        [{}, {"tokenmem_unit": "1"}, {"tokenmem_unit": "x", "tokenmem_owner": "tokenmem-1/1"}],
    )
    store.add("s", days(5))
    with recalled(store, vectors, where=lambda _key, _values: {}) as recall:
        recall.index()
        found = recall.search("day number3", session_id="s")
    assert found
    assert all(hit.session_id == "s" and "stranger" not in hit.text for hit in found)


@pytest.mark.slow
def test_what_could_not_be_erased_is_erased_by_the_next_process(store, vectors, monkeypatch):
    with recalled(store, vectors) as recall:
        store.add("s", days(3, topic="s"))
        store.add("t", days(3, topic="t"))
        recall.index()
        with monkeypatch.context() as patch:
            patch.setattr(vectors, "delete", _fails)
            with pytest.raises(RecallError, match="cannot be used now"):
                recall.erase(session_id="s")
    with recalled(store, vectors) as again:
        again.index()
        assert words_in(vectors) == {message.text for message in days(3, topic="t")}


def test_what_another_process_erases_meanwhile_does_not_stay(tmp_path, vectors):
    path = tmp_path / "memory.db"
    with TranscriptStore(path) as store, TranscriptStore(path) as other:
        store.add("s", days(3, topic="s"))
        with recalled(store, vectors) as recall:
            recall.index()
            store.add("t", days(3, topic="t"))
            vectors.embeddings.before = lambda _texts: other.erase("t")
            recall.index()
            assert words_in(vectors) == {message.text for message in days(3, topic="s")}


def test_a_vector_store_that_names_entries_itself_is_refused_and_left_empty(
    store, vectors, monkeypatch
):
    add_texts = vectors.add_texts
    monkeypatch.setattr(vectors, "add_texts", lambda texts, *_args, **_ids: add_texts(texts))
    store.add("s", days(3))
    with recalled(store, vectors) as recall, pytest.raises(RecallError, match="its own ids"):
        recall.index()
    assert words_in(vectors) == set()


def test_foreign_errors_become_recall_errors_and_words_go_on(store, vectors, monkeypatch, caplog):
    store.add("s", days(5))
    with recalled(store, vectors) as recall:
        recall.index()
        monkeypatch.setattr(vectors, "similarity_search", _fails)
        with pytest.raises(RecallError, match="the vector database is away"):
            seqs(recall._dense, store, "day")
        with caplog.at_level(logging.WARNING):
            assert recall.search("day number3", session_id="s", k=1)[0].message_id == "day-3"
        assert "the vector database is away" in caplog.text
        monkeypatch.setattr(vectors, "add_texts", _fails)
        assert store.add("s", days(1, 5))  # no turn fails
        recall._dense._worker.wait(20)
        with pytest.raises(RecallError, match="messages are indexed later"):
            recall.index()
        assert store.index.backlog()["vectors"] == 1


@pytest.mark.slow
def test_a_vector_store_that_has_lost_its_entries_is_filled_again(store):
    embeddings = CountingEmbeddings()
    store.add("s", days(5))
    with recalled(store, InMemoryVectorStore(embeddings)) as recall:
        recall.index()
    new = InMemoryVectorStore(HashingEmbeddings(8))  # as after a restart
    ours = len(embeddings.texts)
    with recalled(store, new, embeddings=embeddings) as recall:
        recall.index()
        assert len(words_in(new)) == 5
        assert recall.search("day number3", session_id="s", k=1)[0].message_id == "day-3"
    assert len(embeddings.texts) == ours  # nothing of ours is embedded twice


def test_what_is_no_vector_store_is_refused_at_construction(vectors):
    class CannotDelete(InMemoryVectorStore):
        delete = VectorStore.delete

    class NoModel(InMemoryVectorStore):
        embeddings = None

    model = HashingEmbeddings(8)
    none = (object(), InMemoryVectorStore, model, "chroma", None)
    for given, options, error in (
        *((one, {}, "not a vector store") for one in none),
        (CannotDelete(model), {}, "cannot delete"),
        (NoModel(model), {}, "pass embeddings="),
        (vectors, {"where": {"tenant": "a"}}, "where is"),
    ):
        with pytest.raises(ConfigurationError, match=error):
            VectorStoreIndex(given, **options)
