"""Reads the checkpoints of threads, with their values and pending writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.channel_values import LargeValue, read_values
from langchain_tokenmem.storage.checkpoints.checkpoint_rows import (
    CheckpointRow,
    InlineValue,
    check_absence,
    find_checkpoint,
)
from langchain_tokenmem.storage.checkpoints.codec import Codec, Transaction
from langchain_tokenmem.storage.checkpoints.messages import ThreadMessages
from langchain_tokenmem.storage.checkpoints.namespaces import Namespace, find_namespace
from langchain_tokenmem.storage.checkpoints.pending_writes import read_writes
from langchain_tokenmem.storage.checkpoints.records import Address, LoadedCheckpoint, errors_about
from langchain_tokenmem.storage.checkpoints.shapes import attach
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.transcripts.encoded_message import key_of


@dataclass
class CheckpointReader:
    """Reads the checkpoints of threads.

    Attributes:
        database: Where they are.
        codec: Reads what is no message.
        messages: Reads the messages.
        main_channel: The channel whose messages are the thread's transcript; None for none.
    """

    database: Database
    codec: Codec
    messages: ThreadMessages
    main_channel: str | None

    @contextmanager
    def reading(self, about: Address | str) -> Iterator[Transaction]:
        """Give a transaction that sees one state of the data; its errors name an address."""
        with self.database.reading(str(about)) as connection, errors_about(about):
            yield Transaction(connection, self.codec)

    @contextmanager
    def writing(self, about: Address | str) -> Iterator[Transaction]:
        """Give a transaction whose changes are all made, or none; its errors name an address."""
        with self.database.writing(str(about)) as connection, errors_about(about):
            yield Transaction(connection, self.codec)

    def get(self, address: Address) -> LoadedCheckpoint | None:
        """Return a checkpoint, the latest when no id is given; None when it is not there.

        Raises:
            CorruptStoreError: When something of it is damaged or missing.
        """
        with self.reading(address) as tx:
            namespace = find_namespace(tx, address.thread_id, address.ns)
            name = address.checkpoint_id or (namespace.latest if namespace else None)
            if namespace is None or name is None:
                return None
            with errors_about(replace(address, checkpoint_id=name)):
                row = self.row(tx, namespace, name)
                return None if row is None else self.loaded(tx, namespace, row)

    def row(
        self, tx: Transaction, namespace: Namespace, checkpoint_id: str
    ) -> CheckpointRow | None:
        """Return the row of a checkpoint; None when it is not there, and need not be.

        Raises:
            CorruptStoreError: When it is damaged or missing.
        """
        key = key_of(checkpoint_id)
        row = find_checkpoint(tx, namespace.namespace_id, key)
        if row is None:
            check_absence(tx, namespace, checkpoint_id)
        return row

    def loaded(
        self,
        tx: Transaction,
        namespace: Namespace,
        row: CheckpointRow,
        channels: Collection[str] | None = None,
    ) -> LoadedCheckpoint:
        """Return a stored checkpoint with its values and pending writes.

        Args:
            tx: The transaction.
            namespace: Where the checkpoint is.
            row: Its row.
            channels: Channels whose values and writes are read; default: all.

        Raises:
            CorruptStoreError: When something of it is damaged or missing.
        """
        order = dict.fromkeys([*row.fields.get("channel_versions", {}), *row.inline, *row.large])
        wanted = [name for name in order if channels is None or name in channels]
        numbers = [row.large[name] for name in wanted if name in row.large]
        large = read_values(tx, namespace.namespace_id, numbers)
        written = read_writes(tx, namespace.namespace_id, row)
        self.messages.cache.clear_if_closed(self.database.closings)
        stored = {name: row.inline[name] for name in wanted if name in row.inline}
        stored |= {n: self._unpacked(n, large[row.large[n]]) for n in wanted if n in row.large}
        values = {
            name: self._attached(tx, namespace, stored[name], is_main=name == self.main_channel)
            for name in wanted
            if name in stored
        }
        return LoadedCheckpoint(
            Address(namespace.thread_id, namespace.ns, row.id),
            row.parent,
            {**row.fields, "id": row.id, "channel_values": values},
            row.metadata,
            [
                (one.task_id, one.channel, self._attached(tx, namespace, one.value, is_main=False))
                for one in written
                if channels is None or one.channel in channels
            ],
        )

    def _attached(
        self, tx: Transaction, namespace: Namespace, value: InlineValue, *, is_main: bool
    ) -> Any:
        messages = self.messages.load(tx, namespace, value.refs, is_main=is_main)
        return attach(value.shape, messages)

    def _unpacked(self, channel: str, value: LargeValue) -> InlineValue:
        try:
            return InlineValue(value.refs, self.codec.unpack(value.packed))
        except CorruptStoreError as error:
            raise CorruptStoreError(f"channel {channel!r}: {error}") from error

    def check_parts(self, tx: Transaction, namespace: Namespace, row: CheckpointRow) -> None:
        """Raise if pending writes or large values of a checkpoint are damaged or missing."""
        read_writes(tx, namespace.namespace_id, row)
        read_values(tx, namespace.namespace_id, row.large.values())
