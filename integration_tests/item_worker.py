"""Processes that keep notes: tests start several, and kill some.

Run: python item_worker.py notes PLACE WRITER COUNT, where PLACE is a database URL or a folder, adds
COUNT notes by a notebook, and some that every writer adds. python item_worker.py kills FOLDER SEED
COUNT forks each writer that it kills: a new interpreter for each would spend minutes on imports.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from itertools import count
from pathlib import Path

from langchain_tokenmem import Notebook, TranscriptStore
from langchain_tokenmem.notes import JsonStore, SqlStore

OWNER = {"user_id": "ann", "session_id": "s1"}
SHARED = 20
"""Notes that every writer adds."""

NAMESPACE = ("tokenmem", "notes", "=ann", "project", "=app")


def value_of(name: str) -> dict[str, object]:
    """Return the value of an item; everything follows from its name."""
    return {"content": f"{name} " + "x" * (sum(name.encode()) * 7 % 300), "tags": [name]}


def open_store(place: str) -> JsonStore | SqlStore:
    """Return the store of a place."""
    return SqlStore(TranscriptStore(place, shared=True)) if "://" in place else JsonStore(place)


def main() -> None:
    kind, place, writer, number = sys.argv[1:]
    if kind == "kills":
        kill_writers(Path(place), random.Random(writer), int(number))
        return
    notebook = Notebook(open_store(place), project="shop", limit=10_000)
    for each in range(int(number)):
        notebook.add(f"Writer {writer} wrote note {each}.", **OWNER)
        print(f"Writer {writer} wrote note {each}.")
        if each < SHARED:
            notebook.add(f"Everybody wrote note {each}.", **OWNER)
            print(f"Everybody wrote note {each}.")
    # Without close(): what is left is written at the end of the process.


def kill_writers(folder: Path, chosen: random.Random, kills: int) -> None:
    """Kill writers at random moments, and read back after each what it had acknowledged."""
    acknowledged: list[str] = []
    unfinished = 0
    for round_ in range(kills):
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            put_for_ever(folder, f"w{round_}", writes)
        os.close(writes)
        with os.fdopen(reads) as pipe:
            first = pipe.readline().strip()
            time.sleep(chosen.uniform(0, 0.02))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            acknowledged += [first, *pipe.read().split("\n")[:-1]]
        unfinished += len([*folder.glob(".*.tmp")])
        items = JsonStore(folder).search((), limit=1_000_000)
        assert [item.value for item in items] == [value_of(item.key) for item in items]
        stored = [item.key for item in items]
        assert set(acknowledged) <= set(stored), "lost"
        assert len(stored) == len(set(stored)), "doubled"
        # Written and not acknowledged: at most the last one of each process.
        assert len(stored) <= len(acknowledged) + round_ + 1
        assert [*folder.glob("*.damaged-*")] == [], "half a file"
    print(len(acknowledged), unfinished)


def put_for_ever(folder: Path, writer: str, pipe: int) -> None:
    """Put items, and say of each when it is written."""
    store = JsonStore(folder, debounce_s=60, max_delay_s=60)
    for each in count():
        store.put(NAMESPACE, f"{writer}-{each}", value_of(f"{writer}-{each}"))
        store.flush()
        os.write(pipe, f"{writer}-{each}\n".encode())


if __name__ == "__main__":
    main()
