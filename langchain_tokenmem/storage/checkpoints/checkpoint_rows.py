"""Rows of checkpoints: each is checked against its seal, and all of them against their number."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Codec, Transaction
from langchain_tokenmem.storage.checkpoints.namespaces import Namespace
from langchain_tokenmem.storage.checkpoints.tables import checkpoints, writes
from langchain_tokenmem.storage.database.statements import Statement
from langchain_tokenmem.storage.transcripts.encoded_message import key_of
from langchain_tokenmem.storage.transcripts.message_rows import chunks

_HERE = checkpoints.c.namespace_id == bindparam("b_namespace_id")
_OWN = (_HERE, checkpoints.c.checkpoint_key == bindparam("b_key"))
_FIND = Statement(select(checkpoints).where(*_OWN))
_COUNTED = (
    checkpoints.c.namespace_id,
    checkpoints.c.checkpoint_key,
    checkpoints.c.write_count,
    checkpoints.c.write_count_seal,
)
"""Enough to check a key, without the pages of what the checkpoint says."""
_INSERT = Statement(insert(checkpoints))
_UPDATE = Statement(update(checkpoints).where(*_OWN))
_UPDATE_WRITES = Statement(
    update(checkpoints).where(*_OWN, checkpoints.c.write_count == bindparam("b_before"))
)


@dataclass(frozen=True)
class InlineValue:
    """A small value of a channel: its shape, and the references of the messages in it."""

    refs: str
    shape: Any


@dataclass
class CheckpointRow:
    """A checkpoint as it is stored.

    Attributes:
        id: Its id.
        parent: Id of the one before it.
        fields: The checkpoint without id and channel values.
        metadata: Its metadata.
        inline: The small values, by channel.
        large: Numbers of the large ones, by channel.
        write_count: How many pending writes it has.
    """

    id: str
    parent: str | None
    fields: dict[str, Any]
    metadata: dict[str, Any]
    inline: dict[str, InlineValue] = field(default_factory=dict)
    large: dict[str, int] = field(default_factory=dict)
    write_count: int = 0

    def take(self, channel: str, parent: CheckpointRow) -> bool:
        """Take a channel's value as the parent has it, and return whether it has one."""
        if channel in parent.inline:
            self.inline[channel] = parent.inline[channel]
        elif channel in parent.large:
            self.large[channel] = parent.large[channel]
        return channel in self.inline or channel in self.large


def time_of(checkpoint: Mapping[str, Any]) -> datetime | None:
    """Return the time that a checkpoint tells, if it tells any."""
    try:
        moment = datetime.fromisoformat(str(checkpoint.get("ts")))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def run_hash(run_id: Any) -> bytes | None:
    """Return 16 bytes by which the checkpoints of a run are found."""
    if not isinstance(run_id, str):
        return None
    return hashlib.blake2b(run_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def save_checkpoint(
    tx: Transaction, namespace_id: int, row: CheckpointRow, *, is_new: bool
) -> None:
    """Insert a checkpoint, or write it anew."""
    key = key_of(row.id)
    packed = tx.codec.pack(
        {
            "id": row.id,
            "parent": row.parent,
            "fields": row.fields,
            "metadata": row.metadata,
            "inline": {name: [one.refs, one.shape] for name, one in row.inline.items()},
            "large": row.large,
        }
    )
    columns = {
        "namespace_id": namespace_id,
        "checkpoint_key": key,
        "run_hash": run_hash(row.metadata.get("run_id")),
        "checkpoint": packed,
    }
    values = {
        **tx.codec.sealed(columns),
        "write_count": row.write_count,
        "write_count_seal": tx.codec.seal((namespace_id, key, row.write_count)),
    }
    if is_new:
        _INSERT.run(tx.connection, values)
    else:
        _UPDATE.run(tx.connection, {**values, "b_namespace_id": namespace_id, "b_key": key})


def find_checkpoint(tx: Transaction, namespace_id: int, key: str) -> CheckpointRow | None:
    """Return the checkpoint with a key, checked; None when it is not there.

    Raises:
        CorruptStoreError: When its row is damaged.
    """
    row = _FIND.first(tx.connection, {"b_namespace_id": namespace_id, "b_key": key})
    if row is None:
        return None
    found = _as_checkpoint(tx.codec, row)
    if row["namespace_id"] != namespace_id or key_of(found.id) != key:
        raise CorruptStoreError("its row is another one's")
    return found


def _as_checkpoint(codec: Codec, row: Mapping[Any, Any]) -> CheckpointRow:
    codec.unsealed(checkpoints, row)
    _checked_key(codec, *(row[column.name] for column in _COUNTED))
    body = codec.unpack(row["checkpoint"])
    return CheckpointRow(
        body["id"],
        body["parent"],
        body["fields"],
        body["metadata"],
        {name: InlineValue(*one) for name, one in body["inline"].items()},
        body["large"],
        row["write_count"],
    )


def save_write_count(tx: Transaction, namespace_id: int, key: str, before: int, count: int) -> None:
    """Note in a checkpoint, if it is there yet, how many pending writes it has.

    Raises:
        CorruptStoreError: When it did not have as many as it should.
    """
    names = {"b_namespace_id": namespace_id, "b_key": key}
    seal = tx.codec.seal((namespace_id, key, count))
    values = {"write_count": count, "write_count_seal": seal}
    if _UPDATE_WRITES.run(tx.connection, {**values, **names, "b_before": before}) == 0:
        row = _FIND.first(tx.connection, names)
        if row is not None:
            raise CorruptStoreError(
                f"{row['write_count']} pending writes should be there, {before} were found"
            )


def checkpoint_keys(connection: Connection, namespace_id: int) -> list[Any]:
    """Return the keys of the checkpoints of a namespace as they are there."""
    query = select(checkpoints.c.checkpoint_key).where(checkpoints.c.namespace_id == namespace_id)
    return list(connection.execute(query).scalars())


def checked_keys(tx: Transaction, namespace: Namespace) -> list[str]:
    """Return the keys of the checkpoints of a namespace.

    Raises:
        CorruptStoreError: When one is damaged or missing.
    """
    query = select(*_COUNTED).where(checkpoints.c.namespace_id == namespace.namespace_id)
    found = [_checked_key(tx.codec, *row) for row in tx.connection.execute(query)]
    _check_number(namespace, found)
    return found


def _checked_key(codec: Codec, namespace_id: int, key: str, count: int, seal: bytes) -> str:
    if codec.seal((namespace_id, key, count)) != seal:
        raise CorruptStoreError("the row of a checkpoint is damaged")
    return key


def all_checkpoints(tx: Transaction, namespace_id: int) -> list[CheckpointRow]:
    """Return the checkpoints of a namespace that there are, oldest first."""
    query = (
        select(checkpoints)
        .where(checkpoints.c.namespace_id == namespace_id)
        .order_by(checkpoints.c.checkpoint_key)
    )
    return [_as_checkpoint(tx.codec, row) for row in tx.connection.execute(query).mappings()]


def every_checkpoint(tx: Transaction, namespace: Namespace) -> list[CheckpointRow]:
    """Return every checkpoint of a namespace, oldest first.

    Raises:
        CorruptStoreError: When one is damaged or missing.
    """
    found = all_checkpoints(tx, namespace.namespace_id)
    _check_number(namespace, [row.id for row in found])
    return found


def _check_number(namespace: Namespace, found: Sequence[str]) -> None:
    """Raise if a namespace has not as many checkpoints as were written, each of them once."""
    if not len(found) == len(set(found)) == namespace.checkpoint_count:
        raise CorruptStoreError(
            f"{namespace.checkpoint_count} checkpoints should be there, {len(set(found))} "
            f"different ones were found"
        )


def check_absence(tx: Transaction, namespace: Namespace, checkpoint_id: str) -> None:
    """Raise if a checkpoint that was not found must be there, or any other one.

    A row that was deleted shows in their number, one whose key was changed in its seal.
    """
    found = {row.id for row in every_checkpoint(tx, namespace)}
    if checkpoint_id in found or checkpoint_id == namespace.latest:
        raise CorruptStoreError(f"checkpoint {checkpoint_id!r} is not found where it should be")


def delete_checkpoints(connection: Connection, namespace_id: int, keys: Sequence[str]) -> None:
    """Delete checkpoints with their pending writes."""
    for some in chunks(keys):
        for table in (checkpoints, writes):
            own = (table.c.namespace_id == namespace_id, table.c.checkpoint_key.in_(some))
            connection.execute(delete(table).where(*own))
