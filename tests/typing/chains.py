"""Chains: a store, a history, a chain with a memory, a retriever, recall."""

from __future__ import annotations

from typing import Any, assert_type

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_tokenmem import (
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptRetriever,
    TranscriptStore,
    with_token_memory,
)
from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings, LexicalIndex, VectorStoreIndex
from langchain_tokenmem.types import MemoryState, TokenUsage


def chain(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Wrap a chain."""
    memory = TokenMemory(TokenBudget(context_window=8_000))
    with TranscriptStore("sqlite://") as store:
        wrapped = with_token_memory(
            model, memory, store, input_messages_key="input", history_messages_key="history"
        )
    assert_type(wrapped, Runnable[Any, Any])
    return with_token_memory(model)


def history(store: TranscriptStore) -> BaseChatMessageHistory:
    """Hand a history to what expects LangChain's."""
    found = TokenMemoryChatHistory("s1", store=store, user_id="ann", overhead_tokens=300)
    found.add_messages([HumanMessage("Hi.")])
    assert_type(found.messages, list[BaseMessage])
    assert_type(found.full_history(), list[BaseMessage])
    assert_type(found.usage(), TokenUsage)
    assert_type(found.compact("Keep prices."), MemoryState)
    return found


async def store(url: str) -> None:
    """Read and write a transcript, sync and async."""
    async with TranscriptStore(url) as kept:
        assert_type(await kept.aadd("s1", [HumanMessage("Hi.")], user_id="ann"), list[str])
        assert_type(kept.messages("s1"), list[BaseMessage])
        assert_type(await kept.aget("s1", "m1"), BaseMessage | None)
        assert_type(kept.count("s1"), int)
        assert_type(kept.sessions(user_id="ann"), list[str])


def recall(kept: TranscriptStore, embeddings: Embeddings) -> Recall:
    """Search by words and by meaning."""
    by_words = Recall(kept)
    hits = by_words.search("price", session_id="s1", user_id="ann", scope="user", k=5)
    hits += by_words.history_search("price", session_id="s1", include_superseded=True)
    assert_type(kept.get("s1", "m1", include_superseded=True), BaseMessage | None)
    assert_type(hits[0].text, str)
    assert_type(hits[0].message_id, str)
    assert_type(hits[0].score, float)
    assert_type(LexicalIndex(kept).index(), int)
    assert_type(HashingEmbeddings(dim=64).embed_query("price"), list[float])
    exact = Recall(kept, embeddings="openai:text-embedding-3-small", on_model_change="rebuild")
    assert_type(exact.add_documents([], session_id="s1"), list[str])
    assert_type(exact.document("d", session_id="s1"), Document | None)
    assert_type(exact.count(), int)
    Recall(kept, VectorStoreIndex(InMemoryVectorStore(embeddings)))
    return Recall(kept, chroma=ChromaIndex("./chroma", embeddings=embeddings))


def retriever(found: Recall) -> BaseRetriever:
    """Retrieve from a transcript as from any other source."""
    made = TranscriptRetriever(recall=found, session_id="s1", k=5)
    assert_type(made.invoke("price"), list[Document])
    return made
