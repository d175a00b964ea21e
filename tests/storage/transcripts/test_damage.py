"""Damage is an error, never a shorter history."""

from __future__ import annotations

import hashlib
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.errors import CorruptStoreError, StoreError
from langchain_tokenmem.state import STATE_VERSION
from langchain_tokenmem.storage.database import SCHEMA_VERSION
from tests.storage.samples import state, turn


@pytest.fixture
def filled(path: Path) -> Path:
    with TranscriptStore(f"sqlite:///{path}") as store:
        store.add("s", [message for number in range(5) for message in turn(number)])
        store.save_state("s", state("a1", "h0"), expected=0)
        store.add("t", turn(9))
        store.clear("t")
    return path


def sql(path: Path, *statements: str) -> None:
    raw = sqlite3.connect(path)
    for statement in statements:
        raw.execute(statement)
    raw.commit()
    raw.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tokenmem_messages SET message = replace(message, 'quest', 'Quest') WHERE seq = 7",
        "UPDATE tokenmem_messages SET checksum = x'00' WHERE seq = 7",
        "UPDATE tokenmem_messages SET checksum = 5 WHERE seq = 7",
        "UPDATE tokenmem_messages SET message = x'ff' WHERE seq = 7",
        "UPDATE tokenmem_messages SET message = CAST(x'ff' AS TEXT) WHERE seq = 7",
        "UPDATE tokenmem_messages SET seq = 70 WHERE seq = 7",
        "DELETE FROM tokenmem_messages WHERE seq = 10",
        "DELETE FROM tokenmem_messages WHERE seq = 7",
        "DELETE FROM tokenmem_messages",
        "DROP TABLE tokenmem_messages",
        "DROP TABLE tokenmem_facts",
        "DELETE FROM tokenmem_facts",
        "PRAGMA application_id = 0",
    ],
)
def test_what_is_not_as_written_is_damage(filled, change):
    sql(filled, change)
    with TranscriptStore(f"sqlite:///{filled}") as store:
        for ask in (store.messages, store.conversation):
            with pytest.raises(CorruptStoreError, match=r"backup"):
                ask("s")


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1, 99])
def test_another_schema_version_is_refused(filled, version):
    sql(filled, f"UPDATE tokenmem_facts SET value = {version} WHERE name = 'schema_version'")  # noqa: S608
    with (
        TranscriptStore(f"sqlite:///{filled}") as store,
        pytest.raises(CorruptStoreError, match=f"version {version}, this package reads"),
    ):
        store.messages("s")


def test_a_newer_state_is_refused(file_store):
    newer = {**state("x"), "version": STATE_VERSION + 1}
    file_store.save_state("s", newer, expected=0)
    with pytest.raises(CorruptStoreError, match=f"schema version {STATE_VERSION + 1}"):
        file_store.state("s")


def test_a_file_of_another_program_is_refused_and_not_changed(path):
    sql(path, "CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with TranscriptStore(f"sqlite:///{path}") as store:
        with pytest.raises(CorruptStoreError, match="file of its own"):
            store.add("s", turn(1))
        with pytest.raises(CorruptStoreError, match="file of its own"):
            store.messages("s")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_a_file_that_is_no_database_is_refused(path):
    path.write_bytes(b"hello " * 1_000)
    with TranscriptStore(f"sqlite:///{path}") as store, pytest.raises(CorruptStoreError):
        store.messages("s")
    assert path.read_bytes() == b"hello " * 1_000


def test_a_cut_file_is_damage(filled):
    data = filled.read_bytes()
    for part in (1, 2, 3):
        filled.write_bytes(data[: len(data) * part // 4])
        with TranscriptStore(f"sqlite:///{filled}") as store, pytest.raises(StoreError):
            store.messages("s")


@pytest.mark.slow
def test_flipped_bytes_of_messages_are_never_taken_for_data(filled, tmp_path):
    with TranscriptStore(f"sqlite:///{filled}") as store:
        right = store.messages("s")
    data = filled.read_bytes()
    places = [n for n in range(len(data)) if data.startswith(b"question", n)]
    chosen = random.Random(7)
    refused = 0
    for _ in range(30):
        changed = bytearray(data)
        changed[chosen.choice(places) + chosen.randrange(8)] ^= 1 << chosen.randrange(8)
        copy = tmp_path / "copy.db"
        copy.write_bytes(changed)
        with TranscriptStore(f"sqlite:///{copy}") as store:
            try:
                assert store.messages("s") == right
            except StoreError:
                refused += 1
        for left in tmp_path.glob("copy.db*"):
            left.unlink()
    assert refused > 0


def test_a_copy_made_by_sqlite_is_a_backup(filled, tmp_path):
    copy = tmp_path / "backup.db"
    with TranscriptStore(f"sqlite:///{filled}") as store:
        store.add("s", turn(77))
        source, target = sqlite3.connect(filled), sqlite3.connect(copy)
        source.backup(target)
        source.close()
        target.close()
        with TranscriptStore(f"sqlite:///{copy}") as other:
            assert other.messages("s") == store.messages("s")
    sql(copy, "VACUUM")
    shutil.copy(copy, tmp_path / "again.db")
    with TranscriptStore(f"sqlite:///{tmp_path / 'again.db'}") as other:
        assert other.count("s") == 12


@pytest.mark.parametrize("body", ["'[]'", "CAST(x'ff' AS TEXT)"])
def test_an_error_that_is_held_hides_nothing_that_others_write_later(filled: Path, body: str):
    with (
        TranscriptStore(f"sqlite:///{filled}", pool_size=1) as store,
        TranscriptStore(f"sqlite:///{filled}") as other,
    ):
        other.add("u", turn(20))
        assert len(store.messages("u")) == 2
        change = "UPDATE tokenmem_messages SET message = {} WHERE session = 1 AND seq = 2"
        sql(filled, change.format(body))
        with pytest.raises(CorruptStoreError) as held:
            store.messages("s")
        other.add("u", turn(21))
        assert len(store.messages("u")) == 4
        store.add("u", turn(22))
        assert len(other.messages("u")) == 6
        assert held.value
