"""Store of the checkpoints of threads: one transaction for each call, each message once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from cachetools import LRUCache
from langgraph.checkpoint.base import WRITES_IDX_MAP

from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.storage.checkpoints.channel_values import (
    LargeValue,
    PreparedValue,
    insert_value,
    prepare_value,
    read_value,
)
from langchain_tokenmem.storage.checkpoints.checkpoint_rows import (
    CheckpointRow,
    InlineValue,
    find_checkpoint,
    save_checkpoint,
    save_write_count,
    time_of,
)
from langchain_tokenmem.storage.checkpoints.head_words import HeadWords
from langchain_tokenmem.storage.checkpoints.message_rows import MessageRows
from langchain_tokenmem.storage.checkpoints.namespaces import (
    Namespace,
    find_or_make_namespace,
    save_namespace,
)
from langchain_tokenmem.storage.checkpoints.pending_writes import (
    PendingWrite,
    delete_write,
    insert_writes,
    write_places,
)
from langchain_tokenmem.storage.checkpoints.reader import CheckpointReader
from langchain_tokenmem.storage.checkpoints.records import Address, NewCheckpoint
from langchain_tokenmem.storage.checkpoints.shapes import is_plain
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.encoded_message import key_of

_MOST_FOLLOWED = 10_000
"""Sessions of which it is remembered that their transcript says what their head says."""


@dataclass
class CheckpointStore(CheckpointReader):
    """Reads and writes the checkpoints of threads.

    Attributes:
        on_conflict: Called inside the transaction with what happened when the parent of a new
            checkpoint does not end its branch any more.
        hides_removed: Whether messages that the head of a thread has no more are hidden.
    """

    on_conflict: Callable[[str], None]
    hides_removed: bool = False
    _followed: LRUCache[int, None] = field(default_factory=lambda: LRUCache(_MOST_FOLLOWED))

    @property
    def index(self) -> IndexStore:
        """Index that takes the messages that are appended to transcripts."""
        return self.messages.index

    def put(self, new: NewCheckpoint) -> int:
        """Store a checkpoint, and return how many its namespace has now; 0 if it was there.

        Raises:
            ThreadConflictError: When `on_conflict` raises it.
            ConfigurationError: When a value cannot be stored.
        """
        checkpoint, address = new.checkpoint, new.address
        self.messages.cache.clear_if_closed(self.database.closings)
        values = {
            name: prepare_value(self.codec, name, value)
            for name, value in checkpoint["channel_values"].items()
            # Without new versions, the values say themselves what they are, as with SqliteSaver.
            if not new.new_versions or name in new.new_versions
        }
        if not is_plain(new.metadata):
            self.codec.checked(self.codec.pack(new.metadata, "The metadata"), "The metadata")
        change: Change | None = None
        self.index.make_ready()
        with self.writing(address) as tx:
            namespace = find_or_make_namespace(tx, address.thread_id, address.ns)
            id_, parent_id, number = checkpoint["id"], address.checkpoint_id, namespace.namespace_id
            key, head = key_of(id_), namespace.latest
            old = find_checkpoint(tx, number, key)
            parent = find_checkpoint(tx, number, key_of(parent_id or ""))
            # Pending writes may come before their checkpoint.
            write_count = len(write_places(tx.connection, number, key))
            if old is None and not new.is_fork:
                self._check_branch(namespace, id_, parent_id)
            fields = {k: v for k, v in checkpoint.items() if k not in {"id", "channel_values"}}
            row = CheckpointRow(id_, parent_id, fields, new.metadata, write_count=write_count)
            rows = MessageRows(tx, namespace)
            self._store_values(rows, new, row, parent, values)
            save_checkpoint(tx, number, row, is_new=old is None)
            if old is None:
                rows.namespace = rows.namespace.with_new(id_, parent_id)
            if rows.namespace.latest == id_:
                is_next = head == parent_id
                before = parent if is_next else find_checkpoint(tx, number, key_of(head or ""))
                change = self._follow_head(rows, before, row, values)
            save_namespace(tx, rows.namespace)
        for cache in rows.after_commit:
            cache()
        self.index.tell(change or Change("added"))
        return rows.namespace.checkpoint_count if old is None else 0

    def _check_branch(self, namespace: Namespace, checkpoint_id: str, parent: str | None) -> None:
        """Report it if the parent of a new checkpoint does not end its branch any more."""
        if namespace.checkpoint_count and parent not in namespace.leaves:
            self.on_conflict(
                f"{Address(namespace.thread_id, namespace.ns)}: checkpoint {checkpoint_id!r} "
                f"follows {parent!r}, which another run has gone on from; the head is "
                f"{namespace.latest!r}."
            )

    def _store_values(
        self,
        rows: MessageRows,
        new: NewCheckpoint,
        row: CheckpointRow,
        parent: CheckpointRow | None,
        values: dict[str, PreparedValue],
    ) -> None:
        """Give a checkpoint its values: the new ones stored, the others as its parent has them."""
        now = time_of(new.checkpoint) or datetime.now(UTC)
        given, own = new.checkpoint["channel_values"], rows.namespace.namespace_id
        before = parent.fields.get("channel_versions", {}) if parent else {}
        versions = new.checkpoint.get("channel_versions", {})
        for name in [*versions, *(one for one in given if one not in versions)]:
            if name not in values:
                is_same = name in versions and before.get(name) == versions[name]
                if (parent and is_same and row.take(name, parent)) or name not in given:
                    continue
                values[name] = prepare_value(self.codec, name, given[name])
            value, is_main = values[name], name == self.main_channel
            refs = self.messages.store(
                rows, value.messages, now=now, is_main=is_main, user_id=new.user_id
            )
            if value.packed is None:
                row.inline[name] = InlineValue(refs, value.shape)
                continue
            large = LargeValue(refs, value.packed)
            number = parent.large.get(name) if parent and name not in new.new_versions else None
            if number is None or read_value(rows.tx, own, number) != large:
                number = rows.namespace.last_value_number + 1
                rows.namespace = replace(rows.namespace, last_value_number=number)
                insert_value(rows.tx, own, number, large)
            row.large[name] = number

    def _follow_head(
        self,
        rows: MessageRows,
        before: CheckpointRow | None,
        row: CheckpointRow,
        values: Mapping[str, PreparedValue],
    ) -> Change | None:
        """Let the transcript say what the new head says."""
        name, number = self.main_channel, rows.namespace.session_number
        if name is None or not self.codec.is_plain:
            return None
        refs = _refs(rows, row, name)
        if refs is None:  # a delta channel between two snapshots
            return None
        known = _refs(rows, before, name) or ""
        is_first = number not in self._followed
        self._followed[number] = None
        if refs == known and not is_first:
            return None
        words = HeadWords(rows, self.index, self.messages.before_store, self.hides_removed)
        if not words.may_differ(refs):
            return None
        messages = (
            values[name].messages
            if name in values
            else self.messages.load(rows.tx, rows.namespace, refs, is_main=True)
        )
        now = time_of(row.fields) or datetime.now(UTC)
        return words.follow(known, refs, messages, now, is_first=is_first)

    def put_writes(
        self, address: Address, given: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        """Store pending writes of a checkpoint, whether it is there yet or not.

        A write that is there stays; only errors, interrupts and resumes are written over.
        """
        key, task_key = key_of(str(address.checkpoint_id)), key_of(task_id)
        self.messages.cache.clear_if_closed(self.database.closings)
        values = [(channel, prepare_value(self.codec, channel, value)) for channel, value in given]
        now = datetime.now(UTC)
        with self.writing(address) as tx:
            namespace = find_or_make_namespace(tx, address.thread_id, address.ns)
            number = namespace.namespace_id
            rows = MessageRows(tx, namespace)
            places = write_places(tx.connection, number, key)
            before = len(places)
            # By place: what a batch holds twice (a resume, an error) counts as it stands last.
            new = dict[int, PendingWrite]()
            for at, (channel, value) in enumerate(values):
                idx = WRITES_IDX_MAP.get(channel, at)
                if (task_key, idx) in places:
                    if idx >= 0:
                        continue
                    delete_write(tx.connection, number, key, task_key, idx)
                refs = self.messages.store(rows, value.messages, now=now, is_main=False)
                shape = value.shape if value.packed is None else self.codec.unpack(value.packed)
                stored = InlineValue(refs, shape)
                new[idx] = PendingWrite(task_path, task_id, idx, channel, stored)
                places.add((task_key, idx))
            insert_writes(tx, number, key, [*new.values()], now)
            save_write_count(tx, number, key, before, len(places))
        for cache in rows.after_commit:
            cache()


def _refs(rows: MessageRows, row: CheckpointRow | None, name: str) -> str | None:
    """Return the references of the messages that a checkpoint has in a channel, if any."""
    if row is None or not (name in row.inline or name in row.large):
        return None
    if name in row.inline:
        return row.inline[name].refs
    return read_value(rows.tx, rows.namespace.namespace_id, row.large[name]).refs
