"""The same store on PostgreSQL, and beside it SQLite: one API, one behaviour."""

import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from postgres import pooled
from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.schema import CreateSchema
from stored_turns import turn

from langchain_tokenmem import Recall, TokenMemorySaver, TranscriptStore
from langchain_tokenmem.background import waiting_at_most
from langchain_tokenmem.errors import ConfigurationError, StoreError
from langchain_tokenmem.storage.sessions import find, save
from langchain_tokenmem.storage.tables import schema_sql
from tests.adapters.integrations import at, put


def test_reads_beside_writers_are_whole(store):
    """A read sees a session's row and its messages as of one moment, or it raises in vain."""
    stop = threading.Event()

    def read(_: int) -> None:
        while not stop.is_set():
            assert len(store.messages("s")) % 5 == 0
            assert len(store.conversation("s")[1]) % 5 == 0
            store.messages("not there")

    with ThreadPoolExecutor(2) as pool:
        readers = pool.map(read, range(2))
        for number in range(60):
            store.add("s", turn("w", number))
            if number % 20 == 19:
                store.clear("s")
        stop.set()
        assert [*readers] == [None, None]  # map() re-raises their errors


def test_a_server_that_is_not_there_is_a_store_error(tmp_path):
    store = TranscriptStore(f"postgresql+psycopg://u:secret@/x?host={tmp_path}", shared=True)
    with pytest.raises(StoreError) as error:
        store.messages("s")
    assert "secret" not in str(error.value)


def test_a_pool_without_a_free_connection_is_a_clear_error(postgres):
    engine = create_engine(postgres, pool_size=1, max_overflow=0, pool_timeout=0.1)
    with engine.connect(), pytest.raises(StoreError, match="in use, and nothing was stored"):
        TranscriptStore(engine=engine).add("s", [HumanMessage("Hello.")])
    engine.dispose()


@pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="PgBouncer is not installed")
def test_stores_behind_a_pooler_do_not_run_the_prepared_statements_of_others(postgres):
    with pooled(postgres) as url, TranscriptStore(url) as one, TranscriptStore(url) as other:
        for number in range(8):  # psycopg prepares what it runs more often than five times
            one.add("one", [HumanMessage(f"one {number}")])
            other.add("other", [HumanMessage(f"other {number}")])
            assert other.count("other") == one.count("one") == number + 1

        engines = [create_engine(url), create_engine(url)]  # of an application: left as they are
        stores = [TranscriptStore(engine=engine) for engine in engines]

        def add() -> None:
            for number in range(10):
                for store in stores:
                    store.add("s", [HumanMessage(f"s {number}")])

        with pytest.raises(StoreError, match="Behind PgBouncer, create the engine with"):
            add()
        for engine in engines:
            engine.dispose()


def test_an_engine_of_the_application_with_a_schema_of_its_own(postgres):
    engine = create_engine(
        postgres, execution_options={"schema_translate_map": {None: "memory"}}, pool_size=3
    )
    with engine.begin() as connection:
        connection.execute(CreateSchema("memory"))
    for _ in range(2):  # made, then found
        with TranscriptStore(engine=engine, shared=True) as store, Recall(store) as recall:
            store.add("s", [HumanMessage("The key is under the mat.")], user_id="ann")
            assert recall.search("the key", session_id="s", user_id="ann")
            assert store.database.url == engine.url
    with engine.connect() as connection:
        assert inspect(connection).get_table_names(schema="public") == []
        assert "tokenmem_messages" in inspect(connection).get_table_names(schema="memory")
    engine.dispose()


def test_the_printed_schema_makes_a_database_that_a_store_opens(url):
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in schema_sql(engine.dialect.name).split(";\n"):
            if statement.strip():
                connection.execute(text(statement))
    with TranscriptStore(url) as store:
        store.add("s", [HumanMessage("hi")])
        assert [message.content for message in store.messages("s")] == ["hi"]
    engine.dispose()
    with pytest.raises(ConfigurationError, match="use postgresql or sqlite"):
        schema_sql("mysql")


@contextmanager
def losing_its_connections(store: TranscriptStore, url: str, lost_at: str) -> Iterator[None]:
    """End every connection of a store once, right before a statement."""
    admin = create_engine(url, isolation_level="AUTOCOMMIT")
    others = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    losses = list[str]()
    store.sessions()  # connected

    def lose(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith(lost_at) and not losses:
            losses.append(statement)
            with admin.connect() as connection:
                connection.execute(others)

    event.listen(store.database._engine, "before_cursor_execute", lose)
    yield
    assert losses
    admin.dispose()


@pytest.mark.parametrize("lost_at", ["INSERT INTO tokenmem_messages", "INSERT INTO tokenmem_terms"])
def test_a_lost_connection_is_a_clear_error_and_the_next_call_works(postgres, lost_at, caplog):
    said = HumanMessage("The key is under the mat.", id="m1")
    with TranscriptStore(postgres) as store, Recall(store) as recall:
        with losing_its_connections(store, postgres, lost_at):
            with pytest.raises(
                StoreError, match=r"^Session 's': the connection .* was lost .*again"
            ):
                store.add("s", [said])
            assert store.messages("s") == []
            store.add("s", [said])
        assert [hit.text for hit in recall.search("the key", session_id="s")] == [said.content]
    assert not [one for one in caplog.records if one.name.startswith("langchain_tokenmem")]


@pytest.mark.parametrize("table", ["messages", "checkpoints", "checkpoint_writes"])
def test_a_step_that_was_lost_with_its_connection_is_stored_as_a_whole_when_it_comes_again(
    postgres, table
):
    with TranscriptStore(postgres) as store:
        saver = TokenMemorySaver(store)

        def step() -> None:
            said = [HumanMessage("Hello.", id="m1")]
            made = put(saver, at("t1"), "1", {"messages": said, "count": 1})
            saver.put_writes(made, [("a", 1), ("b", said)], "task")

        with losing_its_connections(store, postgres, f"INSERT INTO tokenmem_{table} "):
            with pytest.raises(StoreError, match="Thread 't1'"):
                step()
            step()
        (found,) = saver.list(at("t1"))
        assert found.checkpoint["channel_values"]["count"] == 1
        assert [channel for _, channel, _ in found.pending_writes] == ["a", "b"]
        assert [message.id for message in store.messages("t1")] == ["m1"]


def test_a_turn_waits_for_a_locked_thread_no_longer_than_it_may(postgres):
    with TranscriptStore(postgres) as one, TranscriptStore(postgres) as other:
        one.add("s", [HumanMessage("first", id="1")])
        with (
            one.database.writing("here", "s"),
            waiting_at_most(0.1),
            pytest.raises(StoreError, match="nothing was done"),
        ):
            other.add("s", [HumanMessage("second", id="2")])
        other.add("s", [HumanMessage("second", id="2")])
        assert [message.content for message in one.messages("s")] == ["first", "second"]


def test_who_waited_for_a_thread_reads_its_row_as_it_is_by_then(postgres):
    with TranscriptStore(postgres) as one, TranscriptStore(postgres) as other:
        one.add("s", [HumanMessage("first", id="1")])
        seen: list[int] = []

        def wait():
            with other.database.writing("here") as connection:
                found = find(connection, "s", lock=True)
                seen.append(found.last_seq if found else 0)

        waiting = threading.Thread(target=wait)
        with one.database.writing("here") as connection:
            session = find(connection, "s", lock=True)
            waiting.start()
            waiting.join(0.5)
            assert waiting.is_alive()
            assert session is not None
            save(connection, session, last_seq=7)
        waiting.join(10)
    assert seen == [7]


def test_a_lease_refuses_a_second_owner_until_it_is_given_back_or_expires(store):
    store.add("s", [HumanMessage("hi")])
    assert store.lease("s", "first", 60)
    assert store.lease("s", "first", 60)
    store.release("s", "second")
    assert not store.lease("s", "second", 60)
    store.release("s", "first")
    assert store.lease("s", "second", 0.3)
    assert not store.lease("s", "first", 60)
    time.sleep(0.35)
    assert store.lease("s", "first", 60)
    assert not store.lease("no such session", "first", 60)


@pytest.mark.parametrize("is_expired", [False, True], ids=["new", "expired"])
def test_eight_threads_ask_for_a_lease_and_one_gets_it(store, is_expired):
    store.add("s", [HumanMessage("hi")])
    for attempt in range(5):
        if is_expired:
            assert store.lease("s", f"killed {attempt}", 0.0)
        together = threading.Barrier(8)

        def ask(number: int, together: threading.Barrier = together) -> str | None:
            together.wait()
            owner = f"thread {number}"
            return owner if store.lease("s", owner, 60) else None

        with ThreadPoolExecutor(8) as pool:
            (owner,) = filter(None, pool.map(ask, range(8)))
        store.release("s", owner)
