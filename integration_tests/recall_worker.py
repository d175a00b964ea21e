"""Processes that index and die: the sandbox of test_recall_chroma.py.

Run: python recall_worker.py kills FOLDER ROUNDS SEED     100 lives of an indexer, all but cut short
     python recall_worker.py holds FOLDER                 one that keeps the embedded Chroma open
     python recall_worker.py adds FOLDER PORT NAME COUNT  one that writes through a server

`kills` imports everything once and forks each life, so that a life takes a fraction of a second.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

import chromadb  # noqa: F401  imported once, before the forks
from langchain_core.messages import HumanMessage

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.core.search_units import Scope
from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings

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


def state_of(store: TranscriptStore, recall: Recall) -> dict[str, Any]:
    """Return what store and Chroma have, and what Chroma finds when it is asked for everything."""
    dense: Any = recall._dense
    active = dense._filler.collection()
    collection, _ = dense._place._opened(active.name)
    with store.index.reading_vectors() as reader:
        vectors = reader.count_vectors(active.key)
    ids = [message.id for name in store.sessions() for message in store.messages(name)]
    found: set[int] = set()
    question = dense.question("thing")
    for name in store.sessions():
        with store.index.reading(Scope(name)) as reader:
            found |= {*dense._place.propose(active.name, question, reader.partitions, 10_000)}
    return {
        "ids": ids,
        "vectors": vectors,
        "entries": collection.count(),
        "found": len(found),
        "owed": recall.backlog()["vectors"],
    }


def live(folder: Path, life: int, out: int) -> None:
    """Open, heal, say what is there, and write until somebody kills us."""
    collections = [one for one in folder.glob("chroma/tokenmem/*") if one.is_dir()]
    broken = any(not one.with_name(f"{one.name}.sizes").exists() for one in collections)
    store, recall = opened(folder)
    recall.index()
    os.write(out, (json.dumps(state_of(store, recall) | {"broken": broken}) + "\n").encode())
    number, chance = 0, random.Random(life)
    with (folder / "acknowledged").open("a") as acknowledged:
        while True:
            names = [f"{life}-{number + n}" for n in range(chance.choice([1, 2, 10, 60]))]
            store.add(f"s{number % 3}", [sentence(name) for name in names])
            acknowledged.write("".join(f"{name}\n" for name in names))
            acknowledged.flush()
            number += len(names)
            recall._dense._worker.wait(5)  # type: ignore[union-attr]


def kills(folder: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    for life in range(rounds):
        home = folder / str(life // PER_STORE)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            live(home, life, write)
        os.close(write)
        # One life in five ends while it opens and heals, the others while they write.
        is_early = chance.random() < 0.2
        first_words = b""
        if is_early:
            time.sleep(chance.random() * 0.25)
        else:
            ready, _, _ = select.select([read], [], [], 60)
            first_words = os.read(read, 1_000_000) if ready else b""
            time.sleep(chance.random() * 0.25)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        first_words += _rest(read)
        os.close(read)
        acknowledged = (
            (home / "acknowledged").read_text() if (home / "acknowledged").exists() else ""
        )
        said = json.loads(first_words) if first_words.endswith(b"\n") else None
        if said is not None:
            said["ids"] = len(said["ids"])
        told = {"life": life, "early": is_early, "acknowledged": len(acknowledged.split())}
        print(json.dumps(told | {"state": said}), flush=True)
    for home in sorted(folder.iterdir()):
        store, recall = opened(home)
        recall.index()
        state = state_of(store, recall)
        acknowledged = (home / "acknowledged").read_text().split()
        state["lost"] = sorted(set(acknowledged) - set(state.pop("ids")))
        print(
            json.dumps({"home": home.name, "acknowledged": len(acknowledged), **state}), flush=True
        )
        recall.close()
        store.close()


def _rest(pipe: int) -> bytes:
    found = b""
    while piece := os.read(pipe, 1_000_000):
        found += piece
    return found


def holds(folder: Path) -> None:
    store, recall = opened(folder)
    store.add("first", [sentence("held")])
    recall.index()
    print("held", flush=True)
    sys.stdin.read()


def adds(folder: Path, port: int, name: str, count: int) -> None:
    store, recall = opened(folder, host="127.0.0.1", port=port)
    for number in range(count):
        store.add(f"s-{name}", [sentence(f"{name}-{number}")])
        print(f"{name}-{number}", flush=True)
    recall.index()


if __name__ == "__main__":
    kind, where, *rest = sys.argv[1:]
    if kind == "kills":
        kills(Path(where), int(rest[0]), int(rest[1]))
    elif kind == "holds":
        holds(Path(where))
    else:
        adds(Path(where), int(rest[0]), rest[1], int(rest[2]))
