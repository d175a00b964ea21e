"""JSON files of items: readable, written seldom and whole, merged, and never lost to damage."""

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from langchain_tokenmem.core.thread_names import notes_of_user
from langchain_tokenmem.errors import StoreError
from langchain_tokenmem.notes import JsonStore
from langchain_tokenmem.notes.json_folder import JsonFolder

ANN = notes_of_user("ann")
GLOBAL = (*ANN, "global")
PROJECT = (*ANN, "project", "=app")
OTHER_PROJECT = (*ANN, "project", "=lib")
BOB = (*notes_of_user("bob"), "global")


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "notes"


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def parsed(folder: Path) -> dict[tuple[str, ...], list[dict[str, object]]]:
    found = [json.loads(file.read_bytes()) for file in files(folder)]
    return {tuple(one["namespace"]): one["items"] for one in found}


def written(folder: Path, *namespaces: tuple[str, ...]) -> list[Path]:
    """Put an item into each namespace, and return the files."""
    with JsonStore(folder) as store:
        for namespace in namespaces:
            store.put(namespace, "k", {"content": "one"})
    return files(folder)


@pytest.fixture
def writes(monkeypatch) -> list[Path]:
    """Return the files that were written, in order."""
    made: list[Path] = []
    write = JsonFolder._write

    def count(self, file, items):
        made.append(file)
        write(self, file, items)

    monkeypatch.setattr(JsonFolder, "_write", count)
    return made


def test_there_is_one_file_for_each_project_and_one_for_the_global_notes_of_a_user(folder):
    places = {GLOBAL, PROJECT, OTHER_PROJECT, BOB}
    named = [file.name for file in written(folder, *places)]
    assert parsed(folder).keys() == places
    assert not any("ann" in name or "app" in name for name in named)
    with JsonStore(folder) as store:
        store.delete(BOB, "k")
    assert parsed(folder).keys() == places - {BOB}


def test_a_file_is_readable_and_fit_for_git(folder):
    with JsonStore(folder) as store:
        store.put(PROJECT, "mem_2", {"content": "Grüße, use tabs.", "label": "app"})
        store.put(PROJECT, "mem_1", {"content": "\ud800"})
    (file,) = files(folder)
    text = file.read_text(encoding="utf-8")
    assert '        "content": "Grüße, use tabs.",\n' in text
    lines = text.splitlines()
    with JsonStore(folder) as store:
        store.put(PROJECT, "mem_1b", {"content": "another"})
    after = file.read_text(encoding="utf-8").splitlines()
    assert len(after) == len(lines) + 8  # one more block, and no other line
    assert [line for line in lines if line not in after] == []


@pytest.mark.parametrize(
    "value", [["\ud800", "\0\u2028\x7f", [], {}, ""], [2**64, -(2**70), 1e16, 1e-300, -0.0]]
)
def test_a_value_is_read_as_it_was_put_and_the_file_is_what_json_writes(folder, value):
    below = (*PROJECT, "deep", "er")
    with JsonStore(folder) as store:
        store.put(below, "k", {"x": value})
    content = files(folder)[0].read_text(encoding="utf-8")
    again = json.dumps(json.loads(content), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert again.encode("utf-8", "backslashreplace").decode() == content
    assert repr(JsonStore(folder).get(below, "k").value) == repr({"x": value})


def test_100_quick_puts_are_at_most_2_writes(folder, writes):
    store = JsonStore(folder, debounce_s=60, max_delay_s=60)
    for number in range(100):
        store.put(PROJECT, f"k{number}", {"n": number})
    assert len(store.search(PROJECT, limit=200)) == 100  # before they are written
    store.close()
    assert 1 <= len(writes) <= 2
    assert len(parsed(folder)[PROJECT]) == 100


def test_puts_without_a_pause_are_written_after_max_delay(folder, writes):
    store = JsonStore(folder, debounce_s=60, max_delay_s=0.1)
    begun = time.monotonic()
    while not writes and time.monotonic() < begun + 30:
        store.put(PROJECT, "k", {"n": 1})
        time.sleep(0.01)
    assert writes
    assert time.monotonic() - begun >= 0.1
    store.close()


def test_what_is_put_during_a_write_is_written_too(folder, monkeypatch):
    store, merge, late = JsonStore(folder, debounce_s=60), JsonFolder.merge, []

    def and_another_puts(self, changes):
        merge(self, changes)
        if not late:
            late.append(store.put(PROJECT, "k", {"n": 2}))
            store.put(PROJECT, "late", {"n": 3})

    monkeypatch.setattr(JsonFolder, "merge", and_another_puts)
    store.put(PROJECT, "k", {"n": 1})
    store.flush()
    store.close()
    assert [item["value"] for item in parsed(folder)[PROJECT]] == [{"n": 2}, {"n": 3}]


def test_threads_that_put_and_read_lose_nothing(folder):
    def put(name):
        for number in range(20):
            store.put(PROJECT, f"{name}{number}", {"n": number})
            assert store.get(PROJECT, f"{name}{number}").value == {"n": number}

    with JsonStore(folder, debounce_s=0) as store, ThreadPoolExecutor(4) as pool:
        list(pool.map(put, "abcd"))
    assert len(parsed(folder)[PROJECT]) == 80


def test_a_write_that_fails_half_way_leaves_the_file_as_it_was(folder, monkeypatch, caplog):
    store = JsonStore(folder, debounce_s=60)
    store.put(PROJECT, "k", {"x": 1})
    store.flush()
    before = files(folder)[0].read_bytes()

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr("langchain_tokenmem.notes.json_folder.os.fsync", fail)
        store.put(PROJECT, "k", {"x": 2})
        with pytest.raises(StoreError, match="disk full"):
            store.flush()
        store._flush_or_log()
    assert "disk full" in caplog.text
    assert files(folder)[0].read_bytes() == before
    assert len([*folder.glob(".*.tmp")]) == 1  # each write deletes what was left before
    assert store.get(PROJECT, "k").value == {"x": 2}  # it is kept
    store.close()
    assert parsed(folder)[PROJECT][0]["value"] == {"x": 2}
    assert [*folder.glob(".*.tmp")] == []


HEAD = b'{"format": "tokenmem-items", "version": 1, "namespace": ["a"], "items": ['
ITEM = b'{"key": "k", "value": %s, "created_at": "2026-01-31T12:00:00%s"%s}]}'
DAMAGED = [
    b"",  # another file's content
    *(b"{", b'{"format": "tokenmem-items"', b"\xff\xfe", b"[" * 100_000, HEAD + b"]}"),
    *(HEAD + b'{"key": 1}]}', HEAD + ITEM % (b"{}", b"", b', "updated_at": "now"')),
    HEAD + ITEM % (b'"text"', b"+00:00", b""),
]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_is_set_aside_and_said_and_never_overwritten(folder, content, caplog):
    written(folder, PROJECT, GLOBAL)
    file = JsonFolder(folder).file_of(PROJECT)
    file.write_bytes(content or JsonFolder(folder).file_of(GLOBAL).read_bytes())
    damaged = file.read_bytes()
    with caplog.at_level(logging.ERROR), JsonStore(folder) as store:
        if len(content) % 2:
            assert store.search(PROJECT) == []
        store.put(PROJECT, "new", {"x": 2})
    (aside,) = folder.glob("*.damaged-*")
    assert aside.read_bytes() == damaged
    assert aside.name.startswith(f"{file.name}.damaged-2")
    assert str(aside) in caplog.text
    assert [item["key"] for item in parsed(folder)[PROJECT]] == ["new"]
    assert len(parsed(folder)[GLOBAL]) == 1


def test_a_file_of_a_newer_version_is_an_error_and_stays(folder):
    (file,) = written(folder, PROJECT)
    newer = file.read_text(encoding="utf-8").replace('"version": 1', '"version": 2')
    file.write_text(newer, encoding="utf-8")
    store = JsonStore(folder, debounce_s=60)
    store.put(PROJECT, "k", {"x": 2})
    for use in (lambda: store.get(PROJECT, "l"), lambda: store.search(PROJECT), store.flush):
        with pytest.raises(StoreError, match="Upgrade"):
            use()
    assert file.read_text(encoding="utf-8") == newer
    store._pending.clear()


def test_of_two_blocks_of_one_item_as_git_merges_them_the_newer_counts(folder):
    (file,) = written(folder, PROJECT)
    content = json.loads(file.read_bytes())
    newer = {**content["items"][0], "value": {"x": 2}, "updated_at": "2999-01-01T00:00:00+00:00"}
    content["items"].insert(0, newer)
    file.write_text(json.dumps(content), encoding="utf-8")
    assert [item.value for item in JsonStore(folder).search(PROJECT)] == [{"x": 2}]


@pytest.mark.parametrize(
    ("prefix", "items", "left"), [(ANN, 3, {BOB}), (PROJECT, 2, {BOB, GLOBAL})]
)
def test_erase_reaches_files_and_what_is_not_written_yet(folder, prefix, items, left):
    with JsonStore(folder, debounce_s=60) as store:
        for namespace in (GLOBAL, PROJECT, BOB):
            store.put(namespace, "k", {"content": "CANARY" if namespace == PROJECT else "kept"})
        store.flush()
        store.put(PROJECT, "late", {"content": "CANARY"})
        assert store.erase(prefix)["items"] == items
        assert store.search(prefix) == []
        assert set(store.erase(prefix).values()) == {0}
    assert set(parsed(folder)) == left
    assert b"CANARY" not in b"".join(file.read_bytes() for file in folder.iterdir())


def damage(folder: Path, *namespaces: tuple[str, ...]) -> None:
    for file in written(folder, *namespaces):
        file.write_bytes(b"CANARY")
    assert JsonStore(folder).search(()) == []


def test_erase_reaches_damaged_files_of_an_owner_and_what_a_killed_process_left(folder, caplog):
    """Erasing also names the damaged files of which it cannot tell to whom they belong."""
    damage(folder, GLOBAL, PROJECT, BOB)
    with JsonStore(folder) as store:
        found = store.erase((*ANN, "project"))
        assert (found["damaged_files"], found["damaged_files_left"]) == (0, 2)
        assert caplog.text.count("may contain items") == 2
        assert store.erase(PROJECT)["damaged_files"] == 1
        store.put(PROJECT, "k", {"content": "new"})
        store.flush()
        (folder / f".{files(folder)[0].name}.1.tmp").write_bytes(b"CANARY")
        assert store.erase(ANN)["damaged_files"] == 1
        (left,) = folder.glob("*.damaged-*")
        assert [file for file in folder.iterdir() if b"CANARY" in file.read_bytes()] == [left]
        assert store.erase(())["damaged_files"] == 1
    assert [file.name for file in folder.iterdir() if file.name != ".lock"] == []
