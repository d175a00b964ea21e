"""Damage is an error, never a shorter history."""

import shutil
import tracemalloc
import zlib
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.errors import CorruptStoreError, StoreError
from langchain_tokenmem.storage.codec import Codec
from langchain_tokenmem.storage.serializer import StateSerializer
from langchain_tokenmem.storage.tables import SCHEMA_VERSION
from tests.storage.samples import save_state, sql, state, turn


@pytest.fixture
def filled(path: Path) -> Path:
    with TranscriptStore(path) as store:
        store.add("s", [message for number in range(5) for message in turn(number)])
        store.add("s", [HumanMessage("redacted", id="h0")])
        save_state(store, "s", state("a1", "h0"))
        store.add("t", turn(9))
        store.clear("t")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tokenmem_messages SET message = replace(message, 'quest', 'Quest') WHERE seq = 7",
        "UPDATE tokenmem_messages SET message = replace(message, 'redacted', 'question 0')",
        "UPDATE tokenmem_messages SET message = NULL WHERE is_shown AND seq = 1",
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
def test_what_is_not_as_written_is_damage_and_never_the_superseded_words(filled, change):
    sql(filled, change)
    with TranscriptStore(filled) as store:
        for ask in (
            store.messages,
            store.conversation,
            lambda session: store.messages(session, include_superseded=True),
        ):
            with pytest.raises(CorruptStoreError, match="backup"):
                ask("s")


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1])
def test_another_schema_version_is_refused(filled, version):
    sql(filled, f"UPDATE tokenmem_facts SET value = {version} WHERE name = 'schema_version'")  # noqa: S608
    with (
        TranscriptStore(filled) as store,
        pytest.raises(CorruptStoreError, match=f"version {version}, this package reads"),
    ):
        store.messages("s")


def test_a_file_of_another_program_is_refused_and_not_changed(path):
    sql(path, "CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)")
    before = path.read_bytes()
    with TranscriptStore(path) as store:
        for use in (lambda: store.add("s", turn(1)), lambda: store.messages("s")):
            with pytest.raises(CorruptStoreError, match="its own file"):
                use()
    assert path.read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_a_cut_file_or_one_that_is_no_database_is_damage(filled):
    data = filled.read_bytes()
    for content in (*(data[: len(data) * part // 4] for part in (1, 2, 3)), b"hello " * 1_000):
        filled.write_bytes(content)
        with TranscriptStore(filled) as store, pytest.raises(StoreError):
            store.messages("s")
        assert filled.read_bytes() == content


def test_a_copy_made_by_sqlite_is_a_backup(filled, tmp_path):
    with TranscriptStore(filled) as store:
        store.add("s", turn(77))
        sql(filled, f"VACUUM INTO '{tmp_path / 'backup.db'}'")
        shutil.copy(tmp_path / "backup.db", tmp_path / "again.db")
        with TranscriptStore(tmp_path / "again.db") as other:
            assert other.messages("s") == store.messages("s")
            assert other.count("s") == 12


@pytest.mark.slow
def test_a_decompression_bomb_is_refused_before_it_takes_the_memory():
    made = zlib.compressobj()
    bomb = b"".join(made.compress(bytes(1_000_000)) for _ in range(50)) + made.flush()
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
