"""Chroma as it is used here: offline, with vectors and numbers only, one process on a folder."""

from __future__ import annotations

import builtins
import os
import socket
import subprocess
import sys
import threading

import chromadb
import numpy as np
import pytest
from pytest_socket import SocketBlockedError

from langchain_tokenmem.background import waiting_at_most
from langchain_tokenmem.core.search_units import ScopePartitions, pack_unit
from langchain_tokenmem.errors import ConfigurationError, RecallError
from langchain_tokenmem.recall.chroma import ChromaIndex
from langchain_tokenmem.recall.embeddings import HashingEmbeddings, unit_rows
from langchain_tokenmem.recall.place import BrokenCollectionError, Question, ask_place

pytestmark = pytest.mark.slow  # a real Chroma; `make test` does without

EMBEDDINGS = HashingEmbeddings(8)


@pytest.fixture
def chroma(tmp_path):
    index = ChromaIndex(tmp_path / "chroma", embeddings=EMBEDDINGS)
    yield index
    index.close()


def rows(count: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed).standard_normal((count, 8))
    return unit_rows(random.astype(np.float32))


def units(partition: int, count: int) -> np.ndarray:
    return np.array([pack_unit(partition, seq) for seq in range(1, count + 1)], np.int64)


NAME = "tokenmem-test"


def filled(chroma: ChromaIndex) -> None:
    chroma.make(NAME, {"dimension": 8})
    for partition, owner in ((1, 1), (2, 1), (3, 2)):
        chroma.put(NAME, units(partition, 20), rows(20, partition), owner, {})


def proposed(chroma: ChromaIndex, vector: np.ndarray, within: ScopePartitions, k: int) -> list[int]:
    return chroma.propose(NAME, Question("", vector), within, k)


def test_chroma_works_without_sockets_and_with_telemetry_off(chroma):
    with pytest.raises(SocketBlockedError):
        socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    filled(chroma)
    assert proposed(chroma, rows(20, 1)[4], ScopePartitions(1, (1,)), 3)[0] == pack_unit(1, 5)
    settings = chroma.connect(NAME).get_settings()
    assert settings.anonymized_telemetry is False


def test_chromas_default_embedding_function_is_never_used(chroma, monkeypatch):
    from chromadb.utils.embedding_functions import DefaultEmbeddingFunction

    def used(*_args, **_kwargs):
        raise AssertionError("Chroma's default model was asked")

    monkeypatch.setattr(DefaultEmbeddingFunction, "__call__", used)
    filled(chroma)
    assert proposed(chroma, rows(1)[0], ScopePartitions(1, (1, 2)), 5)
    stored, _ = chroma._opened(NAME)
    assert stored._embedding_function is None


def test_chromas_default_embedding_function_can_be_chosen_by_name(monkeypatch):
    from chromadb.utils.embedding_functions import DefaultEmbeddingFunction

    monkeypatch.setattr(
        DefaultEmbeddingFunction, "__call__", lambda _self, texts: [np.ones(3)] * len(texts)
    )
    chosen = ChromaIndex(client=object(), embeddings="chroma-default").embeddings
    assert chosen.embed_query("a") == [1.0, 1.0, 1.0]


def test_only_vectors_and_numbers_reach_chroma(chroma):
    filled(chroma)
    stored = chroma._opened(NAME)[0].get()
    assert set(stored["documents"]) == {None}
    assert all(name.isdecimal() for name in stored["ids"])
    assert all(set(one) == {"owner", "partition"} for one in stored["metadatas"])
    assert all(value.isdecimal() for one in stored["metadatas"] for value in one.values())


@pytest.mark.parametrize(
    ("within", "partitions"),
    [
        (ScopePartitions(1, (1,)), {1}),
        (ScopePartitions(1, (1, 2)), {1, 2}),
        (ScopePartitions(1, (1, 2), whole=True), {1, 2}),
        (ScopePartitions(2, (3,)), {3}),
        (ScopePartitions(2, (1, 3)), {3}),  # the owner is asked, too
        (ScopePartitions(1, (3,)), set()),
        (ScopePartitions(9, (1,), whole=True), set()),
    ],
)
def test_nothing_out_of_scope_is_found(chroma, within, partitions):
    filled(chroma)
    found = proposed(chroma, rows(1)[0], within, 60)
    assert {unit >> 36 for unit in found} == partitions
    assert len(found) == 20 * len(partitions)


def test_a_vector_is_replaced_and_deleted(chroma):
    filled(chroma)
    chroma.put(NAME, units(1, 1), rows(1, 50), 1, {})
    assert chroma.count(NAME) == 60
    assert proposed(chroma, rows(1, 50)[0], ScopePartitions(1, (1,)), 1) == [pack_unit(1, 1)]
    chroma.delete(NAME, [pack_unit(1, 1), 12345])
    assert chroma.count(NAME) == 59
    assert chroma.units(NAME, 1) == units(1, 20).tolist()[1:]


def test_what_others_have_put_there_is_not_looked_at(chroma):
    filled(chroma)
    stored, _ = chroma._opened(NAME)
    stored.upsert(
        ids=["not-a-number"],
        embeddings=rows(1, 1),
        metadatas=[{"owner": "1", "partition": "1"}],
    )
    assert len(proposed(chroma, rows(1, 1)[0], ScopePartitions(1, (1,)), 21)) == 20
    assert len(chroma.units(NAME, 1)) == 20


@pytest.mark.slow
def test_batches_stay_below_the_bound(chroma):
    chroma.make(NAME, {"dimension": 8})
    chroma.put(NAME, units(1, 2_500), rows(2_500), 1, {})
    assert chroma.count(NAME) == 2_500
    chroma.delete(NAME, units(1, 2_400).tolist())
    assert chroma.count(NAME) == 100
    assert len(chroma.units(NAME, 1)) == 100


def test_a_missing_collection_is_said_and_clearing_one_is_no_error(chroma):
    for ask in (
        lambda: chroma.count("tokenmem-none"),
        lambda: chroma.put("tokenmem-none", units(1, 1), rows(1), 1, {}),
        lambda: chroma.propose(
            "tokenmem-none", Question("", rows(1)[0]), ScopePartitions(1, ()), 1
        ),
    ):
        with pytest.raises(BrokenCollectionError, match="tokenmem-none"):
            ask()
    chroma.clear("tokenmem-none")


def test_a_dropped_collection_leaves_no_files(chroma, tmp_path):
    filled(chroma)
    folder = tmp_path / "chroma" / "tokenmem"
    assert (folder / NAME).is_dir()
    chroma.clear(NAME)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ({}, "none"),
        ({"path": "a", "host": "b"}, "path and host"),
        ({"cloud": {}, "path": "a"}, "cloud"),
    ],
)
def test_exactly_one_place_is_taken(places, said):
    with pytest.raises(ConfigurationError, match=said):
        ChromaIndex(embeddings=EMBEDDINGS, **places)


@pytest.mark.parametrize("name", ["", "ab", "-abc", "a b c", "abc.", "x" * 500, "näme"])
def test_a_name_that_chroma_does_not_take_is_refused(name):
    with pytest.raises(ConfigurationError, match="collection is"):
        ChromaIndex("a", embeddings=EMBEDDINGS, collection=name)


@pytest.mark.parametrize("wrong", [None, "openai", 3])
def test_embeddings_must_be_given(wrong):
    with pytest.raises(ConfigurationError, match="HashingEmbeddings"):
        ChromaIndex("a", embeddings=wrong)


def test_nothing_is_opened_before_it_is_used(tmp_path):
    index = ChromaIndex(tmp_path / "chroma", embeddings=EMBEDDINGS)
    index.close()
    assert not (tmp_path / "chroma").exists()
    assert ChromaIndex(host="h", port=1, embeddings=EMBEDDINGS).where == "the Chroma server at h:1"
    assert ChromaIndex(cloud={}, embeddings=EMBEDDINGS).where == "Chroma Cloud"


def test_a_server_that_is_not_there_is_said():
    chroma = ChromaIndex(host="127.0.0.1", port=9, embeddings=EMBEDDINGS)
    with pytest.raises(RecallError, match=r"server at 127\.0\.0\.1:9.*cannot be used now"):
        chroma.connect(NAME)


def test_a_client_of_the_application_stays_open(tmp_path):
    client = chromadb.PersistentClient(
        str(tmp_path), settings=chromadb.config.Settings(anonymized_telemetry=False)
    )
    index = ChromaIndex(client=client, embeddings=EMBEDDINGS)
    filled(index)
    index.close()
    assert client.count_collections() == 1
    client.close()


class FakeClient:
    is_closed = False

    def close(self):
        self.is_closed = True


def test_a_server_is_asked_whether_it_is_there_and_its_client_is_closed(monkeypatch):
    client, asked = FakeClient(), []
    monkeypatch.setattr(chromadb, "HttpClient", lambda **_options: client)
    monkeypatch.setattr("httpx.get", lambda address, **options: asked.append((address, options)))
    chroma = ChromaIndex(
        host="chroma.test", port=1, ssl=True, headers={"x": "y"}, embeddings=EMBEDDINGS, timeout_s=3
    )
    assert chroma.connect(NAME) is client
    heartbeat = ("https://chroma.test:1/api/v2/heartbeat", {"headers": {"x": "y"}, "timeout": 3})
    assert asked == [heartbeat]
    chroma.close()
    assert client.is_closed


def test_a_server_that_was_too_slow_gets_a_new_client(monkeypatch):
    clients = [FakeClient(), FakeClient()]
    may_end = threading.Event()
    clients[0].get_collection = lambda *_args, **_options: may_end.wait(60)
    made = iter(clients)
    monkeypatch.setattr(chromadb, "HttpClient", lambda **_options: next(made))
    monkeypatch.setattr("httpx.get", lambda *_args, **_options: None)
    chroma = ChromaIndex(host="chroma.test", embeddings=EMBEDDINGS, timeout_s=60)
    chroma.connect(NAME)
    with waiting_at_most(0.1), pytest.raises(RecallError, match="Timeout"):
        chroma.count(NAME)
    may_end.set()
    assert chroma.connect(NAME) is clients[1]


def test_a_forked_child_makes_connections_of_its_own(monkeypatch):
    clients = [FakeClient(), FakeClient()]
    made = iter(clients)
    monkeypatch.setattr(chromadb, "HttpClient", lambda **_options: next(made))
    monkeypatch.setattr("httpx.get", lambda *_args, **_options: None)
    chroma = ChromaIndex(host="chroma.test", embeddings=EMBEDDINGS)
    assert chroma.connect(NAME) is chroma.connect(NAME) is clients[0]
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert chroma.connect(NAME) is clients[1]
    assert not clients[0].is_closed


def test_chroma_cloud_is_asked_through_its_own_client_without_telemetry(monkeypatch):
    """Not more than that: Chroma Cloud itself was not there to be tested."""
    client, given = FakeClient(), {}
    monkeypatch.setattr(chromadb, "CloudClient", lambda **options: given.update(options) or client)
    chroma = ChromaIndex(cloud={"tenant": "t", "api_key": "k"}, embeddings=EMBEDDINGS)
    assert chroma.connect(NAME) is client
    assert (given["tenant"], given["api_key"]) == ("t", "k")
    assert given["settings"].anonymized_telemetry is False


HOLDER = """
import sys
from langchain_tokenmem.recall.embedded_folder import EmbeddedFolder
from pathlib import Path
folder = EmbeddedFolder(Path(sys.argv[1]))
folder.lock()
print("taken", flush=True)
sys.stdin.read()
"""


def test_a_second_process_on_one_chroma_folder_is_refused_with_advice(tmp_path):
    other = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", HOLDER, str(tmp_path / "chroma")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        assert other.stdout.readline() == "taken\n"
        index = ChromaIndex(tmp_path / "chroma", embeddings=EMBEDDINGS)
        with pytest.raises(RecallError, match=r"Another process.*chroma run --path.*host="):
            index.connect(NAME)
    finally:
        other.communicate(timeout=20)
    index.connect(NAME)  # it has ended
    index.close()


def test_two_indexes_of_one_process_share_a_chroma_folder(tmp_path):
    one, two = (ChromaIndex(tmp_path / "chroma", embeddings=EMBEDDINGS) for _ in range(2))
    filled(one)
    assert two.count(NAME) == 60
    one.close()
    assert two.count(NAME) == 60
    two.close()


def test_an_index_of_the_same_process_leaves_alone_what_is_being_written(tmp_path):
    one, two = (ChromaIndex(tmp_path / "chroma", embeddings=EMBEDDINGS) for _ in range(2))
    filled(one)
    with one._writing(NAME):
        assert two.count(NAME) == 60
    one.close()
    two.close()


def test_a_collection_whose_writing_never_ended_is_deleted_by_who_comes_next(tmp_path, caplog):
    one = ChromaIndex(tmp_path / "chroma", embeddings=EMBEDDINGS)
    filled(one)
    one._folder.begin_writing(NAME)
    one.close()
    two = ChromaIndex(tmp_path / "chroma", embeddings=EMBEDDINGS)
    with pytest.raises(BrokenCollectionError, match="not there"):
        two.count(NAME)
    assert "left by a process that died" in caplog.text
    two.close()


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
    told = r"unsupported version of sqlite3.*tokenmem\[chroma\].*works without"
    with pytest.raises(RecallError, match=told):
        index.connect(NAME)
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (chromadb.errors.InternalError("hnsw"), BrokenCollectionError, "made anew"),
        (chromadb.errors.NotFoundError("gone"), BrokenCollectionError, "made anew"),
        (ConnectionError("refused"), RecallError, "cannot be used now"),
        (type("PanicException", (BaseException,), {})("rust"), BrokenCollectionError, "made anew"),
        (RecallError("ours"), RecallError, "^ours$"),
    ],
)
def test_what_chroma_says_is_said_in_our_words(fault, kind, said):
    def fails():
        raise fault

    with pytest.raises(kind, match=said):
        ask_place("Collection x", fails)


def test_an_interrupt_is_no_error_of_chroma():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask_place("Collection x", interrupted)
