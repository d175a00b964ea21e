"""Documents in parts of a text splitter, their time, their count, and the whole of them."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_text_splitters import (
    CharacterTextSplitter,
    MarkdownHeaderTextSplitter,
    RecursiveCharacterTextSplitter,
)

from langchain_tokenmem import HashingEmbeddings, Recall, TranscriptRetriever, TranscriptStore
from langchain_tokenmem.core.search_units import WHOLE_DOCUMENT, DocumentPart, IndexSource, Scope
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError, RecallError, ScopeError
from langchain_tokenmem.recall.base.documents import document_sources, passage
from tests.recall.talk import NOON

SECTIONS = (
    "The warranty covers two years of use.",
    "The heron nests on the third island.",
    "The ladder stands in the northern barn.",
    "The licence costs 42 euros a month.",
)
HANDBOOK = Document("\n\n".join(SECTIONS), id="handbook", metadata={"source": "handbook.md"})
SPLITTER = CharacterTextSplitter(separator="\n\n", chunk_size=40, chunk_overlap=0)
OVERLAPPING = RecursiveCharacterTextSplitter(chunk_size=60, chunk_overlap=25, separators=[" ", ""])


@pytest.fixture(params=["words", "vectors"])
def filled(request, store):
    embeddings = HashingEmbeddings() if request.param == "vectors" else None
    with Recall(store, embeddings=embeddings) as recall:
        assert recall.add_documents([HANDBOOK], session_id="s", splitter=SPLITTER) == ["handbook"]
        recall.index()
        yield recall


def rows(store: TranscriptStore) -> int:
    with store.index._database.reading("test") as connection:
        query = "SELECT count(*) FROM tokenmem_messages JOIN tokenmem_sessions ON id = session"
        return connection.exec_driver_sql(f"{query} WHERE kind != 'messages'").scalar_one()


def test_a_part_keeps_its_document_and_its_number(filled):
    hit = filled.search("where does the heron nest?", session_id="s")[0]
    assert (hit.document_id, hit.part, hit.parts, hit.text) == ("handbook", 1, 4, SECTIONS[1])
    assert hit.metadata == {"source": "handbook.md"}
    assert hit.message_id == "handbook#1"


def test_several_parts_of_one_document_are_found(filled):
    found = filled.search("the ladder of the heron", session_id="s")
    assert {hit.part for hit in found} >= {1, 2}


def test_the_whole_document_can_be_had(filled):
    assert filled.document("handbook", session_id="s") == HANDBOOK
    assert filled.document("nothing", session_id="s") is None
    assert filled.document("handbook", session_id="elsewhere") is None


def test_the_neighbours_of_a_part_can_be_had(filled):
    hit = filled.search("where does the heron nest?", session_id="s")[0]
    for found in (
        filled.document(hit.document_id, session_id="s", part=hit.part, neighbours=1),
        filled.document(hit.message_id, session_id="s", neighbours=1),
    ):
        assert found.page_content == "\n\n".join(SECTIONS[:3])
        assert found.metadata == {
            "source": "handbook.md",
            "document_id": "handbook",
            "part": 1,
            "parts": 4,
        }
    alone = filled.document("handbook", session_id="s", part=3, neighbours=0)
    assert alone.page_content == SECTIONS[3]
    assert filled.document("handbook", session_id="s", part=4) is None


async def test_documents_are_read_async(filled):
    assert await filled.adocument("handbook", session_id="s") == HANDBOOK
    assert await filled.acount(session_id="s") == 1


def test_deleting_a_document_deletes_its_parts(store, filled):
    filled.add_documents([Document("Another warranty.", id="other")], session_id="s")
    assert filled.delete("handbook#1", session_id="s") is False
    assert filled.delete("handbook", session_id="s") is True
    assert [hit.document_id for hit in filled.search("heron warranty", session_id="s")] == ["other"]
    assert filled.document("handbook", session_id="s") is None
    filled.index()
    assert rows(store) == 1
    version = None if filled._dense is None else filled._dense._collections.version()
    with store.index.reading(Scope("s")) as reader:
        assert reader.totals()[0] == 1
        assert version is None or reader.count_vectors(version.key) == 1


def test_a_document_that_is_ingested_again_leaves_no_stale_part(store, filled):
    shorter = Document(SECTIONS[0], id="handbook", metadata={"source": "handbook.md"})
    filled.add_documents([shorter], session_id="s", splitter=SPLITTER)
    assert filled.search("heron", session_id="s") == []
    assert filled.document("handbook", session_id="s") == shorter
    assert rows(store) == 1
    filled.add_documents([HANDBOOK], session_id="s", splitter=SPLITTER)
    assert filled.search("heron nests", session_id="s")[0].part == 1
    assert rows(store) == 5


def test_an_unchanged_document_is_neither_written_nor_embedded_again(store):
    texts: list[str] = []

    def embedding(given: list[str]) -> list[list[float]]:
        texts.extend(given)
        return HashingEmbeddings(8).embed_documents(given)

    with Recall(store, embeddings=embedding) as recall:
        for _ in range(3):
            recall.add_documents([HANDBOOK], session_id="s", splitter=SPLITTER)
            recall.index()
        assert [text for text in texts if text in SECTIONS] == list(SECTIONS)
        first = store.index.document("handbook", session_id="s", user_id=None)
        recall.add_documents([HANDBOOK], session_id="s", splitter=SPLITTER)
        again = store.index.document("handbook", session_id="s", user_id=None)
        assert [each.seq for each in again] == [each.seq for each in first]


def test_other_metadata_or_another_splitter_replace_a_document(recall):
    recall.add_documents([HANDBOOK], session_id="s", splitter=SPLITTER)
    other = Document(HANDBOOK.page_content, id="handbook", metadata={"source": "new.md"})
    recall.add_documents([other], session_id="s", splitter=SPLITTER)
    assert recall.search("heron", session_id="s")[0].metadata == {"source": "new.md"}
    recall.add_documents([other], session_id="s")
    assert recall.search("heron nests", session_id="s")[0].parts == 1


@pytest.mark.parametrize(
    "given",
    [NOON, NOON.replace(tzinfo=None), NOON.isoformat(), NOON.timestamp(), "2026-03-05T13:00+01:00"],
)
@pytest.mark.parametrize("splitter", [None, SPLITTER])
def test_created_at_of_the_metadata_is_honoured(recall, given, splitter):
    document = Document(HANDBOOK.page_content, id="h", metadata={"created_at": given})
    recall.add_documents([document], session_id="s", splitter=splitter)
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
    with pytest.raises(ConfigurationError, match="created_at"):
        recall.add_documents([Document("x", metadata={"created_at": "soon"})], session_id="s")


def test_count_counts_documents_and_not_their_parts(store, recall):
    assert recall.count() == recall.count(session_id="s") == 0
    recall.add_documents([HANDBOOK], session_id="s", splitter=SPLITTER)
    recall.add_documents([Document("a"), Document("b")], user_id="u")
    recall.add_documents([Document("a")], session_id="t", user_id="u")
    assert recall.count(session_id="s") == 1
    assert recall.count(user_id="u") == 2
    assert recall.count() == 4
    with pytest.raises(ScopeError):
        recall.count(session_id="t", user_id="v")


def test_a_document_without_a_scope_or_of_another_user_is_an_error(recall):
    recall.add_documents([HANDBOOK], session_id="s", user_id="u", splitter=SPLITTER)
    with pytest.raises(ScopeError):
        recall.document("handbook")
    with pytest.raises(ScopeError):
        recall.document("handbook", session_id="s", user_id="v")


def test_documents_of_one_user_are_never_those_of_another(recall):
    for user in ("u", "v"):
        text = "\n\n".join([f"The heron of {user}.", *SECTIONS])
        recall.add_documents([Document(text, id="h")], user_id=user, splitter=SPLITTER)
    recall.delete("h", user_id="u")
    assert recall.document("h", user_id="u") is None
    assert recall.document("h", user_id="v").page_content.startswith("The heron of v.")
    found = recall.search("heron", session_id="s", user_id="v", scope="user")
    assert found
    assert recall.search("heron", session_id="s", user_id="u", scope="user") == []


def test_erasing_a_session_erases_its_documents_with_all_parts(store, filled):
    counts = filled.erase(session_id="s")
    assert counts["documents"] == 5
    assert rows(store) == 0


def test_a_search_may_be_for_one_document(filled):
    filled.add_documents([Document("The heron of another book.", id="b")], session_id="s")
    found = filled.search("heron", session_id="s", filter={"document_id": "handbook"})
    assert {hit.document_id for hit in found} == {"handbook"}


def test_splitters_by_headings_keep_the_headings(recall):
    text = "# Birds\n\nThe heron nests here.\n\n# Tools\n\nThe ladder stands there."
    splitter = MarkdownHeaderTextSplitter([("#", "chapter")])
    recall.add_documents([Document(text, id="m")], session_id="s", splitter=splitter)
    hit = recall.search("heron nests", session_id="s")[0]
    assert hit.metadata == {"chapter": "Birds"}
    assert recall.document("m", session_id="s").page_content == text


def test_what_is_no_splitter_and_what_fails_is_a_typed_error(recall):
    class Fails:
        def split_text(self, text: str) -> list[str]:
            raise OSError("no vocabulary")

    with pytest.raises(ConfigurationError, match="no splitter"):
        recall.add_documents([HANDBOOK], session_id="s", splitter=100)
    with pytest.raises(RecallError, match="no vocabulary"):
        recall.add_documents([HANDBOOK], session_id="s", splitter=Fails())
    assert recall.count() == 0


def test_the_retriever_names_document_and_part(filled):
    retriever = TranscriptRetriever(recall=filled, session_id="s", k=1)
    (found,) = retriever.invoke("where does the heron nest?")
    assert found.metadata["document_id"] == "handbook"
    assert (found.metadata["part"], found.metadata["parts"]) == (1, 4)


def test_a_damaged_document_is_an_error_and_can_be_added_again(tmp_path):
    path = tmp_path / "memory.db"
    with TranscriptStore(f"sqlite:///{path}") as store, Recall(store) as recall:
        recall.add_documents([HANDBOOK], session_id="s", splitter=SPLITTER)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE tokenmem_messages SET message = '??' WHERE message_id = 'handbook'")
    connection.commit()
    connection.close()
    with TranscriptStore(f"sqlite:///{path}") as store, Recall(store) as recall:
        with pytest.raises(CorruptStoreError, match="add it again"):
            recall.document("handbook", session_id="s")
        recall.add_documents([HANDBOOK], session_id="s", splitter=SPLITTER)
        assert recall.document("handbook", session_id="s") == HANDBOOK
        assert rows(store) == 5


def test_rebuild_and_an_index_that_comes_later_take_parts_in(store, recall):
    recall.add_documents([HANDBOOK], session_id="s", splitter=SPLITTER)
    assert recall.rebuild() == 5
    assert recall.search("heron nests", session_id="s")[0].part == 1
    with Recall(store, embeddings=HashingEmbeddings()) as later:
        later.index()
        assert later.search("heron nests", session_id="s")[0].cosine is not None


@given(st.lists(st.text("ab \n", min_size=0, max_size=80), min_size=1, max_size=6))
def test_all_parts_together_are_never_less_than_the_document(texts):
    """With every part as a neighbour, a passage holds each part and invents nothing."""
    text = "\n\n".join(texts)
    document = Document(text, id="d")
    found = document_sources(document, "s", None, splitter=OVERLAPPING, now=NOON)
    count = len(found) - 1
    whole = passage(found, 0 if count else None, count)
    assert whole is not None
    assert whole.page_content in text
    for each in found[1:]:
        assert each.text in whole.page_content


def test_parts_that_a_splitter_has_changed_are_put_below_one_another():
    changed = [
        IndexSource(0, "A B C", WHOLE_DOCUMENT, NOON, source_id="d"),
        IndexSource(1, "<a>", "document", NOON, document_part=DocumentPart("d", 0, 2)),
        IndexSource(2, "<b>", "document", NOON, document_part=DocumentPart("d", 1, 2)),
    ]
    assert passage(changed, 0, 1).page_content == "<a>\n<b>"
