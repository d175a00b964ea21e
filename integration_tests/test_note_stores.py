"""Stores for notes with several processes, with killed ones, and on both databases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from item_worker import NAMESPACE, start, value_of
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.core.thread_names import notes_of_session, notes_of_user
from langchain_tokenmem.notes import JsonStore, SqlStore

WRITERS, EACH = 8, 200


def names_in(store: JsonStore | SqlStore) -> list[str]:
    """Return the keys of all items, each of which must be whole."""
    items = store.search((), limit=1_000_000)
    assert [item.value for item in items] == [value_of(item.key) for item in items]
    return sorted(item.key for item in items)


def write_with_eight(place: str) -> None:
    workers = [start("puts", place, f"w{number}", EACH) for number in range(WRITERS)]
    for worker in workers:
        out, err = worker.communicate(timeout=300)
        assert worker.returncode == 0, err
        assert err == ""
        assert len(out.split()) == EACH


EXPECTED = sorted(f"w{writer}-{number}" for writer in range(WRITERS) for number in range(EACH))


def test_eight_processes_put_200_notes_each_into_one_json_folder(tmp_path):
    write_with_eight(str(tmp_path / "notes"))
    assert names_in(JsonStore(tmp_path / "notes")) == EXPECTED
    (file,) = (tmp_path / "notes").glob("*.json")
    assert len(json.loads(file.read_bytes())["items"]) == WRITERS * EACH
    assert [one.name for one in (tmp_path / "notes").iterdir() if one != file] == [".lock"]


def test_eight_processes_put_200_notes_each_into_one_database(url):
    with TranscriptStore(url) as transcripts:
        transcripts.count("s")  # makes the tables
    write_with_eight(url)
    with TranscriptStore(url) as transcripts:
        assert names_in(SqlStore(transcripts)) == EXPECTED


def test_100_kills_during_writes_leave_no_half_file_and_lose_nothing_that_was_flushed(tmp_path):
    folder = tmp_path / "notes"
    worker = start("kills", str(folder), "19", 100)
    out, err = worker.communicate(timeout=300)
    assert worker.returncode == 0, err
    acknowledged, unfinished = map(int, out.split())
    assert acknowledged >= 100
    assert unfinished > 0  # so that killed writers did leave unfinished files
    with JsonStore(folder) as store:
        store.put(NAMESPACE, "w-0", value_of("w-0"))
    assert [*folder.glob(".*.tmp")] == []
    assert len(names_in(JsonStore(folder))) > acknowledged
    print(f"\n100 kills, {acknowledged} notes written, {unfinished} unfinished files seen, 0 lost")


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


FORK = """
import os, sys
from langchain_tokenmem.notes import JsonStore
store = JsonStore(sys.argv[1], debounce_s=60, max_delay_s=60)
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
    run(FORK, tmp_path)
    items = JsonStore(tmp_path).search(("a",))
    assert {item.key: item.value["x"] for item in items} == {"child": 2, "parent": 3}


FORGOTTEN = """
import sys
from langchain_tokenmem.notes import JsonStore
JsonStore(sys.argv[1], debounce_s=0.05).put(("a",), "dropped", {"x": 1})
import gc, time
gc.collect()
time.sleep(0.5)
kept = JsonStore(sys.argv[1], debounce_s=60, max_delay_s=60)
kept.put(("a",), "at-exit", {"x": 1})
"""


def test_what_is_left_is_written_at_exit_and_when_a_store_was_dropped(tmp_path):
    run(FORGOTTEN, tmp_path)
    assert [item.key for item in JsonStore(tmp_path).search(())] == ["at-exit", "dropped"]


def test_erase_of_a_user_and_a_session_on_both_databases(url):
    with TranscriptStore(url) as transcripts:
        store = SqlStore(transcripts)
        transcripts.add("s", [HumanMessage("hi")], user_id="ann")
        kept = [(*notes_of_user("bob"), "global"), ("users", "ann")]
        own = [(*notes_of_user("ann"), "global"), notes_of_session("ann", "t")]
        for namespace in [*kept, *own, notes_of_session(None, "s")]:
            store.put(namespace, "k", {"x": "ü\u0000"})
        assert transcripts.erase("s", "ann")["items"] == 1
        assert transcripts.erase(user_id="ann")["items"] == 2
        assert sorted(item.namespace for item in store.search(())) == kept
        assert store.erase(()) == {"items": 2}


@pytest.mark.parametrize("order", [1, -1])
def test_labels_are_compared_byte_by_byte_whatever_language_the_server_speaks(url, order):
    namespaces = [("a",), ("a", "b"), ("a-b",), ("a b",), ("A", "b"), ("ab",), ("a_", "b")]
    with TranscriptStore(url) as transcripts:
        store = SqlStore(transcripts)
        for namespace in namespaces[::order]:
            store.put(namespace, "k", {"x": 1})
        assert sorted(item.namespace for item in store.search(("a",))) == [("a",), ("a", "b")]
        assert store.list_namespaces() == sorted(namespaces)
