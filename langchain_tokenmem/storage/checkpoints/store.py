"""Checkpoints of threads in the store: one transaction a call, each message once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from langgraph.checkpoint.base import WRITES_IDX_MAP
from sqlalchemy import Connection

from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints import pending as pending_rows
from langchain_tokenmem.storage.checkpoints import rows
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.large import Blob, read_blobs
from langchain_tokenmem.storage.checkpoints.memory import Lessons, MessageMemory
from langchain_tokenmem.storage.checkpoints.messages import Messages
from langchain_tokenmem.storage.checkpoints.pending import Write
from langchain_tokenmem.storage.checkpoints.precedence import Precedence
from langchain_tokenmem.storage.checkpoints.records import (
    Address,
    Draft,
    Loaded,
    about,
    make_sure_of_absence,
)
from langchain_tokenmem.storage.checkpoints.rows import Inline, Stored
from langchain_tokenmem.storage.checkpoints.shapes import attach, is_plain
from langchain_tokenmem.storage.checkpoints.spaces import (
    Space,
    find_or_make_space,
    find_space,
    save_space,
)
from langchain_tokenmem.storage.checkpoints.values import Values
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.encoded_message import key_of

logger = logging.getLogger(__name__)


class Part(NamedTuple):
    """A value as it is stored: its shape, and the messages in it.

    Attributes:
        refs: Where its messages are stored.
        shape: The value with marks in place of its messages.
        is_main: Whether it is that of the channel that is the transcript.
    """

    refs: str
    shape: Any
    is_main: bool = False


class Checkpoints:
    """Reads and writes the checkpoints of threads.

    Args:
        database: Where they are.
        index: Takes what is appended to a thread's transcript.
        codec: Writes what is no message.
        memory: What is remembered of messages.
        main_channel: The channel whose messages are the thread's transcript; None for none.
        on_conflict: Called inside the transaction with what happened when the parent of a new
            checkpoint is not the head of its branch any more.
    """

    def __init__(
        self,
        database: Database,
        index: IndexStore,
        codec: Codec,
        memory: MessageMemory,
        *,
        main_channel: str | None,
        on_conflict: Callable[[str], None],
    ) -> None:
        self.database = database
        self.index = index
        self.codec = codec
        self.messages = Messages(codec, memory, index)
        self._values = Values(codec, self.messages, main_channel)
        self._memory = memory
        self._main = main_channel
        self._on_conflict = on_conflict
        self._precedence = Precedence()

    def with_codec(self, codec: Codec) -> Checkpoints:
        """Return the same with another codec."""
        return Checkpoints(
            self.database,
            self.index,
            codec,
            self._memory,
            main_channel=self._main,
            on_conflict=self._on_conflict,
        )

    def put(self, draft: Draft) -> int:
        """Store a checkpoint, and return how many its namespace has now; 0 if it was there.

        Raises:
            ThreadConflictError: When `on_conflict` raises it.
            ConfigurationError: When a value cannot be stored.
        """
        with self._precedence.storing(draft.address.namespace):
            return self._put(draft)

    def _put(self, draft: Draft) -> int:
        checkpoint, address = draft.checkpoint, draft.address
        self._memory.belong(self.database.closings)
        values = {
            name: self._values.ready(address.session_id, name, value)
            for name, value in checkpoint["channel_values"].items()
            if name in draft.new_versions
        }
        if not is_plain(draft.metadata):
            self.codec.checked(self.codec.pack(draft.metadata))
        lessons = Lessons()
        self.index.make_ready()
        with self.database.writing(str(address)) as connection, about(address):
            space = find_or_make_space(connection, self.codec, address.thread_id, address.ns)
            id_ = checkpoint["id"]
            old, parent, early = rows.find_place(
                connection, self.codec, space.space_id, id_, address.checkpoint_id
            )
            if old is None and not draft.is_fork:
                self._check_tip(space, id_, address.checkpoint_id)
            stored = Stored(
                id_,
                address.checkpoint_id,
                {k: v for k, v in checkpoint.items() if k not in {"id", "channel_values"}},
                draft.metadata,
                writes=early,
            )
            space = self._values.fill(connection, space, draft, stored, parent, values, lessons)
            rows.insert_checkpoint(
                connection, self.codec, space.space_id, stored, is_new=old is None
            )
            if old is None:
                space = space.with_new(id_, address.checkpoint_id)
            save_space(connection, self.codec, space)
        self.messages.learn(space, lessons)
        self.index.tell(Change("added"))
        return space.count if old is None else 0

    def _check_tip(self, space: Space, checkpoint_id: str, parent: str | None) -> None:
        """Say it if the parent of a new checkpoint is not the head of its branch any more."""
        if space.count and parent not in space.tips:
            self._on_conflict(
                f"{Address(space.thread_id, space.ns)}: checkpoint {checkpoint_id!r} follows "
                f"{parent!r}, which another run has gone on from; the head is {space.head!r}."
            )

    def put_writes(
        self, address: Address, given: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        """Store pending writes of a checkpoint, whether it is there yet or not.

        A write that is there stays; only errors, interrupts and resumes are written over.
        """
        checkpoint_id = str(address.checkpoint_id)
        self._memory.belong(self.database.closings)
        ready = [
            (
                WRITES_IDX_MAP.get(channel, index),
                channel,
                *self._values.written(address.session_id, value),
            )
            for index, (channel, value) in enumerate(given)
        ]
        self._precedence.give_way(address.namespace)
        now = datetime.now(UTC)
        lessons = Lessons()
        with self.database.writing(str(address)) as connection, about(address):
            space = find_or_make_space(connection, self.codec, address.thread_id, address.ns)
            known = pending_rows.known_writes(connection, space.space_id, checkpoint_id)
            before = len(known)
            # By place: what a batch holds twice (a resume, an error) counts as it stands last.
            task_key, new = key_of(task_id), dict[int, Write]()
            for idx, channel, shape, found in ready:
                if (task_key, idx) in known:
                    if idx >= 0:
                        continue
                    pending_rows.delete_write(
                        connection, space.space_id, checkpoint_id, task_key, idx
                    )
                refs = self.messages.references(
                    connection, space, found, now=now, is_main=False, lessons=lessons
                )
                new[idx] = Write(task_path, task_id, idx, channel, refs, shape)
                known.add((task_key, idx))
            pending_rows.insert_writes(
                connection, self.codec, space.space_id, checkpoint_id, [*new.values()], now
            )
            pending_rows.save_writes_count(
                connection, self.codec, space.space_id, checkpoint_id, before, len(known)
            )
        self.messages.learn(space, lessons)

    def get(self, address: Address) -> Loaded | None:
        """Return a checkpoint, the head when no id is given; None when it is not there.

        Raises:
            CorruptStoreError: When something of it is damaged or missing.
        """
        with self.database.reading(str(address)) as connection, about(address):
            space = find_space(connection, self.codec, address.thread_id, address.ns)
            name = address.checkpoint_id or (space.head if space else None)
            if space is None or name is None:
                return None
            with about(replace(address, checkpoint_id=name)):
                stored = rows.find_checkpoint(connection, self.codec, space.space_id, name)
                if stored is None:
                    make_sure_of_absence(connection, self.codec, space, name)
                    return None
                return self.loaded(connection, space, stored)

    def loaded(self, connection: Connection, space: Space, stored: Stored) -> Loaded:
        """Return a stored checkpoint with its values and pending writes.

        Raises:
            CorruptStoreError: When something of it is damaged or missing.
        """
        pending = self.pending(connection, space, stored)
        large = read_blobs(connection, self.codec, space.space_id, list(stored.large.values()))
        parts = {name: self._part(name, one) for name, one in stored.inline.items()}
        for name, number in stored.large.items():
            parts[name] = self._part(name, large[number])
        written = [Part(one.refs, one.shape) for one in pending]
        values = self.resolved(connection, space, [*parts.values(), *written])
        order = stored.fields.get("channel_versions", {})
        by_name = dict(zip(parts, values, strict=False))
        return Loaded(
            Address(space.thread_id, space.ns, stored.id),
            stored.parent,
            {
                **stored.fields,
                "id": stored.id,
                "channel_values": {name: by_name[name] for name in order if name in by_name},
            },
            stored.metadata,
            [
                (one.task_id, one.channel, value)
                for one, value in zip(pending, values[len(parts) :], strict=True)
            ],
        )

    def value(self, connection: Connection, space: Space, stored: Stored, channel: str) -> Any:
        """Return the value of one channel of a stored checkpoint."""
        if channel in stored.inline:
            one: Inline | Blob = stored.inline[channel]
        else:
            number = stored.large[channel]
            one = read_blobs(connection, self.codec, space.space_id, [number])[number]
        return self.resolved(connection, space, [self._part(channel, one)])[0]

    def _part(self, channel: str, one: Inline | Blob) -> Part:
        shape = one.shape if isinstance(one, Inline) else self.codec.unpack(one.body)
        return Part(one.refs, shape, channel == self._main)

    def pending(self, connection: Connection, space: Space, stored: Stored) -> list[Write]:
        """Return the pending writes of a checkpoint, all of them.

        Raises:
            CorruptStoreError: When one is damaged or missing.
        """
        found = pending_rows.read_writes(connection, self.codec, space.space_id, stored.id)
        if len(found) != stored.writes:
            raise CorruptStoreError(
                f"{stored.writes} pending writes should be there, {len(found)} were found"
            )
        return found

    def make_sure_of(self, connection: Connection, space: Space, stored: Stored) -> None:
        """Raise if pending writes or large values of a checkpoint are damaged or missing."""
        self.pending(connection, space, stored)
        read_blobs(connection, self.codec, space.space_id, list(stored.large.values()))

    def resolved(self, connection: Connection, space: Space, parts: Sequence[Part]) -> list[Any]:
        """Return values from their shapes and the references of their messages."""
        self._memory.belong(self.database.closings)
        numbers = [self.messages.numbers(connection, space, part.refs) for part in parts]
        needed = {number for some in numbers for number in some}
        read = self.messages.read(connection, space, needed)
        return [
            attach(
                part.shape, self.messages.give(space, some, part.refs, read, is_main=part.is_main)
            )
            if some
            else part.shape
            for part, some in zip(parts, numbers, strict=True)
        ]
