"""JSON files of items: readable, written seldom and whole, merged, and never lost to damage."""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path

import pytest

from langchain_tokenmem.core.thread_names import notes_of_user
from langchain_tokenmem.errors import ConfigurationError, StoreError
from langchain_tokenmem.notes import JsonStore
from langchain_tokenmem.notes.stores.json_folder import JsonFolder

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


@pytest.fixture
def writes(monkeypatch) -> list[Path]:
    """Return the files that were written, in order."""
    made: list[Path] = []
    write = JsonFolder.write_locked

    def count(self, file, items):
        made.append(file)
        write(self, file, items)

    monkeypatch.setattr(JsonFolder, "write_locked", count)
    return made


def wait_until(is_so, seconds=5.0):
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.01)
    assert is_so()


def test_there_is_one_file_for_each_project_and_one_for_the_global_notes_of_a_user(folder):
    with JsonStore(folder) as store:
        for namespace in (GLOBAL, PROJECT, OTHER_PROJECT, BOB, (*ANN, "session", "=s1")):
            store.put(namespace, "a", {"content": "one"})
            store.put(namespace, "b", {"content": "two"})
    assert {namespace: len(items) for namespace, items in parsed(folder).items()} == {
        GLOBAL: 2,
        PROJECT: 2,
        OTHER_PROJECT: 2,
        BOB: 2,
        (*ANN, "session", "=s1"): 2,
    }
    owners = [file.name.partition("-")[0] for file in files(folder)]
    assert len(set(owners)) == 2
    assert not any("ann" in file.name or "app" in file.name for file in files(folder))


def test_a_file_is_readable_and_fit_for_git(folder):
    with JsonStore(folder) as store:
        store.put(
            PROJECT, "mem_2", {"tags": ["tabs"], "content": "Grüße, use tabs.", "label": "app"}
        )
        store.put(PROJECT, "mem_1", {"content": "\ud800"})
    (file,) = files(folder)
    text = file.read_text(encoding="utf-8")
    first = json.loads(text)["items"][0]
    assert text == (
        "{\n"
        '  "format": "tokenmem-items",\n'
        '  "items": [\n'
        "    {\n"
        f'      "created_at": "{first["created_at"]}",\n'
        '      "key": "mem_1",\n'
        f'      "updated_at": "{first["updated_at"]}",\n'
        '      "value": {\n'
        '        "content": "\\ud800"\n'
        "      }\n"
        "    },\n" + text[text.index("    {\n", text.index('"key": "mem_1"')) :]
    )
    assert '"content": "Grüße, use tabs."' in text
    lines = text.splitlines()
    with JsonStore(folder) as store:
        store.put(PROJECT, "mem_1b", {"content": "another"})
    after = file.read_text(encoding="utf-8").splitlines()
    assert len(after) == len(lines) + 8  # one more block, and no other line
    assert [line for line in lines if line not in after] == []


def test_what_was_put_is_the_same_in_a_new_process_and_writes_nothing_new(folder):
    with JsonStore(folder) as store:
        store.put((*PROJECT, "deep", "er"), "k", {"x": [1, None, 1e300]})
        store.put(PROJECT, "k", {"x": 10**30})
        before = store.search(())
    assert JsonStore(folder).search(()) == before
    assert len(files(folder)) == 1


@pytest.mark.parametrize(
    "value", ["\ud800", 2**64, 2**80, -(2**70), 1e16, 1e-300, -0.0, "\0\u2028\x7f", [[], {}, ""]]
)
def test_a_value_is_read_as_it_was_put_and_the_file_is_what_json_writes(folder, value):
    with JsonStore(folder) as store:
        store.put(("a",), "k", {"x": value})
    (file,) = folder.glob("*.json")
    content = file.read_text(encoding="utf-8")
    again = json.dumps(json.loads(content), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert again.encode("utf-8", "backslashreplace").decode() == content
    assert repr(JsonStore(folder).get(("a",), "k").value) == repr({"x": value})


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
    store = JsonStore(folder, debounce_s=0)
    merge = JsonFolder.merge

    def slow(self, changes):
        merge(self, changes)
        if ("late", 1) not in seen:
            seen.append(("late", 1))
            store.put(PROJECT, "k", {"n": 2})
            store.put(PROJECT, "late", {"n": 3})

    seen: list[tuple[str, int]] = []
    monkeypatch.setattr(JsonFolder, "merge", slow)
    store.put(PROJECT, "k", {"n": 1})
    wait_until(lambda: seen and not store._pending)
    assert [item["value"] for item in parsed(folder)[PROJECT]] == [{"n": 2}, {"n": 3}]


def test_two_stores_on_one_folder_lose_nothing(folder):
    one, other = (JsonStore(folder, debounce_s=60, max_delay_s=60) for _ in range(2))
    one.put(PROJECT, "a", {"by": "one"})
    other.put(PROJECT, "b", {"by": "other"})
    one.flush()
    assert [item.key for item in other.search(PROJECT)] == ["b", "a"]
    other.flush()
    assert sorted(item.key for item in one.search(PROJECT)) == ["a", "b"]
    one.delete(PROJECT, "a")
    other.put(PROJECT, "c", {"by": "other"})
    other.flush()
    one.flush()
    assert sorted(item.key for item in JsonStore(folder).search(PROJECT)) == ["b", "c"]


def test_threads_that_put_and_read_lose_nothing(folder):
    store = JsonStore(folder, debounce_s=0)

    def put(name):
        for number in range(20):
            store.put(PROJECT, f"{name}{number}", {"n": number})
            assert store.get(PROJECT, f"{name}{number}").value == {"n": number}

    threads = [threading.Thread(target=put, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    assert len(parsed(folder)[PROJECT]) == 80


def test_a_file_without_items_is_deleted(folder):
    with JsonStore(folder) as store:
        store.put(PROJECT, "k", {"x": 1})
        store.flush()
        assert len(files(folder)) == 1
        store.delete(PROJECT, "k")
    assert files(folder) == []


def test_a_write_that_fails_half_way_leaves_the_file_as_it_was(folder, monkeypatch, caplog):
    store = JsonStore(folder, debounce_s=60)
    store.put(PROJECT, "k", {"x": 1})
    store.flush()
    before = files(folder)[0].read_bytes()

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr("langchain_tokenmem.notes.stores.json_folder.os.fsync", fail)
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


DAMAGED = [
    b"",
    b"{",
    b'{"format": "tokenmem-items"',
    b"[]",
    b'{"format": "other", "version": 1}',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"format": "tokenmem-items", "version": 1, "namespace": ["a"], "items": []}',
    b'{"format": "tokenmem-items", "version": 0, "namespace": ["a"], "items": []}',
    b'{"format": "tokenmem-items", "version": 1, "namespace": ["a"], "items": [{"key": 1}]}',
]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
@pytest.mark.parametrize("first", ["read", "write"])
def test_a_damaged_file_is_set_aside_and_said_and_never_overwritten(folder, content, first, caplog):
    with JsonStore(folder) as store:
        store.put(PROJECT, "k", {"x": 1})
        store.put(GLOBAL, "k", {"x": 1})
    file = JsonFolder(folder).file_of(PROJECT)
    file.write_bytes(content)
    with caplog.at_level(logging.ERROR), JsonStore(folder) as store:
        if first == "read":
            assert store.search(PROJECT) == []
        store.put(PROJECT, "new", {"x": 2})
    (aside,) = folder.glob("*.damaged-*")
    assert aside.read_bytes() == content
    assert aside.name.startswith(f"{file.name}.damaged-2")
    assert str(aside) in caplog.text
    assert [item["key"] for item in parsed(folder)[PROJECT]] == ["new"]
    assert len(parsed(folder)[GLOBAL]) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"key": None},
        {"created_at": "2026-01-31T12:00:00"},
        {"updated_at": "now"},
        {"value": [1]},
        {"below": [1]},
    ],
)
def test_one_item_that_cannot_be_read_makes_the_file_a_damaged_one(folder, change):
    with JsonStore(folder) as store:
        store.put(PROJECT, "k", {"x": 1})
    (file,) = files(folder)
    content = json.loads(file.read_bytes())
    content["items"][0] |= change
    file.write_text(json.dumps(content), encoding="utf-8")
    assert JsonStore(folder).get(PROJECT, "k") is None
    (aside,) = folder.glob("*.damaged-*")
    assert json.loads(aside.read_bytes()) == content


def test_a_file_that_was_copied_to_another_name_is_damaged(folder):
    with JsonStore(folder) as store:
        store.put(PROJECT, "k", {"x": 1})
    (file,) = files(folder)
    JsonFolder(folder).file_of(GLOBAL).write_bytes(file.read_bytes())
    assert JsonStore(folder).search(GLOBAL) == []
    assert len(JsonStore(folder).search(PROJECT)) == 1


def test_a_file_of_a_newer_version_is_an_error_and_stays(folder):
    with JsonStore(folder) as store:
        store.put(PROJECT, "k", {"x": 1})
    (file,) = files(folder)
    newer = file.read_text(encoding="utf-8").replace('"version": 1', '"version": 2')
    file.write_text(newer, encoding="utf-8")
    store = JsonStore(folder, debounce_s=60)
    with pytest.raises(StoreError, match="Upgrade"):
        store.get(PROJECT, "k")
    store.put(PROJECT, "k", {"x": 2})
    with pytest.raises(StoreError, match="Upgrade"):
        store.flush()
    assert file.read_text(encoding="utf-8") == newer
    store._pending.clear()


def test_of_two_blocks_of_one_item_as_git_merges_them_the_newer_counts(folder):
    with JsonStore(folder) as store:
        store.put(PROJECT, "k", {"x": 1})
    (file,) = files(folder)
    content = json.loads(file.read_bytes())
    newer = {**content["items"][0], "value": {"x": 2}, "updated_at": "2999-01-01T00:00:00+00:00"}
    content["items"].insert(0, newer)
    file.write_text(json.dumps(content), encoding="utf-8")
    store = JsonStore(folder)
    assert [item.value for item in store.search(PROJECT)] == [{"x": 2}]


def test_a_change_by_hand_is_seen(folder):
    store = JsonStore(folder)
    store.put(PROJECT, "k", {"x": "tabs"})
    store.flush()
    (file,) = files(folder)
    file.write_text(file.read_text(encoding="utf-8").replace("tabs", "spaces"), encoding="utf-8")
    assert store.get(PROJECT, "k").value == {"x": "spaces"}


@pytest.mark.parametrize("prefix", [ANN, PROJECT])
def test_erase_reaches_files_and_what_is_not_written_yet_and_says_what_was_found(folder, prefix):
    with JsonStore(folder, debounce_s=60) as store:
        for namespace in (GLOBAL, PROJECT, BOB):
            store.put(namespace, "k", {"content": "CANARY" if namespace != BOB else "kept"})
        store.flush()
        store.put(PROJECT, "late", {"content": "CANARY"})
        found = store.erase(prefix)
        assert found == {
            "items": 3 if prefix == ANN else 2,
            "files": 2 if prefix == ANN else 1,
            "damaged_files": 0,
            "damaged_files_left": 0,
        }
        assert store.search(prefix) == []
        assert set(store.erase(prefix).values()) == {0}
    assert set(parsed(folder)) == ({BOB} if prefix == ANN else {BOB, GLOBAL})
    left = b"".join(file.read_bytes() for file in folder.iterdir())
    assert (b"CANARY" in left) == (prefix == PROJECT)
    assert b"kept" in left


def damage(folder: Path, *namespaces: tuple[str, ...]) -> None:
    with JsonStore(folder) as store:
        for namespace in namespaces:
            store.put(namespace, "k", {"content": "CANARY"})
    for file in files(folder):
        file.write_bytes(b"CANARY")
    assert JsonStore(folder).search(()) == []


def test_erase_reaches_damaged_files_of_an_owner_and_what_a_killed_process_left(folder):
    damage(folder, GLOBAL, PROJECT, BOB)
    with JsonStore(folder) as store:
        store.put(PROJECT, "k", {"content": "new"})
        store.flush()
        (folder / f".{files(folder)[0].name}.1.tmp").write_bytes(b"CANARY")
        assert store.erase(ANN)["damaged_files"] == 2
    assert [file.name for file in folder.iterdir() if b"CANARY" in file.read_bytes()] == [
        next(folder.glob("*.damaged-*")).name
    ]
    with JsonStore(folder) as store:
        assert store.erase(())["damaged_files"] == 1
    assert [file.name for file in folder.iterdir() if file.name != ".lock"] == []


def test_erase_names_damaged_files_of_which_it_cannot_tell(folder, caplog):
    damage(folder, GLOBAL, PROJECT)
    with JsonStore(folder) as store:
        found = store.erase((*ANN, "project"))
        assert (found["damaged_files"], found["damaged_files_left"]) == (0, 2)
        assert caplog.text.count("may hold items") == 2
        assert store.erase((*PROJECT, "deep"))["damaged_files_left"] == 1
        assert store.erase(PROJECT)["damaged_files"] == 1
        assert len([*folder.glob("*.damaged-*")]) == 1


def test_a_folder_that_cannot_be_made_is_an_error_of_the_store(tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    store = JsonStore(tmp_path / "file" / "notes", debounce_s=60)
    store.put(PROJECT, "k", {"x": 1})
    with pytest.raises(StoreError, match="cannot be"):
        store.flush()
    store._pending.clear()


@pytest.mark.parametrize("times", [{"debounce_s": -1}, {"max_delay_s": -0.1}])
def test_a_time_below_0_is_refused(folder, times):
    with pytest.raises(ConfigurationError, match="debounce_s"):
        JsonStore(folder, **times)


def test_reading_makes_no_folder(folder):
    store = JsonStore(folder)
    assert store.get(PROJECT, "k") is None
    assert store.search(()) == []
    store.close()
    assert not folder.exists()
