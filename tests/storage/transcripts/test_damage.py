"""Damage is an error, never a shorter history."""

from __future__ import annotations

import hashlib
import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.errors import CorruptStoreError, StoreError
from langchain_tokenmem.state import STATE_VERSION
from langchain_tokenmem.storage.schema_versions import SCHEMA
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
        "UPDATE tokenmem_messages SET created_at = '2020' WHERE seq = 7",
        "UPDATE tokenmem_messages SET has_own_id = 0 WHERE seq = 7",
        "UPDATE tokenmem_messages SET checksum = x'00' WHERE seq = 7",
        "UPDATE tokenmem_messages SET checksum = 5 WHERE seq = 7",
        "UPDATE tokenmem_messages SET message = x'ff' WHERE seq = 7",
        "UPDATE tokenmem_messages SET message = CAST(x'ff' AS TEXT) WHERE seq = 7",
        "UPDATE tokenmem_messages SET seq = 70 WHERE seq = 7",
        "DELETE FROM tokenmem_messages WHERE seq = 10",
        "DELETE FROM tokenmem_messages WHERE seq = 7",
        "DELETE FROM tokenmem_messages",
        "DELETE FROM tokenmem_sessions",
        "UPDATE tokenmem_sessions SET session_key = '=u' WHERE session_key = '=s'",
        "UPDATE tokenmem_sessions SET last_seq = 9 WHERE session_key = '=s'",
        "UPDATE tokenmem_sessions SET state = NULL WHERE session_key = '=s'",
        "UPDATE tokenmem_sessions SET first_seq = 'x' WHERE session_key = '=s'",
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


def test_a_cleared_session_whose_row_is_hidden_from_an_index_is_damage(filled):
    sql(filled, "UPDATE tokenmem_sessions SET session_key = '=u' WHERE session_key = '=t'")
    with TranscriptStore(f"sqlite:///{filled}") as store:
        with pytest.raises(CorruptStoreError):
            store.count("t")
        with pytest.raises(CorruptStoreError):
            store.add("t", turn(1))
        assert store.count("s") == 10


def test_an_id_that_its_index_lost_is_not_unknown(filled):
    data = filled.read_bytes()
    # Only in the index of ids do session and id stand side by side.
    assert data.count(b"=s=h4") == 1
    filled.write_bytes(data.replace(b"=s=h4", b"=s=i4"))
    with TranscriptStore(f"sqlite:///{filled}") as store:
        assert store.count("s") == 10
        with pytest.raises(CorruptStoreError, match="index"):
            store.get("s", "h4")


def test_a_resend_never_trusts_a_damaged_row(filled):
    sql(filled, "UPDATE tokenmem_messages SET content_hash = 'x' WHERE seq = 10")
    with TranscriptStore(f"sqlite:///{filled}") as store, pytest.raises(CorruptStoreError):
        store.add("s", [HumanMessage("x")])


@pytest.mark.parametrize(
    ("version", "remedy"),
    [(SCHEMA.version + 1, "Upgrade"), (99, "Upgrade"), (0, "downgrade")],
)
def test_another_schema_version_is_refused(filled, version, remedy):
    sql(filled, f"UPDATE tokenmem_facts SET number = {version} WHERE name = 'schema_version'")  # noqa: S608
    with (
        TranscriptStore(f"sqlite:///{filled}") as store,
        pytest.raises(CorruptStoreError, match=f"version {version}.*{remedy}"),
    ):
        store.messages("s")


def test_a_newer_state_is_refused(file_store):
    newer = {**state("x"), "version": STATE_VERSION + 1}
    file_store.save_state("s", newer, expected=0)
    with pytest.raises(CorruptStoreError, match="Upgrade"):
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
def test_flipped_bytes_are_never_taken_for_data(filled, tmp_path):
    """A few here; integration_tests flips a thousand."""
    with TranscriptStore(f"sqlite:///{filled}") as store:
        right = (
            store.messages("s"),
            store.conversation("s"),
            store.count("t"),
            store.get("s", "h4"),
        )
    data = filled.read_bytes()
    chosen = random.Random(7)
    refused = 0
    for _ in range(60):
        changed = bytearray(data)
        changed[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
        copy = tmp_path / "copy.db"
        copy.write_bytes(changed)
        with TranscriptStore(f"sqlite:///{copy}") as store:
            try:
                found = (
                    store.messages("s"),
                    store.conversation("s"),
                    store.count("t"),
                    store.get("s", "h4"),
                )
            except StoreError:
                refused += 1
            else:
                assert found == right
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
        change = "UPDATE tokenmem_messages SET message = {} WHERE session_key = '=s' AND seq = 2"
        sql(filled, change.format(body))
        with pytest.raises(CorruptStoreError) as held:
            store.messages("s")
        other.add("u", turn(21))
        assert len(store.messages("u")) == 4
        store.add("u", turn(22))
        assert len(other.messages("u")) == 6
        assert held.value
