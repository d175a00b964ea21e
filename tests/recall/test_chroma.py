"""Chroma as it is used here: offline, with vectors and numbers only, one process on a folder."""

import builtins
import os

import numpy as np
import pytest

from langchain_tokenmem.core.search_units import ScopePartitions, pack_unit
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.recall.chroma import ChromaIndex
from langchain_tokenmem.recall.embeddings import HashingEmbeddings, unit_rows
from langchain_tokenmem.recall.place import Question

pytestmark = pytest.mark.slow  # a real Chroma; `make test` does without

EMBEDDINGS = HashingEmbeddings(8)


@pytest.fixture
def chroma(tmp_path):
    index = ChromaIndex(tmp_path / "chroma", embeddings=EMBEDDINGS)
    yield index
    index.close()


def rows(seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed).standard_normal((20, 8))
    return unit_rows(random.astype(np.float32))


NAME = "tokenmem-test"


def filled(chroma: ChromaIndex) -> None:
    chroma.make(NAME, {"dimension": 8})
    for partition, owner in ((1, 1), (2, 1), (3, 2)):
        units = np.array([pack_unit(partition, seq) for seq in range(1, 21)], np.int64)
        chroma.put(NAME, units, rows(partition), owner, {})


def test_chroma_works_without_sockets_telemetry_and_its_default_model(chroma, monkeypatch):
    from chromadb.utils.embedding_functions import DefaultEmbeddingFunction

    def used(*_args, **_kwargs):
        raise AssertionError("Chroma's default model was asked")

    monkeypatch.setattr(DefaultEmbeddingFunction, "__call__", used)
    filled(chroma)
    question, within = Question("", rows(1)[4]), ScopePartitions(1, (1,))
    assert chroma.propose(NAME, question, within, 3)[0] == pack_unit(1, 5)
    assert chroma.connect(NAME).get_settings().anonymized_telemetry is False


def test_chromas_default_embedding_function_can_be_chosen_by_name(monkeypatch):
    from chromadb.utils.embedding_functions import DefaultEmbeddingFunction

    monkeypatch.setattr(
        DefaultEmbeddingFunction, "__call__", lambda _self, texts: [np.ones(3)] * len(texts)
    )
    chosen = ChromaIndex(client=object(), embeddings="chroma-default").embeddings
    assert chosen.embed_query("a") == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "none"),
        ({"path": "a", "host": "b"}, "path and host"),
        *(({"path": "a", "collection": name}, "collection is") for name in ("ab", "a b c", "näme")),
        *(({"path": "a", "embeddings": one}, "HashingEmbeddings") for one in (None, "openai", 3)),
    ],
)
def test_arguments_that_cannot_work_are_refused_when_the_index_is_made(wrong, said):
    with pytest.raises(ConfigurationError, match=said):
        ChromaIndex(**{"embeddings": EMBEDDINGS, **wrong})


def test_a_client_of_the_application_stays_open(tmp_path):
    import chromadb

    settings = chromadb.config.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(tmp_path), settings=settings)
    index = ChromaIndex(client=client, embeddings=EMBEDDINGS)
    filled(index)
    index.close()
    assert client.count_collections() == 1
    index.clear(NAME)
    client.close()


def test_a_server_that_is_not_there_is_said():
    chroma = ChromaIndex(host="127.0.0.1", port=9, embeddings=EMBEDDINGS)
    with pytest.raises(RecallError, match=r"server at 127\.0\.0\.1:9.*cannot be used now"):
        chroma.connect(NAME)


def test_chroma_cloud_is_asked_through_its_own_client_without_telemetry(monkeypatch):
    """Not more than that: Chroma Cloud itself was not there to be tested."""
    client, given = object(), {}
    monkeypatch.setattr("chromadb.CloudClient", lambda **options: given.update(options) or client)
    chroma = ChromaIndex(cloud={"tenant": "t", "api_key": "k"}, embeddings=EMBEDDINGS)
    assert chroma.connect(NAME) is client
    assert (given["tenant"], given["api_key"]) == ("t", "k")
    assert given["settings"].anonymized_telemetry is False


def test_a_forked_process_may_not_use_its_parents_chroma(chroma, monkeypatch):
    filled(chroma)
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    with pytest.raises(RecallError, match="forked"):
        chroma.count(NAME)
    monkeypatch.undo()


def test_a_missing_or_broken_chromadb_is_one_clear_error_on_first_use(tmp_path, monkeypatch):
    real = builtins.__import__

    def broken(name, *args, **kwargs):
        if name.startswith("chromadb"):
            raise RuntimeError("Your system has an unsupported version of sqlite3.")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", broken)
    index = ChromaIndex(tmp_path / "chroma", embeddings=EMBEDDINGS)
    advice = r"unsupported version of sqlite3.*tokenmem\[chroma\].*works without"
    with pytest.raises(RecallError, match=advice):
        index.connect(NAME)
