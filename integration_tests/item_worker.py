"""A process that puts items into a store; tests start several, and kill some.

Run: python item_worker.py puts|forever PLACE WRITER COUNT. PLACE is a database URL or a folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import langchain_tokenmem
from langchain_tokenmem import JsonStore, SqlStore, TranscriptStore

NAMESPACE = ("tokenmem", "notes", "=ann", "project", "=app")


def value_of(name: str) -> dict[str, object]:
    """Return the value of an item; everything follows from its name."""
    return {"content": f"{name} " + "x" * (sum(name.encode()) * 7 % 300), "tags": [name]}


def open_store(place: str) -> JsonStore | SqlStore:
    """Return the store of a place."""
    return SqlStore(TranscriptStore(place)) if "://" in place else JsonStore(place)


def start(kind: str, place: str, writer: str, number: int) -> subprocess.Popen[str]:
    """Start a writer on the package that this process uses."""
    package = Path(langchain_tokenmem.__file__).parents[1]
    return subprocess.Popen(
        [sys.executable, __file__, kind, place, writer, str(number)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(package)},
    )


def main() -> None:
    kind, place, writer, number = sys.argv[1:]
    if kind == "puts":
        store = open_store(place)
        for each in range(int(number)):
            store.put(NAMESPACE, f"{writer}-{each}", value_of(f"{writer}-{each}"))
            print(f"{writer}-{each}", flush=True)
        return  # without close(): what is left is written at the end of the process
    store = JsonStore(place, debounce_s=0, max_delay_s=0)
    for each in count():
        store.put(NAMESPACE, f"{writer}-{each}", value_of(f"{writer}-{each}"))
        store.flush()
        print(f"{writer}-{each}", flush=True)


if __name__ == "__main__":
    main()
