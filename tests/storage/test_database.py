"""Opening a database, and saying why it does not open."""

import gc
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from time import monotonic, sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.background import waiting_at_most
from langchain_tokenmem.errors import ConfigurationError, StoreError
from langchain_tokenmem.storage import connections
from langchain_tokenmem.storage.database_url import parsed
from tests.storage.samples import turn

# --- the connection that writes


@pytest.fixture
def filled(path) -> Iterator[TranscriptStore]:
    """A store in a file with a turn in it; all readers have one connection."""
    with TranscriptStore(path, pool_size=1) as store:
        store.add("s", turn(1))
        yield store


def test_one_reads_while_another_writes_with_one_connection_for_readers(filled):
    with filled.database.writing("here"):
        found = ThreadPoolExecutor(1).submit(filled.messages, "s").result(10)
    assert len(found) == 2


def test_closing_waits_for_who_writes_and_cuts_nothing_off(filled):
    with ThreadPoolExecutor(2) as threads:
        with filled.database.writing("here"):
            closed = threads.submit(filled.close)
            waiting = threads.submit(filled.add, "s", turn(2))
            sleep(0.1)
            assert not closed.done()
            assert not waiting.done()
        closed.result(10)
        waiting.result(10)
        assert len(filled.messages("s")) == 4


def test_no_wait_for_a_connection_is_longer_than_the_turn_may_wait(filled):
    with ThreadPoolExecutor(1) as threads, filled.database.reading("here"):
        with filled.database.reading("there"), waiting_at_most(0.1):
            began = monotonic()
            waits = threads.submit(copy_context().run, filled.messages, "s")
            with pytest.raises(StoreError, match="every connection to the database is in use"):
                waits.result(20)
            assert monotonic() - began < 20
        assert len(threads.submit(filled.messages, "s").result(10)) == 2


def test_who_never_gets_a_turn_is_told_so(filled, monkeypatch):
    monkeypatch.setattr(connections, "BUSY_SECONDS", 0.05)
    with ThreadPoolExecutor(1) as threads:
        with filled.database.writing("here"):
            with pytest.raises(StoreError, match=r"has been writing for 0\.05 s"):
                threads.submit(filled.add, "s", turn(2)).result(10)
            with pytest.raises(StoreError, match="Closing the database"):
                threads.submit(filled.close).result(10)
        filled.add("s", turn(2))
        assert len(filled.messages("s")) == 4


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["begin", "commit"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), sqlite3.OperationalError("disk I/O error")])
def test_a_writer_that_failed_leaves_no_lock_and_the_next_one_writes(
    filled, path, moment, when, error
):
    dialect = filled.database._open("test").dialect
    do = getattr(dialect, f"do_{moment}")

    def fail(connection):
        if when == "after":
            do(connection)
        raise error

    with TranscriptStore(path) as other:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dialect, f"do_{moment}", fail)
            patch.setattr(connections, "BUSY_SECONDS", 0.1)
            with pytest.raises((KeyboardInterrupt, StoreError)):
                filled.add("s", turn(2))
        other.add("s", turn(3))
        filled.add("s", turn(4))
    assert len(filled.messages("s")) == (8 if (when, moment) == ("after", "commit") else 6)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_and_its_parent_both_write(filled):
    child = os.fork()
    if child == 0:
        try:
            filled.add("s", turn(2))
            gc.collect()  # what it has of its parent's connections is not closed
            os._exit(0)
        finally:
            os._exit(1)
    filled.add("s", turn(3))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    filled.add("s", turn(4))
    assert len(filled.messages("s")) == 8


# --- a file that is gone, or only to be read


def reopened_is_written(store: TranscriptStore, path: Path, count: int) -> None:
    """Close a store after its file was deleted, and check that it continues with the new file."""
    store.close()
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    store.add("s", turn(3))
    assert store.count("s") == count


@pytest.mark.parametrize("ends", [["", "-wal", "-shm"], [""]])
def test_a_deleted_database_file_is_noticed_at_the_next_write(filled, path, ends):
    for end in ends:
        Path(f"{path}{end}").unlink()
    with pytest.raises(StoreError, match=r"was deleted.*nothing was stored.*close\(\)"):
        filled.add("s", turn(2))
    assert not path.exists()
    reopened_is_written(filled, path, 2)  # as the error says: a new file


def test_a_replaced_database_file_is_noticed_and_read_after_closing(filled, path):
    filled.close()
    backup = shutil.copy(path, path.with_name("backup.db"))
    filled.add("s", turn(2))
    backup.replace(path)
    with pytest.raises(StoreError, match="replaced by another one"):
        filled.add("s", turn(3))
    reopened_is_written(filled, path, 4)


def test_a_file_that_is_named_as_read_only_is_read(filled, path):
    filled.close()
    path.chmod(0o444)
    with TranscriptStore(f"sqlite:///file:{path}?mode=ro&uri=true") as store:
        assert store.count("s") == 2
        with pytest.raises(StoreError, match="read-only"):
            store.add("s", turn(2))
        with Recall(store) as recall:
            assert len(recall.history_search("", session_id="s")) == 2
        assert store.count("s") == 2


def test_a_disk_that_is_full_is_an_error_with_advice_and_nothing_stored_is_lost(filled):
    def fill():
        with filled.database.writing("s") as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
            connection.exec_driver_sql("CREATE TABLE more AS SELECT zeroblob(1000000) AS data")

    with pytest.raises(StoreError, match=r"is full.*Free space"):
        fill()
    filled.add("s", turn(2))
    assert len(filled.messages("s")) == 4


# --- URLs and paths


PASSWORDS = st.text(st.sampled_from("Zq9@:/%?#[] \\$"), min_size=1, max_size=12).map(
    "ZZ{}ZZ".format
)


@given(
    scheme=st.sampled_from(["postgres", "postgresql+psycopg", "postgresql+no", "mysql", "x"]),
    password=PASSWORDS,
    end=st.sampled_from(["@host/db", "@host:12x/db", "@ho st", "", "@host:port:port/db"]),
)
def test_the_error_for_a_bad_url_shows_no_part_of_the_password(scheme, password, end):
    try:
        TranscriptStore(f"{scheme}://user:{password}{end}").close()
    except ConfigurationError as error:
        shown = (str(error), error.__cause__, error.__context__)  # a log shows the whole chain
        assert "ZZ" not in shown[0]
        assert shown[1:] == (None, None)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        *((url, ".") for url in ("", " ", 7, None, ["sqlite://"], "mysql://x", "a?mode=ZZ")),
        *((url, ".") for url in ("user:ZZtop@host/db", "oracle:ZZ")),
        ("postgre://user:ZZ@host/db", r'TranscriptStore\("memory\.db"\).*\+psycopg://'),
        ("postgresql+psycopg://user:a@ZZb@host/db", "%40"),
        ("postgresql+psycopg://user:a@ZZb/ZZc@host/db", "%40"),
        ("sqlite://memory.db", r"three slashes, sqlite:///memory\.db"),
        *(
            (f"sqlite:///{ending}", r"sqlite:///file:memory\.db\?mode=ro&uri=true")
            for ending in ("m.db?mode=ro", "file:m.db?mode=ro", "m.db?mode=ro&uri=true")
        ),
        ("sqlite+aiosqlite:///memory.db", "write sqlite:// instead"),
        ("postgresql+asyncpg://u:ZZ@h/db", r"write postgresql\+psycopg:// instead"),
    ],
)
def test_a_url_that_cannot_be_is_refused_with_the_right_one_without_its_password(url, says):
    with pytest.raises(ConfigurationError, match=says) as error:
        TranscriptStore(url)
    assert "ZZ" not in str(error.value)


READ_ONLY = "sqlite:///file:{}?mode=ro&uri=true"


@pytest.mark.parametrize(
    ("url", "error", "says"),
    [
        *(
            (form.format("{}/missing/memory.db"), StoreError, r"the folder of .* does not exist")
            for form in ("{}", "sqlite:///{}", READ_ONLY)
        ),
        ("{}", StoreError, "is a folder"),
        (READ_ONLY.format("{}/none.db"), StoreError, r"add &immutable=1 if no -wal file"),
        ("postgresql://host/{}", ConfigurationError, r"psycopg is not installed.*\[postgres\]"),
    ],
)
def test_what_cannot_be_opened_is_named_with_its_cause(tmp_path, monkeypatch, url, error, says):
    monkeypatch.setitem(sys.modules, "psycopg", None)  # its import raises
    with TranscriptStore(url.format(tmp_path)) as store, pytest.raises(error, match=says):
        store.messages("s")


@pytest.mark.parametrize("name", ["my memory", "100%?#.db", "notes?v=1", Path("memory.db")])
def test_a_path_is_taken_as_a_sqlite_file(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with TranscriptStore(name) as store:
        store.add("s1", turn(1))
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_a_url_as_hosting_services_hand_it_out_is_understood(scheme):
    found = parsed(f"{scheme}://ann:secret@db:5432/chat?sslmode=require")
    assert found.drivername == "postgresql+psycopg"
    assert found.query == {"sslmode": "require"}


@pytest.mark.parametrize(
    ("engine", "problem"),
    [
        (create_engine("sqlite://"), "engine= is of sqlite"),
        ("sqlite://", "engine= is str"),
        (create_async_engine("postgresql+psycopg://u@h/db"), "is an async driver"),
    ],
)
def test_an_engine_that_does_not_fit_is_refused(engine, problem):
    with pytest.raises(ConfigurationError, match=problem):
        TranscriptStore(engine=engine)
    with pytest.raises(ConfigurationError, match="not by both"):
        TranscriptStore("memory.db", engine=create_engine("postgresql+psycopg://u@h/db"))
