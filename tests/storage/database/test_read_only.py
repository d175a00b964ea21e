"""A SQLite file that cannot be written is read, and one that is gone is noticed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from langchain_tokenmem import Recall, TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import CorruptStoreError, StoreError
from langchain_tokenmem.storage.database import upgrade  # noqa: F401  while it can be imported
from tests.storage.database.test_upgrade import build
from tests.storage.samples import turn

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
NOBODY = 65_534


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that any user may enter; tests run as root, too, whom no permission stops."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


@pytest.fixture
def path(folder: Path) -> Iterator[Path]:
    """Give a database, to a user whom permissions do stop."""
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(folder, NOBODY, -1)
        os.seteuid(NOBODY)
    try:
        yield written(folder)
    finally:
        if is_root:
            os.seteuid(0)


def put(saver: TokenMemorySaver) -> None:
    values = {"messages": [HumanMessage("Hello", id="m1")], "n": 1}
    versions: Any = dict.fromkeys(values, 1)
    checkpoint = {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}
    saver.put(THREAD, checkpoint, {}, versions)  # type: ignore[arg-type]


def written(folder: Path) -> Path:
    path = folder / "memory.db"
    with TranscriptStore(f"sqlite:///{path}") as store:
        store.add("s", turn(1))
        put(TokenMemorySaver(store))
    return path


def check_is_read(store: TranscriptStore) -> None:
    assert len(store.messages("s")) == 2
    assert store.count("s") == 2
    assert len(store.messages("s")) == 2
    saver = TokenMemorySaver(store)
    found = saver.get_tuple(THREAD)
    assert found is not None
    assert found.checkpoint["channel_values"]["messages"] == [HumanMessage("Hello", id="m1")]
    assert len(list(saver.list(THREAD))) == 1
    with Recall(store) as recall:
        assert [hit.text for hit in recall.history_search("hello", session_id="t")] == ["Hello"]
    with pytest.raises(StoreError, match=r"read-only.*copy it to where it can be written"):
        store.add("s", turn(2))
    with pytest.raises(StoreError, match="read-only"):
        put(saver)


def test_a_read_only_file_is_read_and_a_write_says_so(path: Path) -> None:
    path.chmod(0o444)
    for _ in range(2):
        with TranscriptStore(f"sqlite:///{path}") as store:
            check_is_read(store)


@pytest.mark.parametrize("mode", [0o444, 0o644])
def test_a_file_in_a_read_only_folder_is_read(path: Path, mode: int) -> None:
    path.chmod(mode)
    path.parent.chmod(0o555)
    with TranscriptStore(f"sqlite:///{path}") as store:
        check_is_read(store)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_log_that_cannot_be_read_is_not_left_out(path: Path) -> None:
    copy = path.parent / "copy"
    copy.mkdir()
    with TranscriptStore(f"sqlite:///{path}") as store:
        store.add("s", turn(2))
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", copy / f"{path.name}{end}")
    copy.chmod(0o555)
    with (
        TranscriptStore(f"sqlite:///{copy}/{path.name}") as store,
        pytest.raises(StoreError, match=r"a log, memory.db-wal.*Copy both"),
    ):
        store.messages("s")
    copy.chmod(0o755)


def test_an_empty_file_is_no_empty_store(path: Path) -> None:
    path.write_bytes(b"")
    path.chmod(0o444)
    with (
        TranscriptStore(f"sqlite:///{path}") as store,
        pytest.raises(StoreError, match="empty and read-only"),
    ):
        store.messages("s")


def test_an_old_version_says_that_it_has_to_be_upgraded(path: Path) -> None:
    path.unlink()
    build(path, "v3")
    path.chmod(0o444)
    with (
        TranscriptStore(f"sqlite:///{path}") as store,
        pytest.raises(StoreError, match=r"upgraded.*Copy it to where it can be written"),
    ):
        store.messages("s")


def test_what_can_be_written_again_is_written_after_closing(path: Path) -> None:
    path.chmod(0o444)
    with TranscriptStore(f"sqlite:///{path}") as store:
        with pytest.raises(StoreError, match="read-only"):
            store.add("s", turn(2))
        for one in path.parent.glob("memory.db*"):
            one.chmod(0o644)
        store.close()
        store.add("s", turn(2))
        assert store.count("s") == 4


def test_a_file_that_is_named_as_read_only_is_read(folder: Path) -> None:
    path = written(folder)
    with TranscriptStore(f"sqlite:///file:{path}?mode=ro&uri=true") as store:
        check_is_read(store)


# --- a file that is gone


@pytest.mark.parametrize("ends", [["", "-wal", "-shm"], [""]])
def test_a_deleted_database_file_is_noticed_at_the_next_write(folder: Path, ends: list[str]):
    path = written(folder)
    with TranscriptStore(f"sqlite:///{path}") as store:
        saver = TokenMemorySaver(store)
        store.add("s", turn(2))
        for end in ends:
            Path(f"{path}{end}").unlink()
        for write in (lambda: store.add("s", turn(3)), lambda: put(saver)):
            with pytest.raises(StoreError, match=r"was deleted.*nothing was stored.*close\(\)"):
                write()
        with pytest.raises(StoreError, match="was deleted"):
            store.messages("s")
        assert not path.exists()
        store.close()
        for end in ("-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        store.add("s", turn(3))  # as the error says: a new file
        assert store.count("s") == 2


def test_a_replaced_database_file_is_noticed_and_read_after_closing(folder: Path) -> None:
    path = written(folder)
    backup = folder / "backup.db"
    shutil.copy(path, backup)
    with TranscriptStore(f"sqlite:///{path}") as store:
        store.add("s", turn(2))
        backup.replace(path)
        with pytest.raises(StoreError, match="replaced by another one"):
            store.add("s", turn(3))
        store.close()
        for end in ("-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        store.add("s", turn(3))
        assert store.count("s") == 4


def test_a_file_that_is_deleted_during_a_write_is_noticed(folder: Path) -> None:
    path = written(folder)
    with TranscriptStore(f"sqlite:///{path}") as store:
        store.add("s", turn(2))
        with pytest.raises(StoreError, match="was deleted"), store.database.writing("A test"):
            path.unlink()


def test_a_database_in_memory_has_no_file_to_lose() -> None:
    with TranscriptStore("sqlite://") as store:
        store.add("s", turn(1))
        assert store.count("s") == 2


def test_damage_of_a_read_only_file_is_damage(folder: Path) -> None:
    path = folder / "memory.db"
    path.write_bytes(b"no database " * 1_000)
    with (
        TranscriptStore(f"sqlite:///file:{path}?mode=ro&uri=true") as store,
        pytest.raises(CorruptStoreError),
    ):
        store.messages("s")
