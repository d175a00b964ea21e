"""Upgrades of older databases: on PostgreSQL, by several processes, and killed in the middle."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from langgraph.types import Command
from sqlalchemy import create_engine, text

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.schema_versions import SCHEMA
from tests.storage.database.schemas.contents import CONFIG, contents, graph_of

FOLDER = Path(__file__).parents[1] / "tests" / "storage" / "database" / "schemas"
NAMES = [path.name.partition(".")[0] for path in sorted(FOLDER.glob("*.postgresql.sql"))]

OPEN = """
import sys
from langchain_tokenmem import TranscriptStore
print(TranscriptStore(sys.argv[1]).count("chat"))
"""

DIE = """
import os, sys
from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.storage.database import upgrade
def die(connection):
    os.kill(os.getpid(), 9)
upgrade.save_table_layout = die  # after the last change, before the commit
TranscriptStore(sys.argv[1]).count("chat")
"""


@pytest.fixture
def older(postgres: str, request: pytest.FixtureRequest) -> str:
    """The URL of a database as an older package left it."""
    engine = create_engine(postgres)
    with engine.begin() as connection:
        script = (FOLDER / f"{request.param}.postgresql.sql").read_text(encoding="utf-8")
        connection.connection.driver_connection.execute(script)
    engine.dispose()
    return postgres


def run(code: str, url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, url],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(("older", "name"), [(name, name) for name in NAMES], indirect=["older"])
def test_an_older_database_reads_back_as_its_own_version_read_it(older, name):
    expected = json.loads((FOLDER / f"{name}.postgresql.json").read_text(encoding="utf-8"))
    everything = name != "v1_transcripts"
    with TranscriptStore(older) as store:
        assert json.loads(json.dumps(contents(store, everything=everything))) == expected
        if everything:
            assert graph_of(store).invoke(Command(resume=7), CONFIG)["step"] == 7
    engine = create_engine(older)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), SCHEMA.metadata) == []
    engine.dispose()


@pytest.mark.parametrize("older", NAMES, indirect=True)
def test_edits_supersede_in_an_older_database_once_it_is_upgraded_on_postgresql(older):
    with TranscriptStore(older) as store:
        (first, *rest) = store.messages("chat", user_id="ann")
        edited = first.model_copy(update={"content": "Where is order 4712?"})
        assert store.add("chat", [edited], user_id="ann") == []
    with TranscriptStore(older) as store:
        assert store.messages("chat", user_id="ann") == [edited, *rest]
        assert store.get("chat", first.id, include_superseded=True).content == first.content
        assert store.erase(session_id="chat", user_id="ann")["message_edits"] == 1


@pytest.mark.parametrize("older", ["v3"], indirect=True)
def test_of_several_processes_one_upgrades_on_postgresql(older):
    with ThreadPoolExecutor(4) as threads:
        done = [*threads.map(lambda _: run(OPEN, older), range(4))]
    assert [one.stdout.strip() for one in done] == ["5"] * 4, done
    assert sum("was upgraded" in one.stderr for one in done) == 1


@pytest.mark.parametrize("older", ["v3"], indirect=True)
def test_a_newer_database_is_refused_on_postgresql(older):
    engine = create_engine(older)
    with engine.begin() as connection:
        connection.execute(text("UPDATE tokenmem_facts SET number = 99"))
    engine.dispose()
    with TranscriptStore(older) as store, pytest.raises(CorruptStoreError, match="Upgrade"):
        store.count("chat")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "memory.db"
    with sqlite3.connect(path) as raw:
        raw.executescript((FOLDER / "v3.sqlite.sql").read_text(encoding="utf-8"))
        raw.execute("PRAGMA journal_mode = WAL")
    raw.close()
    return path


def test_of_several_processes_one_upgrades_a_file(file):
    with ThreadPoolExecutor(4) as threads:
        done = [*threads.map(lambda _: run(OPEN, f"sqlite:///{file}"), range(4))]
    assert [one.stdout.strip() for one in done] == ["5"] * 4, done
    assert len([*file.parent.glob("*.bak")]) == 1


def test_an_upgrade_that_is_killed_leaves_the_older_schema(file):
    with sqlite3.connect(file) as raw:
        before = [*raw.iterdump()]
    raw.close()
    assert run(DIE, f"sqlite:///{file}").returncode == -9
    with sqlite3.connect(file) as raw:
        assert [*raw.iterdump()] == before
    raw.close()
    assert run(OPEN, f"sqlite:///{file}").stdout.strip() == "5"


@pytest.mark.parametrize("older", ["v3"], indirect=True)
def test_an_upgrade_that_is_killed_leaves_the_older_schema_on_postgresql(older):
    assert run(DIE, older).returncode == -9
    engine = create_engine(older)
    with engine.connect() as connection:
        query = text("SELECT number FROM tokenmem_facts WHERE name = 'schema_version'")
        assert connection.execute(query).scalar() == 3
        assert connection.execute(text("SELECT count(was_named) FROM tokenmem_messages")).scalar()
    engine.dispose()
    assert run(OPEN, older).stdout.strip() == "5"
