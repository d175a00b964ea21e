"""Damage is an error, never a shorter history."""

import hashlib
import shutil
import sqlite3
import tracemalloc
import zlib
from pathlib import Path

import pytest

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.errors import CorruptStoreError, StoreError
from langchain_tokenmem.storage.codec import Codec
from langchain_tokenmem.storage.serializer import StateSerializer
from langchain_tokenmem.storage.tables import SCHEMA_VERSION
from tests.storage.samples import save_state, state, turn


@pytest.fixture
def filled(path: Path) -> Path:
    with TranscriptStore(f"sqlite:///{path}") as store:
        store.add("s", [message for number in range(5) for message in turn(number)])
        save_state(store, "s", state("a1", "h0"))
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
        "UPDATE tokenmem_messages SET message = x'ff' WHERE seq = 7",
        "UPDATE tokenmem_messages SET seq = 70 WHERE seq = 7",
        "DELETE FROM tokenmem_messages WHERE seq = 10",
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


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1])
def test_another_schema_version_is_refused(filled, version):
    sql(filled, f"UPDATE tokenmem_facts SET value = {version} WHERE name = 'schema_version'")  # noqa: S608
    with (
        TranscriptStore(f"sqlite:///{filled}") as store,
        pytest.raises(CorruptStoreError, match=f"version {version}, this package reads"),
    ):
        store.messages("s")


def test_a_file_of_another_program_is_refused_and_not_changed(path):
    sql(path, "CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with TranscriptStore(f"sqlite:///{path}") as store:
        with pytest.raises(CorruptStoreError, match="its own file"):
            store.add("s", turn(1))
        with pytest.raises(CorruptStoreError, match="its own file"):
            store.messages("s")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_a_cut_file_or_one_that_is_no_database_is_damage(filled):
    data = filled.read_bytes()
    for content in (*(data[: len(data) * part // 4] for part in (1, 2, 3)), b"hello " * 1_000):
        filled.write_bytes(content)
        with TranscriptStore(f"sqlite:///{filled}") as store, pytest.raises(StoreError):
            store.messages("s")
        assert filled.read_bytes() == content


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


@pytest.mark.slow
def test_a_decompression_bomb_is_refused_before_it_takes_the_memory():
    made = zlib.compressobj()
    parts = [made.compress(bytes(1_000_000)) for _ in range(50)]
    bomb = b"".join(parts) + made.flush()
    codec = Codec(StateSerializer(()))
    packed = codec.pack(b"abc" * 1_000)
    at = packed.index(b"\0") + 1
    assert packed[at : at + 8] == (3_000).to_bytes(8, "big")
    tracemalloc.start()
    try:
        with pytest.raises(CorruptStoreError, match="not as long as its row says"):
            codec.unpack(packed[: at + 8] + bomb)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
