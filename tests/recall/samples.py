"""Things to say and to index, an embedding model that counts, and what an index holds."""

from datetime import UTC, datetime
from pathlib import Path

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.core.search_units import Scope, ScopePartitions, unpack_unit
from langchain_tokenmem.recall.chroma import ChromaIndex
from langchain_tokenmem.recall.embeddings import HashingEmbeddings
from langchain_tokenmem.recall.vectors import VectorIndex

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)

FILLER = (
    "The weather was grey and the tram came late.",
    "We talked about gardens and about bread.",
    "My sister plays the cello in an orchestra.",
    "There was a long queue at the post office.",
    "He repaired the old bicycle in the cellar.",
    "The film was dull but the music was fine.",
)


def talk(*texts: str, start: int = 0, name: str | None = None) -> list[BaseMessage]:
    """Messages with ids m0, m1 ..., human and AI by turns."""
    return [
        (HumanMessage if number % 2 == 0 else AIMessage)(text, id=f"m{start + number}", name=name)
        for number, text in enumerate(texts)
    ]


def filled(store: TranscriptStore, session_id: str, *planted: str, user_id: str | None = None):
    """Say filler, each planted sentence apart from the others, and filler again."""
    texts = [*FILLER]
    for sentence in planted:
        texts += [sentence, *FILLER]
    return store.add(
        session_id,
        [HumanMessage(text, id=f"{session_id}-{number}") for number, text in enumerate(texts)],
        user_id=user_id,
        now=NOON,
    )


def partitions_of(store: TranscriptStore, session_id: str) -> ScopePartitions:
    """Return the numbers that a session, and then its documents, have in every table."""
    with store.index.reading(Scope(session_id)) as reader:
        assert reader is not None
        return reader.partitions


class CountingEmbeddings(Embeddings):
    """Hashed vectors of its own kind (`salt`); counts texts, and fails where it is told to."""

    def __init__(self, dim: int = 32, *, salt: str = "", name: str = "counting") -> None:
        self.model = name
        self.texts: list[str] = []
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
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        words = text.split() if self._salt else [text]
        return self._inner.embed_query(" ".join(f"{self._salt}{word}" for word in words))


def days(count: int, start: int = 0, topic: str = "day") -> list[BaseMessage]:
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
