"""Rows of pending writes: values that tasks wrote and the next checkpoint takes up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, insert, select

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.checkpoint_rows import CheckpointRow, InlineValue
from langchain_tokenmem.storage.checkpoints.codec import Transaction
from langchain_tokenmem.storage.checkpoints.tables import writes
from langchain_tokenmem.storage.database.statements import Statement
from langchain_tokenmem.storage.transcripts.encoded_message import key_of

_HERE = (
    writes.c.namespace_id == bindparam("b_namespace_id"),
    writes.c.checkpoint_key == bindparam("b_key"),
)
_INSERT = Statement(insert(writes))
_WRITES = Statement(select(writes).where(*_HERE))
_PLACES = Statement(select(writes.c.task_key, writes.c.idx).where(*_HERE))
_DELETE = Statement(
    delete(writes).where(
        *_HERE, writes.c.task_key == bindparam("b_task"), writes.c.idx == bindparam("b_idx")
    )
)


@dataclass(frozen=True)
class PendingWrite:
    """A pending write, in the order in which writes are applied: path, task, number."""

    task_path: str
    task_id: str
    idx: int
    channel: str
    value: InlineValue


def read_writes(
    tx: Transaction, namespace_id: int, checkpoint: CheckpointRow
) -> list[PendingWrite]:
    """Return the pending writes of a checkpoint in the order in which they are applied.

    Raises:
        CorruptStoreError: When one is damaged or missing.
    """
    names = {"b_namespace_id": namespace_id, "b_key": key_of(checkpoint.id)}
    found = []
    for row in _WRITES.all(tx.connection, names):
        tx.codec.unsealed(writes, row)
        task_path, task_id, channel, shape = tx.codec.unpack(row["value"])
        value = InlineValue(row["message_refs"], shape)
        found.append(PendingWrite(task_path, task_id, row["idx"], channel, value))
    if len(found) != checkpoint.write_count:
        raise CorruptStoreError(
            f"{checkpoint.write_count} pending writes should be there, {len(found)} were found"
        )
    return sorted(found, key=lambda one: (one.task_path, one.task_id, one.idx))


def write_places(connection: Connection, namespace_id: int, key: str) -> set[tuple[str, int]]:
    """Return the pending writes of a checkpoint, as key of the task and number."""
    names = {"b_namespace_id": namespace_id, "b_key": key}
    return {(row["task_key"], row["idx"]) for row in _PLACES.all(connection, names)}


def insert_writes(
    tx: Transaction, namespace_id: int, key: str, new: Sequence[PendingWrite], now: datetime
) -> None:
    """Insert pending writes; those that are there already must have been deleted."""
    rows = [
        tx.codec.sealed(
            {
                "namespace_id": namespace_id,
                "checkpoint_key": key,
                "task_key": key_of(one.task_id),
                "idx": one.idx,
                "written_at": round(now.timestamp()),
                "message_refs": one.value.refs,
                "value": tx.codec.pack([one.task_path, one.task_id, one.channel, one.value.shape]),
            }
        )
        for one in new
    ]
    if rows:
        _INSERT.run_all(tx.connection, rows)


def delete_write(
    connection: Connection, namespace_id: int, key: str, task_key: str, idx: int
) -> None:
    """Delete a pending write, to make room for another one."""
    names = {"b_namespace_id": namespace_id, "b_key": key, "b_task": task_key, "b_idx": idx}
    _DELETE.run(connection, names)
