"""Values of channels as they are stored: messages taken out, large ones in rows of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from sqlalchemy import insert, select

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Codec, Transaction
from langchain_tokenmem.storage.checkpoints.shapes import detach, is_bare, is_plain
from langchain_tokenmem.storage.checkpoints.tables import channel_values
from langchain_tokenmem.storage.database.statements import Statement
from langchain_tokenmem.storage.transcripts.message_rows import chunks

_SMALL = 256
"""Bytes up to which a value stands in the row of its checkpoint."""

_INSERT = Statement(insert(channel_values))


@dataclass(frozen=True)
class PreparedValue:
    """A value made ready outside of the transaction.

    Attributes:
        shape: The value with marks in place of its messages.
        messages: The messages.
        packed: The shape as bytes; None where it is small and plain.
    """

    shape: Any
    messages: list[BaseMessage]
    packed: bytes | None = None


@dataclass(frozen=True)
class LargeValue:
    """A value apart from its checkpoint: packed shape, and references of its messages."""

    refs: str
    packed: bytes


def prepare_value(codec: Codec, channel: str, value: Any) -> PreparedValue:
    """Return the value of a channel with its messages taken out, packed unless it is small.

    Raises:
        ConfigurationError: When it could not be read again.
    """
    shape, messages = detach(value)
    if is_bare(shape, messages):  # as nearly always: not packed only to see how long it is
        return PreparedValue(shape, messages)
    what = f"Channel {channel!r}"
    packed = codec.pack(shape, what)
    if not is_plain(shape):
        return PreparedValue(shape, messages, codec.checked(packed, what))
    return PreparedValue(shape, messages, None if len(packed) <= _SMALL else packed)


def insert_value(tx: Transaction, namespace_id: int, number: int, value: LargeValue) -> None:
    """Insert a large value."""
    columns = {
        "namespace_id": namespace_id,
        "value_number": number,
        "message_refs": value.refs,
        "value": value.packed,
    }
    _INSERT.run(tx.connection, tx.codec.sealed(columns))


def read_value(tx: Transaction, namespace_id: int, number: int) -> LargeValue:
    """Return one large value."""
    return read_values(tx, namespace_id, [number])[number]


def read_values(
    tx: Transaction, namespace_id: int, numbers: Iterable[int]
) -> dict[int, LargeValue]:
    """Return large values by number.

    Raises:
        CorruptStoreError: When one is damaged or missing.
    """
    found, wanted = {}, set(numbers)
    for some in chunks(sorted(wanted)):
        own = (
            channel_values.c.namespace_id == namespace_id,
            channel_values.c.value_number.in_(some),
        )
        for row in tx.connection.execute(select(channel_values).where(*own)).mappings():
            tx.codec.unsealed(channel_values, row)
            found[row["value_number"]] = LargeValue(row["message_refs"], row["value"])
    if found.keys() != wanted:
        raise CorruptStoreError("the value of a channel is missing")
    return found
