"""Pins and last write of a thread, read from the heads of its namespaces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.checkpoint.base.id import UUID
from sqlalchemy import Connection, func, select

from langchain_tokenmem.core.pins import PINS_CHANNEL
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.channel_values import read_value
from langchain_tokenmem.storage.checkpoints.checkpoint_rows import find_checkpoint
from langchain_tokenmem.storage.checkpoints.codec import Transaction
from langchain_tokenmem.storage.checkpoints.tables import namespaces, writes
from langchain_tokenmem.storage.transcripts.encoded_message import key_of
from langchain_tokenmem.storage.transcripts.message_rows import chunks

_UUID6 = 6
_GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)
"""Beginning of the time in such a UUID, which counts 100 ns (RFC 9562)."""


@dataclass(frozen=True, slots=True)
class ThreadHead:
    """A checkpoint namespace of a thread, as far as it can be read without a key.

    Attributes:
        namespace_id: Its number.
        thread_key: Key of the thread.
        thread_id: The thread.
        latest: Id of the checkpoint that a run goes on from.
        written_at: Time of its newest checkpoint, by the ids; None where these tell none.
    """

    namespace_id: int
    thread_key: str
    thread_id: str
    latest: str | None
    written_at: datetime | None


def heads_of_threads(connection: Connection, thread_keys: Sequence[str]) -> list[ThreadHead]:
    """Return the namespaces of threads."""
    columns = (
        namespaces.c.namespace_id,
        namespaces.c.thread_key,
        namespaces.c.thread_id,
        namespaces.c.latest_checkpoint_id,
        namespaces.c.leaf_checkpoint_ids,
    )
    return [
        ThreadHead(
            number,
            key,
            thread_id,
            latest,
            max(filter(None, map(_time_of, [latest, *json.loads(leaves)])), default=None),
        )
        for some in chunks(thread_keys)
        for number, key, thread_id, latest, leaves in connection.execute(
            select(*columns).where(namespaces.c.thread_key.in_(some))
        )
    ]


def _time_of(checkpoint_id: str | None) -> datetime | None:
    """Return the time that LangGraph writes into the id of a checkpoint."""
    try:
        found = UUID(checkpoint_id or "")
    except ValueError:
        return None
    is_time = found.version == _UUID6
    return _GREGORIAN + timedelta(microseconds=found.time // 10) if is_time else None


def last_pending_write(connection: Connection, heads: Sequence[ThreadHead]) -> datetime | None:
    """Return the time of the newest pending write in some namespaces."""
    newest = None
    for some in chunks([head.namespace_id for head in heads]):
        query = select(func.max(writes.c.written_at)).where(writes.c.namespace_id.in_(some))
        newest = max(filter(None, (newest, connection.execute(query).scalar())), default=None)
    return None if newest is None else datetime.fromtimestamp(newest, UTC)


def has_pins(tx: Transaction, head: ThreadHead) -> bool:
    """Return whether something is pinned in the state that a namespace's latest checkpoint has.

    Raises:
        CorruptStoreError: When the checkpoint is damaged, missing, or cannot be read with this
            codec.
    """
    if head.latest is None:
        return False
    number = head.namespace_id
    row = find_checkpoint(tx, number, key_of(head.latest))
    if row is None:
        raise CorruptStoreError("the latest checkpoint is missing")
    if PINS_CHANNEL in row.inline:
        return _is_pinned(row.inline[PINS_CHANNEL].shape)
    if PINS_CHANNEL not in row.large:
        return False
    value = read_value(tx, number, row.large[PINS_CHANNEL])
    return _is_pinned(tx.codec.unpack(value.packed))


def _is_pinned(value: Any) -> bool:
    return isinstance(value, dict) and any(value.values())
