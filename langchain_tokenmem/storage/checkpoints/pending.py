"""The rows of pending writes: what tasks wrote that the next checkpoint takes up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.rows import AT, RECOUNT, SEALED, checked
from langchain_tokenmem.storage.checkpoints.tables import writes
from langchain_tokenmem.storage.database.statements import Statement
from langchain_tokenmem.storage.transcripts.encoded_message import key_of

_HERE = (writes.c.space_id == bindparam("b_space_id")) & (
    writes.c.checkpoint_key == bindparam("b_key")
)
_INSERT = Statement(insert(writes))
_WRITES = Statement(select(writes).where(_HERE))
_NAMES = Statement(select(writes.c.task_key, writes.c.idx).where(_HERE))


@dataclass(frozen=True)
class Write:
    """A pending write, in the order in which writes are applied: path, task, number."""

    task_path: str
    task_id: str
    idx: int
    channel: str
    refs: str
    shape: Any


def read_writes(
    connection: Connection, codec: Codec, space_id: int, checkpoint_id: str
) -> list[Write]:
    """Return the pending writes of a checkpoint in the order in which they are applied.

    Raises:
        CorruptStoreError: When one is damaged.
    """
    names = {"b_space_id": space_id, "b_key": key_of(checkpoint_id)}
    found = [as_write(codec, row) for row in _WRITES.all(connection, names)]
    return sorted(found, key=lambda one: (one.task_path, one.task_id, one.idx))


def as_write(codec: Codec, row: Mapping[Any, Any]) -> Write:
    """Return the pending write of a row.

    Raises:
        CorruptStoreError: When the row is damaged.
    """
    checked(codec, SEALED[writes.name], row)
    task_path, task_id, channel, shape = codec.unpack(row["body"])
    return Write(task_path, task_id, row["idx"], channel, row["refs"], shape)


def known_writes(connection: Connection, space_id: int, checkpoint_id: str) -> set[tuple[str, int]]:
    """Return the pending writes of a checkpoint, as key of the task and number."""
    names = {"b_space_id": space_id, "b_key": key_of(checkpoint_id)}
    return {(row["task_key"], row["idx"]) for row in _NAMES.all(connection, names)}


def insert_writes(
    connection: Connection,
    codec: Codec,
    space_id: int,
    checkpoint_id: str,
    new: Sequence[Write],
    now: datetime,
) -> None:
    """Insert pending writes; those that are there already must have been deleted."""
    values = []
    for one in new:
        columns = {
            "space_id": space_id,
            "checkpoint_key": key_of(checkpoint_id),
            "task_key": key_of(one.task_id),
            "idx": one.idx,
            "written": round(now.timestamp()),
            "refs": one.refs,
            "body": codec.pack([one.task_path, one.task_id, one.channel, one.shape]),
        }
        values.append({**columns, "seal": codec.seal(columns.values())})
    if values:
        _INSERT.run_all(connection, values)


def delete_write(
    connection: Connection, space_id: int, checkpoint_id: str, task_key: str, idx: int
) -> None:
    """Delete a pending write, to make room for another one."""
    connection.execute(
        delete(writes).where(
            writes.c.space_id == space_id,
            writes.c.checkpoint_key == key_of(checkpoint_id),
            writes.c.task_key == task_key,
            writes.c.idx == idx,
        )
    )


def save_writes_count(
    connection: Connection,
    codec: Codec,
    space_id: int,
    checkpoint_id: str,
    before: int,
    count: int,
) -> None:
    """Note in a checkpoint, if it is there yet, how many pending writes it has.

    Raises:
        CorruptStoreError: When it did not have as many as it should.
    """
    key = key_of(checkpoint_id)
    values = {"writes": count, "writes_seal": codec.seal((space_id, key, count))}
    names = {"b_space_id": space_id, "b_key": key}
    if RECOUNT.run(connection, {**values, **names, "b_writes": before}) == 0:
        row = AT.first(connection, names)
        if row is not None:
            raise CorruptStoreError(
                f"{row['writes']} pending writes should be there, {before} were found"
            )
