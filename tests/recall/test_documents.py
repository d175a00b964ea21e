"""Documents beside the transcript: added, split, replaced, filtered, deleted, in their scope."""

from datetime import UTC, date, datetime

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_text_splitters import CharacterTextSplitter

from langchain_tokenmem import Recall, TranscriptRetriever, TranscriptStore
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError, ScopeError
from langchain_tokenmem.recall import HashingEmbeddings
from tests.recall.samples import NOON, CountingEmbeddings
from tests.storage.samples import sql

WARRANTY = Document("The warranty covers two years.", id="w", metadata={"page": 3})
SECTIONS = (
    "The warranty covers two years of use.",
    "The heron nests on the third island.",
    "The ladder stands in the northern barn.",
)
METADATA = {"document_id": "handbook", "source": "handbook.md"}
HANDBOOK = Document("\n\n".join(SECTIONS), metadata=METADATA)
SPLITTER = CharacterTextSplitter(separator="\n\n", chunk_size=40, chunk_overlap=0)
PARTS = SPLITTER.split_documents([HANDBOOK])


def found(recall, query, **options):
    return [hit.document_id for hit in recall.search(query, session_id="s", **options)]


def test_a_document_is_found_and_read_with_its_metadata(recall):
    assert recall.add_documents([WARRANTY], session_id="s") == ["w"]
    (hit,) = recall.search("How long is the warranty?", session_id="s")
    assert (hit.text, hit.role, hit.document_id) == (WARRANTY.page_content, "document", "w")
    assert (hit.metadata, hit.session_id) == ({"page": 3}, "s")
    assert recall.document("w", session_id="s") == WARRANTY
    assert recall.document("w", session_id="t") is recall.document("x", session_id="s") is None


def test_a_known_id_takes_the_place_of_the_earlier_one(recall):
    recall.add_documents([WARRANTY], session_id="s")
    new = Document("The guarantee lasts five winters.", id="w", metadata={"page": 4})
    recall.add_documents([new], session_id="s")
    assert found(recall, "warranty years") == []
    assert found(recall, "guarantee of five winters") == ["w"]
    assert recall.document("w", session_id="s") == new
    assert recall.count(session_id="s") == 1


def test_two_texts_with_one_id_in_one_call_are_an_error_and_a_repeated_one_is_not(recall):
    other = Document("The warranty covers five winters.", id="w")
    with pytest.raises(ConfigurationError, match="have the id 'w', and nothing was added"):
        recall.add_documents([*PARTS, WARRANTY, other], session_id="s")
    assert recall.count() == 0
    recall.add_documents([WARRANTY, *PARTS, WARRANTY], session_id="s")
    assert recall.count() == 1 + len(PARTS)


def test_the_filter_matches_exactly(store, recall):
    metadata = [{"kind": "bike", "year": 2024}, {"kind": "car", "year": 2024}, {"kind": "Car"}]
    documents = [Document(f"warranty {n}", id=str(n), metadata=m) for n, m in enumerate(metadata)]
    recall.add_documents(documents, session_id="s")
    store.add("s", [HumanMessage("my warranty, please", id="m")])
    for wanted, ids in (
        *(({"kind": "car"}, {"1"}), ({"year": 2024}, {"0", "1"}), ({"document_id": "2"}, {"2"})),
        *(({"kind": "car", "year": 2025}, set()), ({"role": "human"}, {"m"})),
    ):
        hits = recall.search("warranty", session_id="s", filter=wanted)
        assert {hit.message_id for hit in hits} == ids


def test_clear_keeps_documents_and_erase_deletes_them_with_all_parts(store, recall):
    store.add("s", [HumanMessage("a warranty")])
    recall.add_documents([WARRANTY, *PARTS], session_id="s")
    store.clear("s")
    assert found(recall, "warranty")
    assert recall.erase(session_id="s")["documents"] == 1 + len(PARTS)
    assert found(recall, "warranty") == []


def test_created_at_of_the_metadata_is_honoured(recall):
    midnight = datetime(2026, 3, 5, tzinfo=UTC)
    times = (NOON, NOON.replace(tzinfo=None), NOON.timestamp(), "2026-03-05T13:00+01:00")
    for given, time in (*((one, NOON) for one in times), (date(2026, 3, 5), midnight)):
        document = Document("the heron nests", id="h", metadata={"created_at": given})
        recall.add_documents([document], session_id="s")
        assert recall.search("heron nests", session_id="s")[0].created_at == time


def test_what_cannot_be_added_is_refused_whole_and_so_is_what_names_no_scope(store, recall):
    store.add("s", [HumanMessage("hello")], user_id="u")
    soon = Document("x", metadata={"created_at": "soon"})
    for wrong, message in ((soon, "created_at"), ("text", "not a document")):
        with pytest.raises(ConfigurationError, match=message):
            recall.add_documents([Document("y"), wrong], session_id="s", user_id="u")
    with pytest.raises(ScopeError, match="belong"):
        recall.add_documents([Document("x")])
    for ask in (
        *(lambda: recall.document("w"), lambda: recall.delete("w")),
        lambda: recall.document("w", session_id="s", user_id="v"),
        lambda: recall.count(session_id="s", user_id="v"),
    ):
        with pytest.raises(ScopeError):
            ask()
    assert recall.count() == 0


# --- of a user


def test_documents_of_a_user_are_found_in_the_users_scope_and_by_no_other(store, recall):
    for user in ("u", "v"):
        store.add(f"of {user}", [HumanMessage("hello")], user_id=user)
        recall.add_documents([Document(f"The heron of {user}.", id="h"), *PARTS], user_id=user)
    recall.delete("h", user_id="u")
    recall.delete("handbook", user_id="u")
    assert recall.document("h", user_id="u") is None
    assert recall.document("h", user_id="v").page_content == "The heron of v."
    assert recall.search("heron", session_id="s", user_id="u", scope="user") == []
    hits = recall.search("heron", session_id="new", user_id="v", scope="user")
    assert hits[0].session_id is None
    assert recall.search("heron", session_id="of v", user_id="v") == []
    assert [recall.count(user_id=user) for user in "uv"] == [0, 1 + len(PARTS)]


# --- split by the caller


@pytest.fixture(params=["words", "vectors"])
def handbook(request, store):
    embeddings = HashingEmbeddings() if request.param == "vectors" else None
    with Recall(store, embeddings=embeddings) as recall:
        assert len(set(recall.add_documents(PARTS, session_id="s"))) == len(SECTIONS)
        recall.index()
        yield recall


def test_a_part_keeps_its_document(handbook):
    hit = handbook.search("where does the heron nest?", session_id="s")[0]
    assert (hit.document_id, hit.text, hit.metadata) == ("handbook", SECTIONS[1], PARTS[1].metadata)
    assert handbook.document(hit.message_id, session_id="s").page_content == SECTIONS[1]
    retriever = TranscriptRetriever(recall=handbook, session_id="s", k=1)
    (one,) = retriever.invoke("where does the heron nest?")
    assert one.metadata["document_id"] == "handbook"


def test_deleting_a_document_deletes_its_parts(handbook):
    handbook.add_documents([Document("Another warranty.", id="other")], session_id="s")
    assert handbook.delete("handbook", session_id="t") is False
    assert [handbook.delete("handbook", session_id="s") for _ in range(2)] == [True, False]
    assert found(handbook, "heron warranty") == ["other"]
    assert handbook.erase(session_id="s").get("vectors", 0) <= 1


def test_parts_of_one_document_are_neighbours_and_two_documents_are_not(recall):
    heron = [("The heron lives here.", "birds"), ("It nests on stones.", "birds")]
    for text, name in (*heron, ("It nests on stones.", "food")):
        recall.add_documents([Document(text, metadata={"document_id": name})], session_id="s")
    hits = recall.search("where does the heron live?", session_id="s")
    assert [(hit.text, hit.document_id) for hit in hits] == heron


def test_an_unchanged_part_is_not_embedded_again(store):
    model = CountingEmbeddings()
    with Recall(store, embeddings=model) as recall:
        for _ in range(3):
            recall.add_documents(PARTS, session_id="s")
            recall.index()
    assert model.texts == list(SECTIONS)


def test_a_damaged_document_is_an_error_and_can_be_added_again(tmp_path):
    path = tmp_path / "memory.db"
    with TranscriptStore(path) as store, Recall(store) as recall:
        recall.add_documents([WARRANTY], session_id="s")
    sql(path, "UPDATE tokenmem_messages SET message = '??' WHERE message_id = 'w'")
    with TranscriptStore(path) as store, Recall(store) as recall:
        with pytest.raises(CorruptStoreError, match="add it again"):
            recall.document("w", session_id="s")
        recall.add_documents([WARRANTY], session_id="s")
        assert recall.document("w", session_id="s") == WARRANTY
        assert recall.count() == 1
