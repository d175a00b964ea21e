"""LangGraph's own savers, opened by URL, and what the interface of a saver does not tell.

LangGraph's own savers are asked in SQL for all their threads and the paths of their tasks, ours by
their store; for any other one the interface has to do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from langchain_tokenmem.adapters.checkpoints.thread_methods import ThreadSaver
from langchain_tokenmem.errors import ConfigurationError, StoreError
from langchain_tokenmem.storage.checkpoints.checkpoint_rows import every_checkpoint
from langchain_tokenmem.storage.checkpoints.namespaces import namespaces_of
from langchain_tokenmem.storage.checkpoints.records import Address, errors_about

_LANGGRAPH_TABLES = {
    "langgraph.checkpoint.sqlite": ("checkpoints", "writes", "?"),
    "langgraph.checkpoint.postgres": ("checkpoints", "checkpoint_writes", "%s"),
}
"""Modules of savers with a `cursor()`: their tables, and how a parameter is written."""


class CheckpointKey(NamedTuple):
    """Where a checkpoint is in its thread."""

    namespace: str
    checkpoint_id: str


@contextmanager
def langgraph_saver(
    url: str, serde: SerializerProtocol
) -> Iterator[BaseCheckpointSaver[Any] | None]:
    """Open LangGraph's own saver on a database; None when there is none in it.

    Args:
        url: `sqlite:///file.db`, the path of a file, or `postgresql://...`.
        serde: Reads the values; a strict one, for the database may hold anything.

    Raises:
        ConfigurationError: When the saver's package is not installed.
        StoreError: When the database cannot be opened.
    """
    try:
        if url.startswith(("postgresql", "postgres:")):
            with _on_postgres(url, serde) as saver:
                yield saver
        else:
            with _on_sqlite(url, serde) as saver:
                yield saver
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"To read this database {error.name} is needed: pip install "
            f"langgraph-checkpoint-sqlite, or langgraph-checkpoint-postgres."
        ) from error


@contextmanager
def _on_sqlite(url: str, serde: SerializerProtocol) -> Iterator[BaseCheckpointSaver[Any] | None]:
    from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415  # optional

    # Only a URL has a query; in the path of a file every sign is one of its name.
    path = url.removeprefix("sqlite:///").partition("?")[0] if "://" in url else url
    try:
        # "rw" never makes a file; the saver itself may add a column to an old one.
        opened = sqlite3.connect(f"file:{quote(path)}?mode=rw", uri=True, check_same_thread=False)
        with closing(opened):
            names = opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            has_it = ("checkpoints",) in names and ("writes",) in names
            yield SqliteSaver(opened, serde=serde) if has_it else None
    except sqlite3.Error as error:
        raise StoreError(f"{path}: the database could not be read ({error}).") from error


@contextmanager
def _on_postgres(url: str, serde: SerializerProtocol) -> Iterator[BaseCheckpointSaver[Any] | None]:
    import psycopg  # noqa: PLC0415  # optional
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415  # optional
    from psycopg.rows import dict_row  # noqa: PLC0415

    address = url.replace("postgresql+psycopg:", "postgresql:", 1)
    try:
        with psycopg.connect(address, autocommit=True, row_factory=dict_row) as connection:
            query = "SELECT to_regclass('checkpoint_writes') AS found"
            row = connection.execute(query).fetchone()
            has_it = row is not None and row["found"] is not None
            yield PostgresSaver(connection, serde=serde) if has_it else None
    except psycopg.Error as error:
        raise StoreError(f"The database could not be read ({error}).") from error


def thread_ids(saver: BaseCheckpointSaver[Any]) -> list[str]:
    """Return the ids of all threads."""
    if isinstance(saver, InMemorySaver):
        return sorted(saver.storage, key=str)
    if isinstance(saver, ThreadSaver):
        store = saver._checkpoints  # noqa: SLF001  # what the saver itself reads with
        with store.database.reading("The list of threads") as connection:
            found = namespaces_of(connection, store.codec, None)
        return sorted({namespace.thread_id for namespace in found if namespace.checkpoint_count})
    tables = _tables(saver)
    if tables is None:
        named = {_configurable(found)["thread_id"] for found in saver.list(None)}
        return sorted(named, key=str)
    rows = _rows(saver, f"SELECT DISTINCT thread_id FROM {tables[0]}")  # noqa: S608  # our names
    return sorted(str(row[0]) for row in rows)


def checkpoints_of(saver: BaseCheckpointSaver[Any], thread: str) -> dict[CheckpointKey, str | None]:
    """Return a thread's checkpoints with the ids of their parents, without holding their values."""
    if isinstance(saver, ThreadSaver):
        return _in_our_store(saver, thread)
    tables = _tables(saver)
    if tables is not None:
        query = (
            f"SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM {tables[0]} "  # noqa: S608  # our names
            f"WHERE thread_id = {tables[2]}"
        )
        rows = _rows(saver, query, thread)
        return {CheckpointKey(str(row[0]), str(row[1])): row[2] for row in rows}
    return {
        CheckpointKey(named.get("checkpoint_ns", ""), named["checkpoint_id"]): parent
        for named, parent in (
            (
                _configurable(one),
                (one.parent_config or {}).get("configurable", {}).get("checkpoint_id"),
            )
            for one in saver.list({"configurable": {"thread_id": thread}})
        )
    }


def _in_our_store(saver: ThreadSaver, thread: str) -> dict[CheckpointKey, str | None]:
    store, found = saver._checkpoints, dict[CheckpointKey, str | None]()  # noqa: SLF001  # as above
    with store.database.reading(f"Thread {thread!r}") as connection:
        for namespace in namespaces_of(connection, store.codec, thread):
            with errors_about(Address(thread, namespace.ns)):
                for one in every_checkpoint(connection, store.codec, namespace):
                    found[CheckpointKey(namespace.ns, one.id)] = one.parent
    return found


def task_paths(saver: BaseCheckpointSaver[Any], found: CheckpointTuple) -> dict[str, str]:
    """Return the path of each task that has pending writes.

    Where it cannot be known, paths are made up that keep the order of the writes.
    """
    tasks = list(dict.fromkeys(write[0] for write in found.pending_writes or ()))
    named = _configurable(found)
    key = (named["thread_id"], named.get("checkpoint_ns", ""), named["checkpoint_id"])
    if isinstance(saver, InMemorySaver):
        return {write[0]: write[3] for write in saver.writes.get(key, {}).values()}
    tables = _tables(saver)
    if tables is not None and tasks:
        _, writes, mark = tables
        query = (
            f"SELECT task_id, task_path FROM {writes} WHERE thread_id = {mark} "  # noqa: S608  # our names
            f"AND checkpoint_ns = {mark} AND checkpoint_id = {mark}"
        )
        return {str(row[0]): str(row[1]) for row in _rows(saver, query, *key)}
    if tasks == sorted(tasks):
        return {}
    return {task: f"{number:06}" for number, task in enumerate(tasks)}


def _configurable(found: CheckpointTuple) -> dict[str, Any]:
    return found.config["configurable"]


def _tables(saver: Any) -> tuple[str, str, str] | None:
    for module, tables in _LANGGRAPH_TABLES.items():
        if any(base.__module__ == module for base in type(saver).__mro__):
            return tables
    return None


def _rows(saver: Any, query: str, *parameters: str) -> list[tuple[Any, ...]]:
    with _cursor(saver) as cursor:
        cursor.execute(query, parameters)
        rows = cursor.fetchall()
    return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows]


@contextmanager
def _cursor(saver: Any) -> Iterator[Any]:
    if hasattr(saver, "cursor"):
        with saver.cursor(transaction=False) as cursor:
            yield cursor
    else:  # PostgresSaver has no public one
        with saver._cursor() as cursor:  # noqa: SLF001
            yield cursor
