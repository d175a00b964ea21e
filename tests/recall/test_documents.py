"""Documents beside the transcript: added, replaced, filtered, deleted."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage

from langchain_tokenmem.core.search_units import Scope
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from tests.recall.talk import filled


def found(recall, query, **options):
    return [hit.document_id for hit in recall.search(query, session_id="s", **options)]


def test_a_document_is_found_with_its_metadata(recall):
    ids = recall.add_documents(
        [Document("The warranty covers two years.", id="w", metadata={"page": 3})], session_id="s"
    )
    assert ids == ["w"]
    (hit,) = recall.search("How long is the warranty?", session_id="s")
    assert (hit.text, hit.role, hit.document_id) == (
        "The warranty covers two years.",
        "document",
        "w",
    )
    assert hit.metadata == {"page": 3}
    assert hit.session_id == "s"


def test_a_known_id_takes_the_place_of_the_earlier_one(store, recall):
    for text in ("The warranty covers two years.", "The guarantee lasts five winters."):
        recall.add_documents([Document(text, id="w")], session_id="s")
    assert found(recall, "warranty years") == []
    assert found(recall, "guarantee of five winters") == ["w"]
    with store.index.reading(Scope("s")) as reader:
        assert reader.totals()[0] == 1


def test_without_an_id_the_words_name_it(recall):
    document = Document("The warranty covers two years.")
    assert recall.add_documents([document, document], session_id="s") == (
        recall.add_documents([document], session_id="s") * 2
    )
    assert len(found(recall, "warranty")) == 1


def test_the_filter_matches_exactly(store, recall):
    recall.add_documents(
        [
            Document("warranty of the bike", id="1", metadata={"kind": "bike", "year": 2024}),
            Document("warranty of the car", id="2", metadata={"kind": "car", "year": 2024}),
            Document("warranty of the boat", id="3", metadata={"kind": "Car"}),
        ],
        session_id="s",
    )
    store.add("s", [HumanMessage("my warranty, please", id="m")])
    assert found(recall, "warranty", filter={"kind": "car"}) == ["2"]
    assert set(found(recall, "warranty", filter={"year": 2024})) == {"1", "2"}
    assert found(recall, "warranty", filter={"kind": "car", "year": 2025}) == []
    spoken = recall.search("warranty", session_id="s", filter={"role": "human"})
    assert [hit.message_id for hit in spoken] == ["m"]


def test_deleting_is_idempotent(store, recall):
    recall.add_documents([Document("The warranty covers two years.", id="w")], session_id="s")
    recall.add_documents([Document("The warranty of another.", id="w")], session_id="t")
    assert recall.delete("w", session_id="s") is True
    assert recall.delete("w", session_id="s") is False
    assert recall.delete("nothing", user_id="nobody") is False
    assert found(recall, "warranty") == []
    assert [hit.text for hit in recall.search("warranty", session_id="t")] == [
        "The warranty of another."
    ]
    with store.index.reading(Scope("s")) as reader:
        assert reader.totals() == (0, 0)


def test_documents_of_a_user_are_found_in_the_users_scope(store, recall):
    store.add("s", [HumanMessage("hello")], user_id="u")
    recall.add_documents([Document("The warranty covers two years.", id="w")], user_id="u")
    assert found(recall, "warranty") == []
    assert found(recall, "warranty", user_id="u", scope="user") == ["w"]
    hit = recall.search("warranty", session_id="new", user_id="u", scope="user")[0]
    assert hit.session_id is None


def test_documents_are_no_neighbours_of_one_another(recall):
    recall.add_documents(
        [Document("The warranty covers two years.", id="1"), Document("Bread.", id="2")],
        session_id="s",
    )
    assert found(recall, "warranty") == ["1"]


@pytest.mark.slow
def test_a_long_document_is_found_by_its_middle(recall):
    text = "\n".join(f"Section {number}: nothing of note." for number in range(3_000))
    text = text.replace("Section 1500: nothing", "Section 1500: the heron nests")
    recall.add_documents([Document(text, id="long")], session_id="s")
    (hit,) = recall.search("where does the heron nest?", session_id="s")
    assert "the heron nests" in hit.text
    assert len(hit.text) < 3_000


def test_clear_keeps_the_documents(store, recall):
    filled(store, "s", "a warranty")
    recall.add_documents([Document("The warranty covers two years.", id="w")], session_id="s")
    store.clear("s")
    assert found(recall, "warranty") == ["w"]


def test_rebuild_takes_documents_in(store, recall):
    recall.add_documents([Document("The warranty covers two years.", id="w")], session_id="s")
    recall.add_documents([Document("The ladder is in the barn.", id="l")], session_id="s")
    assert recall.rebuild() == 2
    assert found(recall, "warranty") == ["w"]
    recall.add_documents([Document("A third one, of copper.", id="c")], session_id="s")
    assert found(recall, "copper") == ["c"]


def test_without_a_home_a_document_is_refused(recall):
    with pytest.raises(ScopeError, match="belong"):
        recall.add_documents([Document("x")])
    with pytest.raises(ScopeError, match="belong"):
        recall.add_documents([])
    with pytest.raises(ConfigurationError, match="no document"):
        recall.add_documents(["text"], session_id="s")
    with pytest.raises(ScopeError):
        recall.delete("x")
