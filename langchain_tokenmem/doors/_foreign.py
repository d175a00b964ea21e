"""What the interface of a checkpointer does not tell: all its threads, and the paths of its tasks.

LangGraph's own savers are asked in SQL; for any other one the interface has to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver

_STOCK = {
    "langgraph.checkpoint.sqlite": ("checkpoints", "writes", "?"),
    "langgraph.checkpoint.postgres": ("checkpoints", "checkpoint_writes", "%s"),
}
"""Modules of savers with a `cursor()`: their tables, and how a parameter is written."""


def thread_ids(saver: BaseCheckpointSaver[Any]) -> list[str]:
    """Return the ids of all threads."""
    if isinstance(saver, InMemorySaver):
        return sorted(saver.storage)
    tables = _tables(saver)
    if tables is None:
        named = {_configurable(found)["thread_id"] for found in saver.list(None)}
        return sorted(named)
    rows = _rows(saver, f"SELECT DISTINCT thread_id FROM {tables[0]}")  # noqa: S608  # our names
    return sorted(str(row[0]) for row in rows)


def checkpoints_of(saver: BaseCheckpointSaver[Any], thread: str) -> list[tuple[str, str]]:
    """Return namespace and id of a thread's checkpoints, without holding their values."""
    tables = _tables(saver)
    if tables is not None:
        query = f"SELECT checkpoint_ns, checkpoint_id FROM {tables[0]} WHERE thread_id = {tables[2]}"  # noqa: S608  # our names
        return [(str(row[0]), str(row[1])) for row in _rows(saver, query, thread)]
    found = (_configurable(one) for one in saver.list({"configurable": {"thread_id": thread}}))
    return [(one.get("checkpoint_ns", ""), one["checkpoint_id"]) for one in found]


def task_paths(saver: BaseCheckpointSaver[Any], found: CheckpointTuple) -> dict[str, str]:
    """Return the path of each task that has pending writes.

    Where it cannot be known, paths are made up that keep the order of the writes.
    """
    tasks = list(dict.fromkeys(write[0] for write in found.pending_writes or ()))
    place = _configurable(found)
    key = (place["thread_id"], place.get("checkpoint_ns", ""), place["checkpoint_id"])
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
    for module, tables in _STOCK.items():
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
    opened = saver.cursor(transaction=False) if hasattr(saver, "setup") and hasattr(
        saver, "cursor"
    ) else saver._cursor()  # noqa: SLF001  # PostgresSaver has no public one
    with opened as cursor:
        yield cursor
