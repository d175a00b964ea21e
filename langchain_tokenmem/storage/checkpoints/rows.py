"""The rows of checkpoints behind their seals, and what the seals of all rows are over."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.tables import blobs, checkpoints, contents, writes
from langchain_tokenmem.storage.database.statements import Statement
from langchain_tokenmem.storage.transcripts.encoded_message import escaped, key_of

_CHECKPOINT = ("space_id", "checkpoint_key", "run_key", "body")
_BLOB = ("space_id", "number", "refs", "body")
_WRITE = ("space_id", "checkpoint_key", "task_key", "idx", "written", "refs", "body")
_CONTENT = ("group_id", "number", "digest", "seq", "body")

_HERE = checkpoints.c.space_id == bindparam("b_space_id")
_AT = checkpoints.c.checkpoint_key == bindparam("b_key")
AT = Statement(select(checkpoints).where(_HERE, _AT))
_EARLY = select(func.count().label("early")).where(
    writes.c.space_id == bindparam("b_space_id"), writes.c.checkpoint_key == bindparam("b_key")
)
_COUNT_EARLY = Statement(_EARLY)
_BOTH = Statement(
    select(checkpoints, _EARLY.scalar_subquery().label("early")).where(
        _HERE, checkpoints.c.checkpoint_key.in_([bindparam("b_key"), bindparam("b_parent")])
    )
)
_COUNTED = (
    checkpoints.c.space_id,
    checkpoints.c.checkpoint_key,
    checkpoints.c.writes,
    checkpoints.c.writes_seal,
)
"""Enough to check a key, without the pages of what the checkpoint says."""
_NEWEST_FIRST = checkpoints.c.checkpoint_key.desc()
_INSERT = Statement(insert(checkpoints))
_REWRITE = Statement(update(checkpoints).where(_HERE, _AT))
RECOUNT = Statement(
    update(checkpoints).where(_HERE, _AT, checkpoints.c.writes == bindparam("b_writes"))
)

SEALED = {
    checkpoints.name: _CHECKPOINT,
    blobs.name: _BLOB,
    writes.name: _WRITE,
    contents.name: _CONTENT,
}
"""The columns of each table that its seal is over, in order; the first one names the owner."""


@dataclass(frozen=True)
class Inline:
    """A small value: its shape, and the references of the messages in it as ranges."""

    refs: str
    shape: Any


@dataclass
class Stored:
    """A checkpoint as it is stored.

    Attributes:
        id: Its id.
        parent: Id of the one before it.
        fields: The checkpoint without id and channel values.
        metadata: Its metadata.
        inline: The small values, by channel.
        large: Numbers of the large ones, by channel.
        writes: How many pending writes it has.
    """

    id: str
    parent: str | None
    fields: dict[str, Any]
    metadata: dict[str, Any]
    inline: dict[str, Inline] = field(default_factory=dict)
    large: dict[str, int] = field(default_factory=dict)
    writes: int = 0

    def references(self) -> list[str]:
        """Return the ranges of the messages that its small values need."""
        return [value.refs for value in self.inline.values() if value.refs]


class Place(NamedTuple):
    """What a checkpoint finds where it is to be stored.

    Attributes:
        old: The checkpoint as it is there already.
        parent: The one before it.
        writes: How many pending writes of it are there; they may come before it.
    """

    old: Stored | None
    parent: Stored | None
    writes: int


def checked(codec: Codec, names: Sequence[str], row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the sealed columns of a row.

    Raises:
        CorruptStoreError: When the seal does not fit them.
    """
    columns = {name: row[name] for name in names}
    if codec.seal(columns.values()) != row["seal"]:
        raise CorruptStoreError("a row is damaged, or sealed with another key")
    return columns


def run_key(run_id: Any) -> bytes | None:
    """Return how a run is found."""
    if not isinstance(run_id, str):
        return None
    return hashlib.blake2b(escaped(run_id).encode(), digest_size=16).digest()


def insert_checkpoint(
    connection: Connection, codec: Codec, space_id: int, stored: Stored, *, is_new: bool
) -> None:
    """Insert a checkpoint, or write it anew."""
    body = codec.pack(
        {
            "id": stored.id,
            "parent": stored.parent,
            "fields": stored.fields,
            "metadata": stored.metadata,
            "inline": {name: [one.refs, one.shape] for name, one in stored.inline.items()},
            "large": stored.large,
        }
    )
    key = key_of(stored.id)
    columns = {
        "space_id": space_id,
        "checkpoint_key": key,
        "run_key": run_key(stored.metadata.get("run_id")),
        "body": body,
    }
    values = {
        **columns,
        "writes": stored.writes,
        "writes_seal": codec.seal((space_id, key, stored.writes)),
        "seal": codec.seal(columns.values()),
    }
    if is_new:
        _INSERT.run(connection, values)
    else:
        _REWRITE.run(connection, {**values, "b_space_id": space_id, "b_key": key})


def find_checkpoint(
    connection: Connection, codec: Codec, space_id: int, checkpoint_id: str
) -> Stored | None:
    """Return a checkpoint, checked; None when it is not there.

    Raises:
        CorruptStoreError: When its row is damaged.
    """
    return checkpoint_at(connection, codec, space_id, key_of(checkpoint_id))


def checkpoint_at(connection: Connection, codec: Codec, space_id: int, key: str) -> Stored | None:
    """Return the checkpoint with a key, checked; None when it is not there.

    Raises:
        CorruptStoreError: When its row is damaged.
    """
    names = {"b_space_id": space_id, "b_key": key}
    row = AT.first(connection, names)
    if row is None:
        return None
    stored = as_stored_checkpoint(codec, row)
    if row["space_id"] != space_id or key_of(stored.id) != key:
        raise CorruptStoreError("its row is another one's")
    return stored


def find_place(
    connection: Connection, codec: Codec, space_id: int, checkpoint_id: str, parent: str | None
) -> Place:
    """Return what a checkpoint finds where it is to be stored, checked.

    Raises:
        CorruptStoreError: When the row of the checkpoint or its parent is damaged.
    """
    key, parent_key = key_of(checkpoint_id), key_of(parent) if parent else None
    names = {"b_space_id": space_id, "b_key": key}
    found = _BOTH.all(connection, {**names, "b_parent": parent_key or key})
    early = (found or _COUNT_EARLY.all(connection, names))[0]["early"]
    stored = {row["checkpoint_key"]: as_stored_checkpoint(codec, row) for row in found}
    return Place(stored.get(key), stored.get(parent_key or ""), early)


def as_stored_checkpoint(codec: Codec, row: Mapping[Any, Any]) -> Stored:
    """Return the checkpoint of a row.

    Raises:
        CorruptStoreError: When the row is damaged.
    """
    checked(codec, _CHECKPOINT, row)
    _checked_key(codec, *(row[column.name] for column in _COUNTED))
    body = codec.unpack(row["body"])
    return Stored(
        body["id"],
        body["parent"],
        body["fields"],
        body["metadata"],
        {name: Inline(*one) for name, one in body["inline"].items()},
        body["large"],
        row["writes"],
    )


def keys_of(connection: Connection, space_id: int) -> list[Any]:
    """Return the keys of the checkpoints of a namespace as they are there, newest first."""
    query = select(checkpoints.c.checkpoint_key).where(checkpoints.c.space_id == space_id)
    return list(connection.execute(query.order_by(_NEWEST_FIRST)).scalars())


def checked_keys(connection: Connection, codec: Codec, space_id: int) -> list[str]:
    """Return the keys of the checkpoints of a namespace, checked, newest first.

    Raises:
        CorruptStoreError: When one is damaged.
    """
    query = select(*_COUNTED).where(checkpoints.c.space_id == space_id)
    found = connection.execute(query.order_by(_NEWEST_FIRST))
    return [_checked_key(codec, *row) for row in found]


def _checked_key(codec: Codec, space_id: int, key: str, count: int, seal: bytes) -> str:
    if codec.seal((space_id, key, count)) != seal:
        raise CorruptStoreError("the row of a checkpoint is damaged")
    return key


def all_checkpoints(connection: Connection, codec: Codec, space_id: int) -> list[Stored]:
    """Return every checkpoint of a namespace, oldest first."""
    query = (
        select(checkpoints)
        .where(checkpoints.c.space_id == space_id)
        .order_by(checkpoints.c.checkpoint_key)
    )
    return [as_stored_checkpoint(codec, row) for row in connection.execute(query).mappings()]


def delete_checkpoints(connection: Connection, space_id: int, keys: Sequence[str]) -> None:
    """Delete checkpoints with their pending writes."""
    for start in range(0, len(keys), 500):
        some = keys[start : start + 500]
        for table in (checkpoints, writes):
            connection.execute(
                delete(table).where(table.c.space_id == space_id, table.c.checkpoint_key.in_(some))
            )
