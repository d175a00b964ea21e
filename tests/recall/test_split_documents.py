"""Documents that the caller has split, their time and their count."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime

import pytest
from langchain_core.documents import Document
from langchain_text_splitters import CharacterTextSplitter, MarkdownHeaderTextSplitter

from langchain_tokenmem import Recall, TranscriptRetriever, TranscriptStore
from langchain_tokenmem.core.search_units import Scope
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError, ScopeError
from langchain_tokenmem.recall import HashingEmbeddings
from tests.recall.talk import NOON

SECTIONS = (
    "The warranty covers two years of use.",
    "The heron nests on the third island.",
    "The ladder stands in the northern barn.",
    "The licence costs 42 euros a month.",
)
HANDBOOK = Document(
    "\n\n".join(SECTIONS), metadata={"document_id": "handbook", "source": "handbook.md"}
)
SPLITTER = CharacterTextSplitter(separator="\n\n", chunk_size=40, chunk_overlap=0)
PARTS = SPLITTER.split_documents([HANDBOOK])


@pytest.fixture(params=["words", "vectors"])
def filled(request, store):
    embeddings = HashingEmbeddings() if request.param == "vectors" else None
    with Recall(store, embeddings=embeddings) as recall:
        assert len(set(recall.add_documents(PARTS, session_id="s"))) == len(SECTIONS)
        recall.index()
        yield recall


def rows(store: TranscriptStore) -> int:
    with store.index._database.reading("test") as connection:
        query = "SELECT count(*) FROM tokenmem_messages JOIN tokenmem_sessions ON id = session"
        return connection.exec_driver_sql(f"{query} WHERE kind != 'messages'").scalar_one()


def test_a_part_keeps_its_document(filled):
    hit = filled.search("where does the heron nest?", session_id="s")[0]
    assert (hit.document_id, hit.text) == ("handbook", SECTIONS[1])
    assert hit.metadata == PARTS[1].metadata
    assert filled.document(hit.message_id, session_id="s").page_content == SECTIONS[1]


def test_parts_of_one_document_are_neighbours_and_two_documents_are_not(recall):
    def part(text: str, document_id: str) -> Document:
        return Document(text, metadata={"document_id": document_id})

    recall.add_documents([part("The heron lives here.", "birds")], session_id="s")
    recall.add_documents([part("It nests on stones.", "birds")], session_id="s")
    recall.add_documents([part("Bread is baked daily.", "food")], session_id="s")
    found = [hit.text for hit in recall.search("where does the heron live?", session_id="s")]
    assert found == ["The heron lives here.", "It nests on stones."]


def test_the_same_words_in_two_documents_are_two_parts(recall):
    same = [Document("All rights reserved.", metadata={"document_id": name}) for name in "ab"]
    assert len(set(recall.add_documents(same, session_id="s"))) == 2
    recall.delete("a", session_id="s")
    assert [hit.document_id for hit in recall.search("rights", session_id="s")] == ["b"]


def test_a_document_can_be_had(recall):
    whole = Document("The heron nests here.", id="h", metadata={"page": 3})
    recall.add_documents([whole], session_id="s")
    assert recall.document("h", session_id="s") == whole
    assert recall.document("nothing", session_id="s") is None
    assert recall.document("h", session_id="elsewhere") is None


async def test_documents_are_read_async(recall):
    await recall.aadd_documents([Document("a", id="h")], session_id="s")
    assert await recall.adocument("h", session_id="s") == Document("a", id="h")
    assert await recall.acount(session_id="s") == 1


def test_deleting_a_document_deletes_its_parts(store, filled):
    filled.add_documents([Document("Another warranty.", id="other")], session_id="s")
    assert filled.delete("handbook", session_id="t") is False
    assert filled.delete("handbook", session_id="s") is True
    assert filled.delete("handbook", session_id="s") is False
    assert [hit.document_id for hit in filled.search("heron warranty", session_id="s")] == ["other"]
    filled.index()
    assert rows(store) == 1
    version = None if filled._dense is None else filled._dense._filler.collection()
    with store.index.reading(Scope("s")) as reader:
        assert reader.totals()[0] == 1
        assert version is None or reader.count_vectors(version.key) == 1


def test_an_unchanged_part_is_neither_written_nor_embedded_again(store):
    texts: list[str] = []

    def embedding(given: list[str]) -> list[list[float]]:
        texts.extend(given)
        return HashingEmbeddings(8).embed_documents(given)

    with Recall(store, embeddings=embedding) as recall:
        for _ in range(3):
            names = recall.add_documents(PARTS, session_id="s")
            recall.index()
        assert [text for text in texts if text in SECTIONS] == list(SECTIONS)

        def numbers() -> list[int]:
            found = (store.index.document(each, session_id="s", user_id=None) for each in names)
            return [each.seq for each in found]

        first = numbers()
        recall.add_documents(PARTS, session_id="s")
        assert numbers() == first


def test_other_metadata_replace_a_document(recall):
    for source in ("old.md", "new.md"):
        document = Document("The heron nests here.", id="h", metadata={"source": source})
        recall.add_documents([document], session_id="s")
    (hit,) = recall.search("heron", session_id="s")
    assert hit.metadata == {"source": "new.md"}


@pytest.mark.parametrize(
    "given",
    [NOON, NOON.replace(tzinfo=None), NOON.isoformat(), NOON.timestamp(), "2026-03-05T13:00+01:00"],
)
def test_created_at_of_the_metadata_is_honoured(recall, given):
    document = Document(HANDBOOK.page_content, id="h", metadata={"created_at": given})
    recall.add_documents([document], session_id="s")
    assert recall.search("heron nests", session_id="s")[0].created_at == NOON


def test_created_at_may_be_a_day_and_without_one_it_is_now(recall):
    recall.add_documents(
        [
            Document("a heron of March", id="day", metadata={"created_at": date(2026, 3, 5)}),
            Document("the other heron", id="now"),
        ],
        session_id="s",
    )
    times = {hit.message_id: hit.created_at for hit in recall.search("heron", session_id="s")}
    assert times["day"] == datetime(2026, 3, 5, tzinfo=UTC)
    assert abs((datetime.now(UTC) - times["now"]).total_seconds()) < 60


def test_a_created_at_that_is_no_time_is_refused(recall):
    given = [Document("y"), Document("x", metadata={"created_at": "soon"})]
    with pytest.raises(ConfigurationError, match="created_at"):
        recall.add_documents(given, session_id="s")
    assert recall.count() == 0


def test_count_counts_documents(store, recall):
    assert recall.count() == recall.count(session_id="s") == 0
    recall.add_documents([HANDBOOK], session_id="s")
    recall.add_documents([Document("a"), Document("b")], user_id="u")
    recall.add_documents([Document("a")], session_id="t", user_id="u")
    assert recall.count(session_id="s") == 1
    assert recall.count(user_id="u") == 2
    assert recall.count() == 4
    with pytest.raises(ScopeError):
        recall.count(session_id="t", user_id="v")


def test_a_document_without_a_scope_or_of_another_user_is_an_error(recall):
    recall.add_documents([HANDBOOK], session_id="s", user_id="u")
    with pytest.raises(ScopeError):
        recall.document("handbook")
    with pytest.raises(ScopeError):
        recall.document("handbook", session_id="s", user_id="v")


def test_documents_of_one_user_are_never_those_of_another(recall):
    for user in ("u", "v"):
        documents = [Document(f"The heron of {user}.", id="h"), *PARTS]
        recall.add_documents(documents, user_id=user)
    recall.delete("h", user_id="u")
    recall.delete("handbook", user_id="u")
    assert recall.document("h", user_id="u") is None
    assert recall.document("h", user_id="v").page_content == "The heron of v."
    found = recall.search("heron", session_id="s", user_id="v", scope="user")
    assert found
    assert recall.search("heron", session_id="s", user_id="u", scope="user") == []


def test_erasing_a_session_erases_its_documents_with_all_parts(store, filled):
    counts = filled.erase(session_id="s")
    assert counts["documents"] == len(PARTS)
    assert rows(store) == 0


def test_a_search_may_be_for_one_document(filled):
    filled.add_documents([Document("The heron of another book.", id="b")], session_id="s")
    found = filled.search("heron", session_id="s", filter={"document_id": "handbook"})
    assert {hit.document_id for hit in found} == {"handbook"}


def test_splitters_by_headings_keep_the_headings(recall):
    text = "# Birds\n\nThe heron nests here.\n\n# Tools\n\nThe ladder stands there."
    parts = MarkdownHeaderTextSplitter([("#", "chapter")]).split_text(text)
    recall.add_documents(parts, session_id="s")
    hit = recall.search("heron nests", session_id="s")[0]
    assert hit.metadata == {"chapter": "Birds"}


def test_the_retriever_names_the_document(filled):
    retriever = TranscriptRetriever(recall=filled, session_id="s", k=1)
    (found,) = retriever.invoke("where does the heron nest?")
    assert found.metadata["document_id"] == "handbook"


def test_a_damaged_document_is_an_error_and_can_be_added_again(tmp_path):
    path = tmp_path / "memory.db"
    document = Document("The heron nests here.", id="h")
    with TranscriptStore(f"sqlite:///{path}") as store, Recall(store) as recall:
        recall.add_documents([document], session_id="s")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE tokenmem_messages SET message = '??' WHERE message_id = 'h'")
    connection.commit()
    connection.close()
    with TranscriptStore(f"sqlite:///{path}") as store, Recall(store) as recall:
        with pytest.raises(CorruptStoreError, match="add it again"):
            recall.document("h", session_id="s")
        recall.add_documents([document], session_id="s")
        assert recall.document("h", session_id="s") == document
        assert rows(store) == 1


def test_rebuild_and_an_index_that_comes_later_take_parts_in(store, recall):
    recall.add_documents(PARTS, session_id="s")
    assert recall.rebuild() == len(PARTS)
    assert recall.search("heron nests", session_id="s")[0].text == SECTIONS[1]
    with Recall(store, embeddings=HashingEmbeddings()) as later:
        later.index()
        assert later.search("heron nests", session_id="s")[0].cosine is not None
