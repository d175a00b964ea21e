"""Opens LangGraph's savers, and reads names of threads, checkpoints and tasks from any saver.

The interface of a saver gives names only together with values. LangGraph's own savers are asked in
SQL, ours by their store; for any other one the interface has to do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from langchain_tokenmem.adapters.checkpoints.thread_methods import ThreadSaver
from langchain_tokenmem.adapters.migration.comparison import parent_of
from langchain_tokenmem.adapters.migration.errors import reading_source
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.checkpoints.checkpoint_rows import every_checkpoint
from langchain_tokenmem.storage.checkpoints.namespaces import namespaces_of
from langchain_tokenmem.storage.checkpoints.records import Address, errors_about

_WRITES_TABLES = {
    "langgraph.checkpoint.sqlite": ("writes", "?"),
    "langgraph.checkpoint.postgres": ("checkpoint_writes", "%s"),
}
"""Modules of savers in SQL: their table of pending writes, and how a parameter is written."""


class CheckpointKey(NamedTuple):
    """Key of a checkpoint in its thread."""

    namespace: str
    checkpoint_id: str


def thread_ids(saver: BaseCheckpointSaver[Any]) -> list[str]:
    """Return the ids of all threads."""
    if isinstance(saver, InMemorySaver):
        found = {*saver.storage}
    elif isinstance(saver, ThreadSaver):
        store = saver._checkpoints  # noqa: SLF001  # what the saver itself reads with
        with store.reading("The list of threads") as tx:
            namespaces = namespaces_of(tx, None)
        found = {namespace.thread_id for namespace in namespaces if namespace.checkpoint_count}
    elif _in_sql(saver):
        found = {row[0] for row in _rows(saver, "SELECT DISTINCT thread_id FROM checkpoints")}
    else:
        found = {one.config["configurable"]["thread_id"] for one in saver.list(None)}
    return sorted(found, key=str)


def checkpoints_of(saver: BaseCheckpointSaver[Any], thread: str) -> dict[CheckpointKey, str | None]:
    """Return a thread's checkpoints with the ids of their parents, without holding their values."""
    if isinstance(saver, ThreadSaver):
        return _in_our_store(saver, thread)
    if isinstance(saver, InMemorySaver):
        return {
            CheckpointKey(namespace, checkpoint_id): parent
            for namespace, checkpoints in saver.storage.get(thread, {}).items()
            for checkpoint_id, (_, _, parent) in checkpoints.items()
        }
    if _in_sql(saver):
        query = "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints"
        rows = _rows(saver, query, thread_id=thread)
        return {CheckpointKey(row[0], row[1]): row[2] for row in rows}
    return {
        CheckpointKey(*_address(found)[1:]): parent_of(found)
        for found in saver.list({"configurable": {"thread_id": thread}})
    }


def _in_our_store(saver: ThreadSaver, thread: str) -> dict[CheckpointKey, str | None]:
    store, found = saver._checkpoints, dict[CheckpointKey, str | None]()  # noqa: SLF001  # as above
    with store.reading(f"Thread {thread!r}") as tx:
        for namespace in namespaces_of(tx, thread):
            with errors_about(Address(thread, namespace.ns)):
                for one in every_checkpoint(tx, namespace):
                    found[CheckpointKey(namespace.ns, one.id)] = one.parent
    return found


def task_paths(saver: BaseCheckpointSaver[Any], found: CheckpointTuple) -> dict[str, str]:
    """Return the path of each task that has pending writes.

    Where it cannot be known, paths are made up that keep the order of the writes.
    """
    tasks = list(dict.fromkeys(write[0] for write in found.pending_writes or ()))
    key = _address(found)
    if isinstance(saver, InMemorySaver):
        return {write[0]: write[3] for write in saver.writes.get(key, {}).values()}
    if tasks and (in_sql := _in_sql(saver)):
        columns = dict(zip(("thread_id", "checkpoint_ns", "checkpoint_id"), key, strict=True))
        return dict(_rows(saver, f"SELECT task_id, task_path FROM {in_sql[0]}", **columns))  # noqa: S608  # our names
    if tasks == sorted(tasks):
        return {}
    return {task: f"{number:06}" for number, task in enumerate(tasks)}


def _address(found: CheckpointTuple) -> tuple[str, str, str]:
    names = found.config["configurable"]
    return names["thread_id"], names.get("checkpoint_ns", ""), names["checkpoint_id"]


def _in_sql(saver: Any) -> tuple[str, str] | None:
    modules = [base.__module__ for base in type(saver).__mro__]
    return next((_WRITES_TABLES[name] for name in modules if name in _WRITES_TABLES), None)


def _rows(saver: Any, query: str, **equals: str) -> list[tuple[Any, ...]]:
    """Return the rows whose columns have these values; a PostgresSaver gives them as dicts."""
    _, mark = _in_sql(saver) or ("", "")
    where = " AND ".join(f"{column} = {mark}" for column in equals)
    # PostgresSaver has no public one.
    opened = saver.cursor(transaction=False) if hasattr(saver, "cursor") else saver._cursor()  # noqa: SLF001
    with opened as cursor:
        cursor.execute(f"{query} WHERE {where}" if where else query, tuple(equals.values()))
        rows = cursor.fetchall()
    return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows]


@contextmanager
def langgraph_saver(
    address: Any, serde: SerializerProtocol
) -> Iterator[BaseCheckpointSaver[Any] | None]:
    """Open LangGraph's own saver on a database; None when there is none in it.

    Args:
        address: The database, as SQLAlchemy's URL.
        serde: Reads the values; a strict one, for the database may hold anything.

    Raises:
        ConfigurationError: When the saver's package is not installed.
        StoreError: When the database cannot be opened.
    """
    with reading_source("The database"):
        opened, saver_type, query = _connect(address)
    with closing(opened):
        with reading_source("The database"):
            (has_tables,) = opened.execute(query).fetchone()
        yield saver_type(opened, serde=serde) if has_tables else None


def _connect(address: Any) -> tuple[Any, type[Any], str]:
    """Return a connection, the saver that works on it, and a query that looks for its tables."""
    try:
        if address.get_backend_name() == "sqlite":
            from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415  # optional

            query = "SELECT count(*) = 2 FROM sqlite_master WHERE name IN ('checkpoints', 'writes')"
            return sqlite3.connect(str(address.database)), SqliteSaver, query
        import psycopg  # noqa: PLC0415  # optional
        from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415  # optional
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"To read this database {error.name} is needed: pip install "
            f"langgraph-checkpoint-sqlite, or langgraph-checkpoint-postgres."
        ) from error
    conninfo = address.set(drivername="postgresql").render_as_string(hide_password=False)
    query = "SELECT count(to_regclass('checkpoint_writes'))"
    return psycopg.connect(conninfo, autocommit=True), PostgresSaver, query
