"""Stores for notes with several processes, with killed ones, and on both databases."""

import os
import random
import time
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from processes import Fork, finished, start

from langchain_tokenmem import Notebook, TranscriptStore
from langchain_tokenmem.notes import JsonStore, SqlStore
from tests.fakes import printed_by

WRITERS, EACH = 4, 40
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


def put_for_ever(folder: Path, writer: str) -> None:
    """Put items, and print each when it is written."""
    store = JsonStore(folder, debounce_s=60, max_delay_s=60)
    for each in count():
        store.put(NAMESPACE, f"{writer}-{each}", value_of(f"{writer}-{each}"))
        store.flush()
        print(f"{writer}-{each}", flush=True)


@pytest.fixture(params=["json", "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A JSON folder, or an empty database of either kind."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres"))
    return str(tmp_path / "notes") if request.param == "json" else f"sqlite:///{tmp_path}/memory.db"


def test_processes_add_notes_at_once_and_identical_ones_once(place):
    begin = Fork if "://" in place else start  # what is left for the end needs an end as any other
    workers = [begin(add_notes, place, str(number), EACH) for number in range(WRITERS)]
    said = {line for lines in finished(workers) for line in lines}
    assert len(said) == WRITERS * EACH + SHARED
    items = open_store(place)
    notebook = Notebook(items, project="shop", limit=10_000)
    notes = notebook.list(**OWNER)
    assert Counter(note.content for note in notes) == Counter(said)  # none lost, none doubled
    assert len({note.id for note in notes}) == len(notes)
    assert notebook.erase(user_id="ann") == len(said)
    (items.store if isinstance(items, SqlStore) else items).close()


def test_30_kills_during_writes_leave_no_half_file_and_lose_nothing_that_was_flushed(tmp_path):
    folder = tmp_path / "notes"
    chosen = random.Random(19)
    acknowledged: list[str] = []
    for round_ in range(30):
        worker = Fork(put_for_ever, folder, f"w{round_}")
        first = worker.stdout.readline()
        time.sleep(chosen.uniform(0, 0.02))
        acknowledged += worker.killed(first)
        items = JsonStore(folder).search((), limit=1_000_000)
        assert [item.value for item in items] == [value_of(item.key) for item in items]
        stored = [item.key for item in items]
        assert set(acknowledged) <= set(stored), "lost"
        assert len(stored) == len(set(stored)), "doubled"
        # Written and not acknowledged: at most the last one of each process.
        assert len(stored) <= len(acknowledged) + round_ + 1
        assert [*folder.glob("*.damaged-*")] == [], "half a file"
    assert len(acknowledged) >= 30
    with JsonStore(folder) as store:
        store.put(NAMESPACE, "w-0", value_of("w-0"))
    assert [*folder.glob(".*.tmp")] == []
    assert len(JsonStore(folder).search((), limit=1_000_000)) > len(acknowledged)


FORK = """
import os, sys
from langchain_tokenmem.notes import JsonStore
store = JsonStore(os.environ["FOLDER"], debounce_s=60, max_delay_s=60)
store.put(("a",), "parent", {"x": 1})
if os.fork() == 0:
    assert store.get(("a",), "parent") is None  # the parent's to write
    store.put(("a",), "child", {"x": 2})
    sys.exit()
os.wait()
store.put(("a",), "parent", {"x": 3})
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_parent_and_child_of_a_fork_write_what_each_has_put(tmp_path):
    printed_by(FORK, FOLDER=str(tmp_path))
    items = JsonStore(tmp_path).search(("a",))
    assert {item.key: item.value["x"] for item in items} == {"child": 2, "parent": 3}


FORGOTTEN = """
import gc, os, time
from langchain_tokenmem.notes import JsonStore
JsonStore(os.environ["FOLDER"], debounce_s=0.05).put(("a",), "dropped", {"x": 1})
gc.collect()
time.sleep(0.5)
kept = JsonStore(os.environ["FOLDER"], debounce_s=60, max_delay_s=60)
kept.put(("a",), "at-exit", {"x": 1})
"""


def test_what_is_left_is_written_at_exit_and_when_a_store_was_dropped(tmp_path):
    printed_by(FORGOTTEN, FOLDER=str(tmp_path))
    assert [item.key for item in JsonStore(tmp_path).search(())] == ["at-exit", "dropped"]


def test_labels_are_compared_byte_by_byte_whatever_language_the_server_speaks(url):
    namespaces = [("a",), ("a", "b"), ("a-b",), ("a b",), ("A", "b"), ("ab",), ("a_", "b")]
    with TranscriptStore(url, shared=True) as transcripts:
        store = SqlStore(transcripts)
        for namespace in namespaces[::-1]:
            store.put(namespace, "k", {"x": 1})
        assert sorted(item.namespace for item in store.search(("a",))) == [("a",), ("a", "b")]
        assert store.list_namespaces() == sorted(namespaces)
