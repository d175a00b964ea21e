"""`TranscriptRetriever`: the suite of langchain-tests, and what a document says."""

from datetime import UTC, datetime

from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_tests.integration_tests import RetrieversIntegrationTests

from langchain_tokenmem import Recall, TranscriptRetriever, TranscriptStore


class TestStandard(RetrieversIntegrationTests):
    """Named after integration: it needs no network here."""

    @property
    def retriever_constructor(self):
        return TranscriptRetriever

    @property
    def retriever_constructor_params(self):
        store = TranscriptStore("sqlite://")
        recall = Recall(store)
        said = [HumanMessage(f"the lamp number {n} is copper", id=f"m{n}") for n in range(8)]
        store.add("s", said)
        return {"recall": recall, "session_id": "s"}

    @property
    def retriever_query_example(self):
        return "copper lamp"


async def test_async_and_options(store):
    recall = Recall(store)
    store.add("s", [HumanMessage(f"lamp {n}", id=f"m{n}") for n in range(9)], user_id="u")
    recall.add_documents([Document("lamp of brass", id="d", metadata={"shop": "x"})], user_id="u")
    retriever = TranscriptRetriever(
        recall=recall, session_id="t", user_id="u", scope="user", k=3, filter={"shop": "x"}
    )
    assert [document.id for document in await retriever.ainvoke("lamp")] == ["d"]
    assert len(retriever.invoke("lamp", filter=None)) == 3
    assert retriever.invoke("lamp", filter=None, max_tokens=0) == []
    assert retriever.invoke("lamp")[0].metadata["shop"] == "x"


def test_a_retriever_takes_a_time_and_all_sessions_of_a_user(store):
    for day in (1, 2, 3):
        said_at = datetime(2026, 3, day, 12, tzinfo=UTC)
        store.add(f"s{day}", [HumanMessage(f"lamp {day}")], user_id="ann", now=said_at)
        store.add(f"t{day}", [HumanMessage("lamp of Bob")], user_id="bob", now=said_at)
    retriever = TranscriptRetriever(
        recall=Recall(store), user_id="ann", scope="user", after="2026-03-02"
    )
    assert {found.page_content for found in retriever.invoke("lamp")} == {"lamp 2", "lamp 3"}
    (found,) = retriever.invoke("lamp", before="2026-03-03")
    assert found.metadata["why"] == 'has "lamp", 100 % of the question; above the floor'
