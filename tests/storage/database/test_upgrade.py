"""Databases of older schema versions are upgraded on opening, as a whole or not at all."""

from __future__ import annotations

import json
import logging
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.errors import CorruptStoreError, StoreError
from langchain_tokenmem.storage.database.schema import Schema
from langchain_tokenmem.storage.schema_versions import SCHEMA
from tests.storage.samples import turn

FOLDER = Path(__file__).parent / "schemas"
NAMES = [path.name.partition(".")[0] for path in sorted(FOLDER.glob("*.sqlite.sql"))]


def build(path: Path, name: str) -> Path:
    """Make a file as an older package left it."""
    with sqlite3.connect(path) as raw:
        raw.executescript((FOLDER / f"{name}.sqlite.sql").read_text(encoding="utf-8"))
        raw.execute("PRAGMA journal_mode = WAL")
    raw.close()
    return path


def expected(name: str) -> object:
    return json.loads((FOLDER / f"{name}.sqlite.json").read_text(encoding="utf-8"))


def dump(path: Path) -> list[str]:
    with sqlite3.connect(path) as raw:
        found = [*raw.iterdump()]
    raw.close()
    return found


def copies(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.*.bak"))


def definitions(path: Path) -> dict[str, object]:
    """Return tables with columns, keys and indexes; the names of the columns in their order."""
    engine = create_engine(f"sqlite:///{path}")
    there = inspect(engine)
    found = {
        table: (
            [(c["name"], str(c["type"]), c["nullable"]) for c in there.get_columns(table)],
            there.get_pk_constraint(table)["constrained_columns"],
            sorted(u["column_names"] for u in there.get_unique_constraints(table)),
            sorted((i["name"], i["column_names"]) for i in there.get_indexes(table)),
        )
        for table in there.get_table_names()
    }
    engine.dispose()
    return found


def test_there_is_a_database_of_every_earlier_version():
    versions = {name.removeprefix("v").partition("_")[0] for name in NAMES}
    assert versions == {str(number) for number in range(SCHEMA.oldest, SCHEMA.version)}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_upgraded_database_has_the_tables_of_a_new_one(path, name):
    build(path, name)
    new = path.parent / "new.db"
    for file in (path, new):
        with TranscriptStore(f"sqlite:///{file}") as store:
            store.count("s")
    assert definitions(path) == definitions(new)


@pytest.mark.slow
def test_a_copy_of_the_older_file_is_kept_and_the_log_names_it(path, caplog):
    before = dump(build(path, "v3"))
    with (
        caplog.at_level(logging.WARNING),
        TranscriptStore(f"sqlite:///{path}") as store,
    ):
        assert store.count("chat") == 5
    (copy,) = copies(path)
    assert dump(copy) == before
    assert ".v3-" in copy.name
    assert f"upgraded from schema version 3 to 6. {copy}" in caplog.text
    assert copy.stat().st_mode == path.stat().st_mode
    assert [*path.parent.glob("*.part")] == []


@pytest.mark.slow
def test_an_upgrade_that_fails_changes_nothing(path, monkeypatch):
    before = dump(build(path, "v3"))

    def fail(operations, version):
        SCHEMA.upgrade(operations, version)
        raise ZeroDivisionError

    broken = Schema(SCHEMA.version, SCHEMA.metadata, fail)
    monkeypatch.setattr("langchain_tokenmem.storage.transcript_store.SCHEMA", broken)
    with TranscriptStore(f"sqlite:///{path}") as store, pytest.raises(ZeroDivisionError):
        store.count("chat")
    assert dump(path) == before
    assert copies(path) == []
    monkeypatch.undo()
    with TranscriptStore(f"sqlite:///{path}") as store:
        assert store.count("chat") == 5


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE tokenmem_messages",
        "ALTER TABLE tokenmem_messages RENAME COLUMN digest TO content_hash",
        "DROP INDEX tokenmem_messages_unnamed",
        "UPDATE tokenmem_facts SET number = 7 WHERE name = 'shape'",
    ],
)
def test_a_damaged_older_database_is_refused_and_not_changed(path, change):
    build(path, "v3")
    with sqlite3.connect(path) as raw:
        raw.execute(change)
    raw.close()
    before = dump(path)
    with (
        TranscriptStore(f"sqlite:///{path}") as store,
        pytest.raises(CorruptStoreError, match="backup"),
    ):
        store.count("chat")
    assert dump(path) == before
    assert copies(path) == []


def test_tables_that_are_not_those_of_their_version_are_refused(path, monkeypatch):
    build(path, "v3")
    without = Schema(SCHEMA.version, SCHEMA.metadata, lambda _operations, _version: None)
    monkeypatch.setattr("langchain_tokenmem.storage.transcript_store.SCHEMA", without)
    before = dump(path)
    with (
        TranscriptStore(f"sqlite:///{path}") as store,
        pytest.raises(CorruptStoreError, match="not as that version made them"),
    ):
        store.count("chat")
    assert dump(path) == before


def test_a_new_database_that_says_it_is_an_older_one_is_refused(path):
    with TranscriptStore(f"sqlite:///{path}") as store:
        store.add("s", turn(1))
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE tokenmem_facts SET number = 3 WHERE name = 'schema_version'")
    raw.close()
    with TranscriptStore(f"sqlite:///{path}") as store, pytest.raises(CorruptStoreError):
        store.messages("s")


@pytest.mark.slow
def test_of_many_that_open_it_at_once_one_upgrades(path):
    build(path, "v3")
    stores = [TranscriptStore(f"sqlite:///{path}") for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(lambda store: store.count("chat"), stores)] == [5] * 4
    for store in stores:
        store.close()
    assert len(copies(path)) == 1


@pytest.mark.slow
def test_alembic_is_imported_for_an_upgrade_only(path):
    code = (
        "import sys\nfrom langchain_tokenmem import TranscriptStore\n"
        f"TranscriptStore('sqlite:///{path}').count('chat')\nprint('alembic' in sys.modules)"
    )

    def run() -> str:
        done = subprocess.run(  # noqa: S603  our own interpreter and text
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    build(path, "v3")
    assert [run(), run()] == ["True", "False"]


def test_without_a_copy_there_is_no_upgrade(path, monkeypatch):
    before = dump(build(path, "v3"))

    def fail(_self, _target):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with (
        TranscriptStore(f"sqlite:///{path}") as store,
        pytest.raises(StoreError, match=r"no copy could be made.*disk full"),
    ):
        store.count("chat")
    assert {file.suffix for file in path.parent.iterdir()} <= {".db", ".db-shm", ".db-wal"}
    assert dump(path) == before


def test_threads_sealed_with_a_key_are_refused_before_version_3(path):
    build(path, "v2")
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE tokenmem_checkpoint_spaces SET seal = x'00'")
    raw.close()
    before = dump(path)
    with (
        TranscriptStore(f"sqlite:///{path}") as store,
        pytest.raises(CorruptStoreError, match="sealed with a key"),
    ):
        store.count("chat")
    assert dump(path) == before
    assert copies(path) == []
