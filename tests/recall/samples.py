"""Things to say and to index, an embedding model that counts, and what an index holds."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.core.search_units import Scope, unpack_unit
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


def talk(*texts: str, start: int = 0) -> list[BaseMessage]:
    """Messages with ids m0, m1 ..., human and AI by turns."""
    kinds = (HumanMessage, AIMessage)
    return [kinds[n % 2](text, id=f"m{start + n}") for n, text in enumerate(texts)]


def filled(store: TranscriptStore, session_id: str, *planted: str, user_id: str | None = None):
    """Say filler, each planted sentence apart from the others, and filler again."""
    texts = [*FILLER, *(text for sentence in planted for text in (sentence, *FILLER))]
    said = [HumanMessage(text, id=f"{session_id}-{number}") for number, text in enumerate(texts)]
    return store.add(session_id, said, user_id=user_id, now=NOON)


class CountingEmbeddings(Embeddings):
    """Hashed vectors of their own kind (`salt`); counts texts, which `before` gets first."""

    def __init__(self, dim: int = 32, *, salt: str = "", name: str = "counting") -> None:
        self.model = name
        self.texts: list[str] = []
        self.before: Callable[[list[str]], object] = len
        self._salt = salt
        self._inner = HashingEmbeddings(dim)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.before(texts)
        self.texts += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        words = text.split() if self._salt else [text]
        return self._inner.embed_query(" ".join(f"{self._salt}{word}" for word in words))


def days(count: int, start: int = 0, topic: str = "day") -> list[BaseMessage]:
    """Messages that differ, by turns of a human and an AI."""
    kinds = (HumanMessage, AIMessage)
    texts = [
        f"{topic} number{n} word{n * 7 % 13} about thing{n * 5 % 11}"
        for n in range(start, start + count)
    ]
    return [kinds[n % 2](text, id=f"{topic}-{n}") for n, text in enumerate(texts, start)]


def index_of(store: TranscriptStore, path: Path, model: Embeddings, **options: int) -> VectorIndex:
    """Return an index of vectors with Chroma beside the store."""
    return VectorIndex(store.index, model, ChromaIndex(path, embeddings=model), **options)


def seqs(index: VectorIndex, store: TranscriptStore, query: str, k: int = 5) -> list[int]:
    """Return the numbers of the messages that a search in the session `s` finds."""
    question = index.question(query)
    with store.index.reading(Scope("s")) as reader:
        found = [] if reader is None else index.search(question, reader, k)
    return [unpack_unit(unit)[1] for unit, _ in found]
