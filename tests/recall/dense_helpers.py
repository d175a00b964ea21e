"""What the tests of the dense side share: an embedding model that counts, and talks to index."""

from __future__ import annotations

from pathlib import Path

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.core.search_units import Scope, unpack_unit
from langchain_tokenmem.recall.chroma import ChromaIndex
from langchain_tokenmem.recall.embeddings import HashingEmbeddings
from langchain_tokenmem.recall.vectors import VectorIndex


class CountingEmbeddings(Embeddings):
    """Hashed vectors of its own kind (`salt`); counts texts, and fails where it is told to."""

    def __init__(self, dim: int = 32, *, salt: str = "", name: str = "counting") -> None:
        self.model = name
        self.texts: list[str] = []
        self.questions: list[str] = []
        self.fails = False
        self._salt = salt
        self._inner = HashingEmbeddings(dim)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.fails:
            raise ConnectionError("the embedding service is away")
        self.texts += texts
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        if self.fails:
            raise ConnectionError("the embedding service is away")
        self.questions.append(text)
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        words = text.split() if self._salt else [text]
        return self._inner.embed_query(" ".join(f"{self._salt}{word}" for word in words))


def talk(count: int, start: int = 0, topic: str = "day") -> list[BaseMessage]:
    """Messages that differ, by turns of a human and an AI."""
    kinds = (HumanMessage, AIMessage)
    return [
        kinds[n % 2](
            f"{topic} number{n} word{n * 7 % 13} about thing{n * 5 % 11}", id=f"{topic}-{n}"
        )
        for n in range(start, start + count)
    ]


def made(
    store: TranscriptStore, path: Path, embeddings: Embeddings, **options: int
) -> tuple[VectorIndex, ChromaIndex]:
    chroma = ChromaIndex(path, embeddings=embeddings)
    return VectorIndex(store.index, embeddings, chroma, **options), chroma


def seqs(
    index: VectorIndex, store: TranscriptStore, query: str, scope: Scope, k: int = 5
) -> list[int]:
    """Return the message numbers that a search finds."""
    question = index.question(query)
    with store.index.reading(scope) as reader:
        found = [] if reader is None else index.search(question, reader, k)
    return [unpack_unit(unit)[1] for unit, _ in found]
