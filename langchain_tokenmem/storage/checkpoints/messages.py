"""Stores and loads the messages of checkpointed threads, each once, by reference.

A reference above zero is the number of a message in the transcript of the session, one below zero
the (negated) number of a row beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection

from langchain_tokenmem.core.before_store import BeforeStore
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Codec, Transaction, unstorable
from langchain_tokenmem.storage.checkpoints.message_cache import MessageCache
from langchain_tokenmem.storage.checkpoints.message_copies import (
    CachedList,
    CachedMessage,
    cached,
    copy_message,
    is_same,
    let_event_loop_run,
)
from langchain_tokenmem.storage.checkpoints.message_rows import MessageRows
from langchain_tokenmem.storage.checkpoints.message_writer import MessageWriter
from langchain_tokenmem.storage.checkpoints.namespaces import Namespace
from langchain_tokenmem.storage.checkpoints.shapes import to_ranges
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.message_rows import read_at
from langchain_tokenmem.storage.transcripts.sessions import find

_AT_ONCE = 200
"""Messages read from the transcript before other threads get their turn."""


@dataclass
class ThreadMessages:
    """The messages of checkpointed threads.

    Attributes:
        cache: Takes messages that were stored or read.
        index: Takes what is appended to a transcript.
        before_store: Changes messages on their way into a transcript; None for none.
    """

    cache: MessageCache
    index: IndexStore
    before_store: BeforeStore | None = None

    def store(
        self,
        rows: MessageRows,
        messages: Sequence[BaseMessage],
        *,
        now: datetime,
        is_main: bool,
        user_id: str | None = None,
    ) -> str:
        """Store the messages that are new, and return the references of all.

        Args:
            rows: Those of their session, in a transaction that writes; they are cached after it.
            messages: The messages.
            now: Time of messages that bring none.
            is_main: Whether they belong to the channel that is the transcript.
            user_id: Who owns the thread.
        """
        if not messages:
            return ""
        namespace = rows.namespace
        is_long = len(messages) > _AT_ONCE
        if is_long:
            let_event_loop_run()
        begin, entries, fresh_from = self.cache.find(namespace, messages, is_main=is_main)
        if is_long:
            let_event_loop_run()
        if not _stay(rows, begin.beside, is_main=is_main):
            begin, entries = CachedList(), [*begin.entries, *entries]
        start = len(begin.entries)
        new = self._new_places(rows, entries, messages[start:], is_main=is_main)
        if new:
            # What is stored and what is cached must be one thing, whoever changes the message
            # meanwhile.
            copies = [_own_copy(rows.tx.codec, messages[start + at]) for at in new]
            writer = MessageWriter(rows, self.index, user_id, self.before_store)
            fresh = {number for number, at in enumerate(new) if 0 < fresh_from <= start + at}
            written = writer.write(copies, now, channel=messages if is_main else None, fresh=fresh)
            for at, message, (reference, is_final) in zip(new, copies, written, strict=True):
                entries[at] = cached(message, reference, is_final=is_final)
            added = [entry for at in new if (entry := entries[at]) is not None]
            rows.after_commit.append(partial(self.cache.add, namespace, added))
        more = [entry for entry in entries if entry is not None]
        refs = rows.write_ranges(to_ranges((entry.reference for entry in more), begin.ranges))
        rows.after_commit.append(
            partial(self.cache.add_list, namespace, refs, begin, more, messages, is_main=is_main)
        )
        return refs

    def _new_places(
        self,
        rows: MessageRows,
        entries: Sequence[CachedMessage | None],
        messages: Sequence[BaseMessage],
        *,
        is_main: bool,
    ) -> list[int]:
        """Return the places of what is not stored, and of what has to move to the transcript."""
        new = {
            at
            for at, (entry, message) in enumerate(zip(entries, messages, strict=True))
            if entry is None or not is_same(entry, message)
        }
        beside = {
            at: entry
            for at, entry in enumerate(entries)
            if entry is not None and entry.reference < 0 and at not in new
        }
        if not _stay(rows, beside.values(), is_main=False):
            new.update(beside)
        if is_main:
            new.update(at for at, entry in beside.items() if not entry.is_final)
        return sorted(new)

    def load(
        self, tx: Transaction, namespace: Namespace, refs: str, *, is_main: bool
    ) -> list[BaseMessage]:
        """Return a list of messages; only those that are not cached are read.

        Args:
            tx: The transaction.
            namespace: Whose messages they are.
            refs: Their references.
            is_main: Whether they belong to the channel that is the transcript.

        Raises:
            CorruptStoreError: When one is damaged or missing.
        """
        if not refs:
            return []
        found = self.cache.listed(namespace, refs)
        if found is None:
            found = CachedList().extended(self._load(tx, namespace, refs))
        copies = found.copies()
        self.cache.add_list(namespace, refs, found, (), copies, is_main=is_main)
        return copies

    def _load(self, tx: Transaction, namespace: Namespace, refs: str) -> list[CachedMessage]:
        """Return the messages of a list, those that are not cached as they are read."""
        rows = MessageRows(tx, namespace)
        numbers = rows.read_references(refs)
        known = self.cache.by_reference(namespace)
        found = {number: known.get(number) for number in numbers}
        missing = {number for number, entry in found.items() if entry is None}
        read = _read(rows, missing) if missing else []
        self.cache.add(namespace, read)
        found.update((entry.reference, entry) for entry in read)
        return [entry for number in numbers if (entry := found[number]) is not None]


def _stay(rows: MessageRows, beside: Collection[CachedMessage], *, is_main: bool) -> bool:
    """Return whether messages beside the transcript are still there, and need not move to it."""
    if is_main and not all(entry.is_final for entry in beside):
        return False
    return rows.are_there([-entry.reference for entry in beside])


def _read(rows: MessageRows, references: Iterable[int]) -> list[CachedMessage]:
    """Return messages as they are stored."""
    codec = rows.tx.codec
    seqs = {reference: reference for reference in references if reference > 0}
    beside = sorted(-reference for reference in references if reference < 0)
    found: list[CachedMessage] = []
    proofs: dict[int, bytes | None] = {}
    for row in rows.by_number(beside):
        reference, seq = -row["message_number"], row["transcript_seq"]
        if seq is None:
            found.append(cached(codec.unpack(row["message"]), reference, is_final=False))
        else:
            seqs[reference] = seq
            proofs[seq] = row["message"]
    transcript = _transcript(rows.tx.connection, rows.namespace, sorted(set(seqs.values())))
    for seq, proof in proofs.items():
        if proof is not None and codec.digest(transcript[seq]) != proof:
            raise CorruptStoreError(f"message {seq} of the transcript was changed")
    return found + [
        cached(transcript[seq], reference, is_final=True) for reference, seq in seqs.items()
    ]


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
    """Return messages of the transcript by number."""
    if not seqs:
        return {}
    session = find(connection, namespace.session_id, None)
    if session is None:
        raise CorruptStoreError("its transcript is missing")
    found: dict[int, BaseMessage] = {}
    for start in range(0, len(seqs), _AT_ONCE):
        rows = read_at(connection, session, seqs[start : start + _AT_ONCE])
        found.update((row.seq, row.message) for row in rows)
        let_event_loop_run()
    if found.keys() != set(seqs):
        raise CorruptStoreError("a message of its transcript is missing")
    return found
