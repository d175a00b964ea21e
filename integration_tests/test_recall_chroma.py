"""Chroma for real: processes that are killed, a server, two processes on one folder, damage."""

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
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from processes import Fork, finished, start

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.core.search_units import Scope
from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings

LIVES = 30
DIM = 16
PER_STORE = 10
"""Lives until a new store is begun: a rebuild must stay short."""


def opened(folder: Path, **where: Any) -> tuple[TranscriptStore, Recall]:
    folder.mkdir(exist_ok=True)
    store = TranscriptStore(f"sqlite:///{folder}/memory.db", shared=True)
    place = where or {"path": folder / "chroma"}
    chroma = ChromaIndex(embeddings=HashingEmbeddings(DIM), **place)
    return store, Recall(store, chroma=chroma)


def sentence(name: str) -> HumanMessage:
    return HumanMessage(f"message {name} speaks of thing {sum(map(ord, name)) % 97}", id=name)


def state_of(store: TranscriptStore, recall: Recall) -> tuple[set[str | None], dict[str, Any]]:
    """Return the ids of all messages; how many store and Chroma have, and Chroma finds of all."""
    dense: Any = recall._dense
    active = dense._filler.collection()
    collection, _ = dense._place._opened(active.name)
    with store.index.reading_vectors() as reader:
        vectors = reader.count_vectors(active.key)
    ids = {message.id for name in store.sessions() for message in store.messages(name)}
    found: set[int] = set()
    question = dense.question("thing")
    for name in store.sessions():
        with store.index.reading(Scope(name)) as reader:
            found |= {*dense._place.propose(active.name, question, reader.partitions, 10_000)}
    return ids, {
        "ids": len(ids),
        "vectors": vectors,
        "entries": collection.count(),
        "found": len(found),
        "owed": recall.backlog()["vectors"],
    }


def live(home: Path, life: int) -> None:
    """Open and repair the folder, print its entries, and write until the process is killed."""
    print("begun", flush=True)
    collections = [one for one in home.glob("chroma/tokenmem/*") if one.is_dir()]
    broken = any(not one.with_name(f"{one.name}.sizes").exists() for one in collections)
    store, recall = opened(home)
    recall.index()
    print(json.dumps(state_of(store, recall)[1] | {"broken": broken}), flush=True)
    number, chance = 0, random.Random(life)
    with (home / "acknowledged").open("a") as acknowledged:
        while True:
            names = [f"{life}-{number + n}" for n in range(chance.choice([1, 2, 10, 60]))]
            store.add(f"s{number % 3}", [sentence(name) for name in names])
            acknowledged.write("".join(f"{name}\n" for name in names))
            acknowledged.flush()
            number += len(names)
            recall._dense._worker.wait(5)  # type: ignore[union-attr]


def killed_life(home: Path, life: int, chance: random.Random) -> dict[str, Any] | None:
    """Return what a life has found. One in five ends while it heals, the others while writing."""
    process = Fork(live, home, life)
    heard = [process.stdout.readline() for _ in range(1 if chance.random() < 0.2 else 2)]
    time.sleep(chance.random() * 0.25)
    _begun, *states = process.killed(*heard)
    return json.loads(states[0]) if states else None


def holds(folder: str) -> None:
    """Keep the embedded Chroma open until standard input ends."""
    store, recall = opened(Path(folder))
    store.add("first", [sentence("held")])
    recall.index()
    print("held", flush=True)
    sys.stdin.read()


def adds(folder: Path, port: int, name: str, count: int) -> None:
    """Write through a server."""
    store, recall = opened(folder, host="127.0.0.1", port=port)
    for number in range(count):
        store.add(f"s-{name}", [sentence(f"{name}-{number}")])
        print(f"{name}-{number}", flush=True)
    recall.index()


@pytest.fixture(autouse=True)
def chromas_own_connections() -> Iterator[None]:
    """Collect the connections that Chroma's HTTP client leaves open when it is closed."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def test_kills_of_an_indexing_process_lose_no_message_and_no_vector(tmp_path):
    chance = random.Random()
    homes = [tmp_path / str(number) for number in range(LIVES // PER_STORE)]
    for home in homes:
        home.mkdir()
    lives = [killed_life(homes[n // PER_STORE], n, chance) for n in range(LIVES)]
    states = [state for state in lives if state is not None]
    # The kills have hit: something was acknowledged, and often a write was under way.
    assert len(states) > LIVES // 2
    assert sum(state["broken"] for state in states) > 0
    ends = []
    for home in homes:
        store, recall = opened(home)
        recall.index()
        ids, end = state_of(store, recall)
        acknowledged = (home / "acknowledged").read_text().split()
        assert set(acknowledged) <= ids, "lost"
        ends.append(end | {"acknowledged": len(acknowledged)})
        recall.close()
        store.close()
    assert sum(one["acknowledged"] for one in ends) > LIVES
    every = [*states, *ends]
    for state in every:
        assert state["owed"] == 0
        assert state["vectors"] == state["entries"] == state["ids"]
        assert state["found"] <= state["entries"]
    # Chroma's graph is approximate: an entry may be out of reach after its vector was replaced.
    # Small scopes are searched without it.
    assert sum(s["found"] for s in every) >= 0.95 * sum(s["entries"] for s in every)


def test_a_second_process_searches_by_words_until_the_first_has_ended(tmp_path, caplog):
    holder = start(holds, str(tmp_path))
    try:
        assert holder.stdout.readline() == "held\n", holder.stderr.read()
        store, recall = opened(tmp_path)
        store.add("second", [HumanMessage("the price is 42 euros", id="m1")])
        assert [hit.message_id for hit in recall.search("price", session_id="second")] == ["m1"]
        with pytest.raises(RecallError, match=r"Another process.*chroma run --path"):
            recall.index()
        assert recall.backlog()["vectors"] == 1
    finally:
        holder.communicate(timeout=30)
    recall.index()
    assert recall.backlog()["vectors"] == 0
    _, state = state_of(store, recall)
    assert state["entries"] == state["found"] == 2
    recall.close()
    store.close()


@contextmanager
def chroma_server(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = [Path(sys.executable).with_name("chroma"), "run", "--path", folder]
    process = subprocess.Popen(
        [*map(str, command), "--host", "127.0.0.1", "--port", str(port)],
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
        yield process, port
    finally:
        process.kill()
        process.wait(20)


def test_two_processes_share_a_chroma_server_and_none_waits_when_it_stops(tmp_path):
    with chroma_server(tmp_path / "server") as (server, port):
        home = tmp_path / "home"
        store, recall = opened(home, host="127.0.0.1", port=port, timeout_s=2)
        store.add("s0", [HumanMessage("hello", id="h")])
        recall.index()
        said = finished([Fork(adds, home, port, name, 30) for name in ("a", "b")])
        assert [len(one) for one in said] == [30, 30]
        recall.index()
        _, state = state_of(store, recall)
        counts = {name: state[name] for name in ("vectors", "entries", "owed")}
        assert counts == {"vectors": 61, "entries": 61, "owed": 0}
        # As after the kills above: Chroma's graph may leave an entry out of reach.
        assert 0.95 * 61 <= state["found"] <= 61

        server.send_signal(signal.SIGSTOP)
        store.add("s0", [sentence("second")])
        with pytest.raises(RecallError, match=r"cannot be used now.*Timeout"):
            recall.index()
        assert recall.backlog()["vectors"] == 1
        server.send_signal(signal.SIGCONT)
        recall.index()
        assert state_of(store, recall)[1]["entries"] == 62
        recall.close()
        store.close()
