"""Chroma for real: processes that are killed, a server, two processes on one folder, damage."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import recall_worker
from langchain_core.messages import HumanMessage
from processes import start

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings

LIVES = 101
"""The last one is not killed: it counts."""


@pytest.fixture(autouse=True)
def chromas_own_connections() -> Iterator[None]:
    """Collect the connections that Chroma's HTTP client leaves open when it is closed."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def worker(*arguments: object) -> subprocess.Popen[str]:
    return start(recall_worker.__file__, *arguments)


def test_a_hundred_kills_of_an_indexing_process_lose_no_message_and_no_vector(tmp_path):
    process = worker("kills", tmp_path, LIVES - 1, random.randrange(10**6))
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    said = [json.loads(line) for line in out.splitlines()]
    lives = [one for one in said if "life" in one]
    ends = [one for one in said if "home" in one]
    assert len(lives) == LIVES - 1

    # The kills have hit: something was acknowledged, and often a write was under way.
    assert sum(one["acknowledged"] for one in ends) > 100
    states = [one["state"] for one in lives if one["state"] is not None]
    assert len(states) > 50
    assert sum(state["broken"] for state in states) > 5

    for state in [*states, *ends]:
        assert state["owed"] == 0
        assert state["vectors"] == state["entries"]
        # Chroma's graph is approximate: an entry whose vector was written anew when its successor
        # came may be out of every question's reach. Small scopes are searched without it.
        assert state["found"] <= state["entries"]
    every = [*states, *ends]
    assert sum(s["found"] for s in every) >= 0.95 * sum(s["entries"] for s in every)
    for state in states:
        assert state["entries"] == state["ids"]
    assert [one["lost"] for one in ends] == [[]] * len(ends)
    for end in ends:
        assert end["entries"] >= end["acknowledged"]


def test_a_second_process_searches_by_words_until_the_first_has_ended(tmp_path, caplog):
    holder = worker("holds", tmp_path)
    try:
        assert holder.stdout.readline() == "held\n", holder.stderr.read()
        store, recall = recall_worker.opened(tmp_path)
        store.add("second", [HumanMessage("the price is 42 euros", id="m1")])
        assert [hit.message_id for hit in recall.search("price", session_id="second")] == ["m1"]
        with pytest.raises(RecallError, match=r"Another process.*chroma run --path"):
            recall.index()
        assert recall.backlog()["vectors"] == 1
    finally:
        holder.communicate(timeout=30)
    recall.index()
    assert recall.backlog()["vectors"] == 0
    state = recall_worker.state_of(store, recall)
    assert state["entries"] == state["found"] == 2
    recall.close()
    store.close()


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def chroma_server(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = Path(sys.executable).with_name("chroma")
    process = subprocess.Popen(
        [str(command), "run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "ANONYMIZED_TELEMETRY": "False"},
    )
    try:
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < end, "the server did not start"
                time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait(20)


def served(folder: Path, port: int) -> tuple[TranscriptStore, Recall]:
    return recall_worker.opened(folder, host="127.0.0.1", port=port)


def test_two_processes_share_a_chroma_server(tmp_path, port):
    with chroma_server(tmp_path / "server", port):
        home = tmp_path / "home"
        store, recall = served(home, port)
        store.add("s0", [HumanMessage("hello", id="h")])
        recall.index()
        writers = [worker("adds", home, port, name, 60) for name in ("a", "b")]
        for writer in writers:
            out, err = writer.communicate(timeout=120)
            assert writer.returncode == 0, err
            assert len(out.split()) == 60
        recall.index()
        state = recall_worker.state_of(store, recall)
        counts = {name: state[name] for name in ("vectors", "entries", "owed")}
        assert counts == {"vectors": 121, "entries": 121, "owed": 0}
        # As after the kills above: Chroma's graph may leave an entry out of reach.
        assert 0.95 * 121 <= state["found"] <= 121
        recall.close()
        store.close()


def test_a_server_that_stops_in_its_tracks_holds_nobody_up(tmp_path, port):
    with chroma_server(tmp_path / "server", port) as server:
        store = TranscriptStore(f"sqlite:///{tmp_path}/memory.db", shared=True)
        chroma = ChromaIndex(
            host="127.0.0.1", port=port, embeddings=HashingEmbeddings(16), timeout_s=2
        )
        recall = Recall(store, chroma=chroma)
        store.add("s", [recall_worker.sentence("first")])
        recall.index()
        server.send_signal(signal.SIGSTOP)
        store.add("s", [recall_worker.sentence("second")])
        with pytest.raises(RecallError, match=r"cannot be used now.*Timeout"):
            recall.index()
        assert recall.backlog()["vectors"] == 1
        server.send_signal(signal.SIGCONT)
        recall.index()
        assert recall_worker.state_of(store, recall)["found"] == 2
        recall.close()
        store.close()
