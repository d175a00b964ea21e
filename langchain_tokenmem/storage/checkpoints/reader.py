"""Reads the checkpoints of threads, with their values and pending writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import Connection

from langchain_tokenmem.storage.checkpoints.channel_values import read_values
from langchain_tokenmem.storage.checkpoints.checkpoint_rows import (
    CheckpointRow,
    check_absence,
    find_checkpoint,
)
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.messages import ThreadMessages
from langchain_tokenmem.storage.checkpoints.namespaces import Namespace, find_namespace
from langchain_tokenmem.storage.checkpoints.pending_writes import PendingWrite, read_writes
from langchain_tokenmem.storage.checkpoints.records import (
    Address,
    LoadedCheckpoint,
    errors_about,
)
from langchain_tokenmem.storage.checkpoints.shapes import attach
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.transcripts.encoded_message import key_of


class _Part(NamedTuple):
    """A value as it is stored: its shape, and the references of the messages in it."""

    shape: Any
    refs: str
    is_main: bool = False


class CheckpointReader:
    """Reads the checkpoints of threads.

    Args:
        database: Where they are.
        codec: Reads what is no message.
        messages: Reads the messages.
        main_channel: The channel whose messages are the thread's transcript; None for none.
    """

    def __init__(
        self, database: Database, codec: Codec, messages: ThreadMessages, main_channel: str | None
    ) -> None:
        self.database = database
        self.codec = codec
        self.messages = messages
        self.main_channel = main_channel

    def get(self, address: Address) -> LoadedCheckpoint | None:
        """Return a checkpoint, the latest when no id is given; None when it is not there.

        Raises:
            CorruptStoreError: When something of it is damaged or missing.
        """
        with self.database.reading(str(address)) as connection, errors_about(address):
            namespace = find_namespace(connection, self.codec, address.thread_id, address.ns)
            name = address.checkpoint_id or (namespace.latest if namespace else None)
            if namespace is None or name is None:
                return None
            with errors_about(replace(address, checkpoint_id=name)):
                row = self.row(connection, namespace, name)
                return None if row is None else self.loaded(connection, namespace, row)

    def row(
        self, connection: Connection, namespace: Namespace, checkpoint_id: str
    ) -> CheckpointRow | None:
        """Return the row of a checkpoint; None when it is not there, and need not be.

        Raises:
            CorruptStoreError: When it is damaged or missing.
        """
        key = key_of(checkpoint_id)
        row = find_checkpoint(connection, self.codec, namespace.namespace_id, key)
        if row is None:
            check_absence(connection, self.codec, namespace, checkpoint_id)
        return row

    def loaded(
        self, connection: Connection, namespace: Namespace, row: CheckpointRow
    ) -> LoadedCheckpoint:
        """Return a stored checkpoint with its values and pending writes.

        Raises:
            CorruptStoreError: When something of it is damaged or missing.
        """
        writes = read_writes(connection, self.codec, namespace.namespace_id, row)
        order = row.fields.get("channel_versions", {})
        names = [name for name in order if name in row.inline or name in row.large]
        parts = self._parts(connection, namespace, row, names)
        parts += [_Part(one.shape, one.refs) for one in writes]
        values = self._values(connection, namespace, parts)
        return LoadedCheckpoint(
            Address(namespace.thread_id, namespace.ns, row.id),
            row.parent,
            {**row.fields, "id": row.id, "channel_values": dict(zip(names, values, strict=False))},
            row.metadata,
            [
                (one.task_id, one.channel, value)
                for one, value in zip(writes, values[len(names) :], strict=True)
            ],
        )

    def value(
        self, connection: Connection, namespace: Namespace, row: CheckpointRow, channel: str
    ) -> Any:
        """Return the value of one channel of a stored checkpoint."""
        parts = self._parts(connection, namespace, row, [channel])
        return self._values(connection, namespace, parts)[0]

    def written(
        self, connection: Connection, namespace: Namespace, writes: Sequence[PendingWrite]
    ) -> list[Any]:
        """Return the values of pending writes."""
        return self._values(connection, namespace, [_Part(one.shape, one.refs) for one in writes])

    def check_parts(self, connection: Connection, namespace: Namespace, row: CheckpointRow) -> None:
        """Raise if pending writes or large values of a checkpoint are damaged or missing."""
        read_writes(connection, self.codec, namespace.namespace_id, row)
        read_values(connection, self.codec, namespace.namespace_id, [*row.large.values()])

    def _parts(
        self,
        connection: Connection,
        namespace: Namespace,
        row: CheckpointRow,
        channels: Sequence[str],
    ) -> list[_Part]:
        """Return the values of channels as they are stored."""
        numbers = {name: row.large[name] for name in channels if name not in row.inline}
        large = read_values(connection, self.codec, namespace.namespace_id, [*numbers.values()])
        parts = []
        for name in channels:
            if name in row.inline:
                shape, refs = row.inline[name].shape, row.inline[name].refs
            else:
                value = large[numbers[name]]
                shape, refs = self.codec.unpack(value.packed), value.refs
            parts.append(_Part(shape, refs, name == self.main_channel))
        return parts

    def _values(
        self, connection: Connection, namespace: Namespace, parts: Sequence[_Part]
    ) -> list[Any]:
        """Return values with their messages put back in."""
        self.messages.cache.clear_if_closed(self.database.closings)
        lists = self.messages.load(
            connection, namespace, [(part.refs, part.is_main) for part in parts]
        )
        return [attach(part.shape, some) for part, some in zip(parts, lists, strict=True)]
