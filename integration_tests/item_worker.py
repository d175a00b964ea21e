"""A process that keeps notes: tests start several, and kill some.

Run: python item_worker.py PLACE WRITER [COUNT], where PLACE is a database URL or a folder. It adds
COUNT notes; without a number it puts items until it is killed.
"""

from __future__ import annotations

import sys
from itertools import count

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


def add_notes(place: str, writer: str, number: int) -> None:
    """Add notes by a notebook, and some that every writer adds."""
    notebook = Notebook(open_store(place), project="shop", limit=10_000)
    for each in range(number):
        notebook.add(f"Writer {writer} wrote note {each}.", **OWNER)
        print(f"Writer {writer} wrote note {each}.")
        if each < SHARED:
            notebook.add(f"Everybody wrote note {each}.", **OWNER)
            print(f"Everybody wrote note {each}.")
    # Without close(): what is left is written at the end of the process.


def put_for_ever(folder: str, writer: str) -> None:
    """Put items, and print each when it is written."""
    store = JsonStore(folder, debounce_s=60, max_delay_s=60)
    for each in count():
        store.put(NAMESPACE, f"{writer}-{each}", value_of(f"{writer}-{each}"))
        store.flush()
        print(f"{writer}-{each}", flush=True)


if __name__ == "__main__":
    place, writer, *number = sys.argv[1:]
    if number:
        add_notes(place, writer, int(number[0]))
    else:
        put_for_ever(place, writer)
