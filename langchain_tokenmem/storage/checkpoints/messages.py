"""Stores and loads the messages of checkpointed threads, each once, by reference.

A reference above zero is the number of a message in the transcript of the session, one below zero
the (negated) number of a row beside it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Codec, unstorable
from langchain_tokenmem.storage.checkpoints.message_cache import (
    CachedMessage,
    MessageCache,
    cached,
    changed_places,
    copy_cached,
    copy_message,
)
from langchain_tokenmem.storage.checkpoints.message_rows import MessageRows
from langchain_tokenmem.storage.checkpoints.message_writer import MessageWriter
from langchain_tokenmem.storage.checkpoints.namespaces import Namespace
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.message_rows import read_between
from langchain_tokenmem.storage.transcripts.sessions import find

_GAP = 16
"""Messages that are read along rather than asking twice."""

_AT_ONCE = 200
"""Messages read from the transcript before other threads get their turn."""


class _StoredList(NamedTuple):
    """A list of messages as a transaction stored it."""

    messages: Sequence[BaseMessage]
    entries: Sequence[CachedMessage]
    is_main: bool


@dataclass
class StoredMessages:
    """What may be cached of a transaction once it is committed."""

    new: list[CachedMessage] = field(default_factory=list)
    lists: list[_StoredList] = field(default_factory=list)


class ThreadMessages:
    """The messages of checkpointed threads.

    Args:
        codec: Writes those that the transcript cannot hold.
        cache: Takes messages that were stored or read.
        index: Takes what is appended to a transcript.
    """

    def __init__(self, codec: Codec, cache: MessageCache, index: IndexStore) -> None:
        self._codec = codec
        self._index = index
        self.cache = cache

    def store(
        self,
        connection: Connection,
        namespace: Namespace,
        messages: Sequence[BaseMessage],
        stored: StoredMessages,
        *,
        now: datetime,
        is_main: bool,
        user_id: str | None = None,
    ) -> str:
        """Store the messages that are new, and return the references of all.

        Args:
            connection: In a transaction that writes.
            namespace: Whose messages they are.
            messages: The messages.
            stored: Takes what may be cached once the transaction is committed.
            now: Time of messages that bring none.
            is_main: Whether they belong to the channel that is the transcript.
            user_id: Who owns the thread.
        """
        if not messages:
            return ""
        rows = self._rows(connection, namespace)
        found, fresh_from = self.cache.find(namespace, messages, is_main=is_main)
        new = self._new_places(found, messages, rows, is_main=is_main)
        if new:
            # What is stored and what is cached must be one thing, whoever changes the message
            # meanwhile.
            copies = [_own_copy(self._codec, messages[place]) for place in new]
            writer = MessageWriter(connection, rows, self._codec, namespace, self._index, user_id)
            fresh = {at for at, place in enumerate(new) if 0 < fresh_from <= place}
            written = writer.write(copies, now, channel=messages if is_main else None, fresh=fresh)
            for place, message, (reference, is_final) in zip(new, copies, written, strict=True):
                entry = cached(message, reference, is_final=is_final)
                found[place] = entry
                stored.new.append(entry)
        entries = [entry for entry in found if entry is not None]
        stored.lists.append(_StoredList(messages, entries, is_main))
        return rows.write_references([entry.reference for entry in entries])

    def _new_places(
        self,
        found: Sequence[CachedMessage | None],
        messages: Sequence[BaseMessage],
        rows: MessageRows,
        *,
        is_main: bool,
    ) -> list[int]:
        """Return the places of what is not stored, and of what has to move to the transcript."""
        new = set(changed_places(found, messages))
        beside = {
            place: entry
            for place, entry in enumerate(found)
            if entry is not None and entry.reference < 0 and place not in new
        }
        if is_main:
            new.update(place for place, entry in beside.items() if not entry.is_final)
        if beside and not rows.are_there([-entry.reference for entry in beside.values()]):
            new.update(beside)
        return sorted(new)

    def committed(self, namespace: Namespace, stored: StoredMessages) -> None:
        """Cache what a transaction has stored."""
        self.cache.add(namespace, stored.new)
        for messages, entries, is_main in stored.lists:
            self.cache.add_objects(namespace, messages, entries, is_main=is_main)

    def load(
        self, connection: Connection, namespace: Namespace, lists: Sequence[tuple[str, bool]]
    ) -> list[list[BaseMessage]]:
        """Return lists of messages; only those that are not cached are read.

        Args:
            connection: In a transaction.
            namespace: Whose messages they are.
            lists: The references of each list, and whether it is of the channel that is the
                transcript.

        Raises:
            CorruptStoreError: When one is damaged or missing.
        """
        rows = self._rows(connection, namespace)
        numbers = [rows.read_references(refs) for refs, _ in lists]
        known = self.cache.by_reference(namespace)
        found = [[known.get(one) for one in some] for some in numbers]
        if not all(map(all, found)):
            wanted = {one for some in numbers for one in some}
            held = {one: entry for one in wanted if (entry := known.get(one)) is not None}
            read = self._read(connection, namespace, rows, wanted - held.keys())
            self.cache.add(namespace, read)
            held.update((entry.reference, entry) for entry in read)
            found = [[held[one] for one in some] for some in numbers]
        given = []
        for (_, is_main), some in zip(lists, found, strict=True):
            entries = [entry for entry in some if entry is not None]
            copies = copy_cached(entries)
            self.cache.add_objects(namespace, copies, entries, is_main=is_main)
            given.append(copies)
        return given

    def _read(
        self,
        connection: Connection,
        namespace: Namespace,
        rows: MessageRows,
        references: Iterable[int],
    ) -> list[CachedMessage]:
        seqs = {reference: reference for reference in references if reference > 0}
        beside = sorted(-reference for reference in references if reference < 0)
        found: list[CachedMessage] = []
        proofs: dict[int, bytes | None] = {}
        for row in rows.by_number(beside):
            reference, seq = -row["message_number"], row["transcript_seq"]
            if seq is None:
                found.append(cached(self._codec.unpack(row["message"]), reference, is_final=False))
            else:
                seqs[reference] = seq
                proofs[seq] = row["message"]
        transcript = _transcript(connection, namespace, sorted(set(seqs.values())))
        for seq, proof in proofs.items():
            if proof is not None and self._codec.digest(transcript[seq]) != proof:
                raise CorruptStoreError(f"message {seq} of the transcript was changed")
        return found + [
            cached(transcript[seq], reference, is_final=True) for reference, seq in seqs.items()
        ]

    def _rows(self, connection: Connection, namespace: Namespace) -> MessageRows:
        return MessageRows(connection, self._codec, namespace.thread_id, namespace.session_number)


def _own_copy(codec: Codec, message: BaseMessage) -> BaseMessage:
    """Return a copy; of a message that cannot be copied, what is read back of it.

    Raises:
        ConfigurationError: When that cannot be copied either, such as a lock.
    """
    try:
        return copy_message(message)
    except (TypeError, ValueError, RecursionError) as error:
        packed = codec.checked(codec.pack(message))
        try:
            return copy_message(codec.unpack(packed))
        except (TypeError, ValueError, RecursionError):
            raise unstorable(f"Message {message.id}", error) from error


def _transcript(
    connection: Connection, namespace: Namespace, seqs: Sequence[int]
) -> dict[int, BaseMessage]:
    """Return messages of the transcript by number, small gaps between them read along."""
    if not seqs:
        return {}
    session = find(connection, namespace.session_id, None)
    if session is None:
        raise CorruptStoreError("its transcript is missing")
    ranges: list[tuple[int, int]] = []
    for seq in seqs:
        first, last = ranges[-1] if ranges else (seq, seq)
        if ranges and seq - last <= _GAP and seq - first < _AT_ONCE:
            ranges[-1] = (first, seq)
        else:
            ranges.append((seq, seq))
    found: dict[int, BaseMessage] = {}
    for first, last in ranges:
        found.update(
            (row.seq, row.message) for row in read_between(connection, session, first, last)
        )
        time.sleep(0)  # so that an event loop is not held up for the sum
    return found
