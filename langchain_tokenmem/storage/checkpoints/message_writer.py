"""Writes messages to the transcript of a session where they can go there, beside it else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.before_store import BeforeStore, as_kept
from langchain_tokenmem.core.messages import digest_of
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.checkpoints.message_rows import MessageRows
from langchain_tokenmem.storage.checkpoints.thread_sessions import owner_of_thread
from langchain_tokenmem.storage.database.database import sqlite_driver
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.appending import (
    append_indexed,
    counts_by_hash,
    hashes_by_key,
)
from langchain_tokenmem.storage.transcripts.encoded_message import (
    EncodedMessage,
    created_at_of,
    key_of,
)
from langchain_tokenmem.storage.transcripts.message_rows import TranscriptRow, read_named
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, find_or_make

_ANY_TIME = datetime.fromtimestamp(0, UTC)
"""Stands for the current one where it only matters whether a message tells a time."""


class _Candidate(NamedTuple):
    """A message that the transcript may lack, and whether it is sure to.

    Attributes:
        digest: Of the message as the graph has it.
        encoded: The message as the transcript takes it.
        is_fresh: Whether it is sure to be new.
        is_given: Whether both are the same.
    """

    digest: bytes
    encoded: EncodedMessage
    is_fresh: bool
    is_given: bool

    @property
    def id(self) -> str | None:
        return self.encoded.stored.id


@dataclass
class MessageWriter:
    """Writes the messages of one session in one transaction.

    Attributes:
        rows: The messages beside the transcript.
        index: Takes what is appended to the transcript.
        user_id: Who owns the session.
        before_store: Changes messages on their way into the transcript; None for none.
    """

    rows: MessageRows
    index: IndexStore
    user_id: str | None
    before_store: BeforeStore | None = None

    def write(
        self,
        new: Sequence[BaseMessage],
        now: datetime,
        *,
        channel: Sequence[BaseMessage] | None,
        fresh: Collection[int],
    ) -> list[tuple[int, bool]]:
        """Return where each message is, and whether it stays there; write it if it was nowhere.

        Args:
            new: The messages.
            now: Time of those that bring none.
            channel: All messages of their channel if that is the transcript; None if not.
            fresh: The places of those that were not said before, even if the words were.
        """
        is_main, codec = channel is not None, self.rows.tx.codec
        digests = [codec.digest(message) for message in new]
        if sqlite_driver(self.rows.tx.connection) is None:  # SQLite has one writer at a time anyway
            self.rows.lock()
        rows = self.rows.by_digest(sorted(set(digests)))
        seqs: dict[bytes, tuple[int, BaseMessage]] = {}
        # What is encrypted in a checkpoint must not stand in clear in the transcript.
        if codec.is_plain:
            waiting = [
                (digest, message, at in fresh)
                for at, (digest, message) in enumerate(zip(digests, new, strict=True))
                if digest not in rows or (is_main and rows[digest]["transcript_seq"] is None)
            ]
            candidates = _candidates(waiting, self.before_store)
            seqs = self._transcript_seqs(candidates, now, channel)
        for digest, message in zip(digests, new, strict=True):
            row = rows.get(digest)
            if digest in seqs and (row or codec.is_keyed):
                seq, stored = seqs[digest]
                # The transcript has it, and with a key the row proves what it says.
                proof = codec.digest(stored) if codec.is_keyed else None
                if row is None:
                    rows[digest] = self.rows.add(digest, seq, proof)
                elif row["transcript_seq"] != seq:
                    rows[digest] = self.rows.move(row, seq, proof)
            elif row is None and digest not in seqs:
                packed = codec.checked(codec.pack(message))
                rows[digest] = self.rows.add(digest, None, packed)
        self.rows.flush()
        written = []
        for digest in digests:
            seq = rows[digest]["transcript_seq"] if digest in rows else seqs[digest][0]
            is_beside = seq is None or (digest in rows and codec.is_keyed)
            reference = -rows[digest]["message_number"] if is_beside else seq
            written.append((reference, is_main or seq is not None))
        return written

    def _transcript_seqs(
        self,
        candidates: Sequence[_Candidate],
        now: datetime,
        channel: Sequence[BaseMessage] | None,
    ) -> dict[bytes, tuple[int, BaseMessage]]:
        """Return where the transcript has messages, and as what; the channel's are appended."""
        connection, added = self.rows.tx.connection, list[TranscriptRow]()
        if channel is not None:
            candidates = self._unsaid(candidates, channel)
        if not candidates:
            return {}
        if channel is None:
            session = self.rows.find_transcript()
            if session is None:
                return {}
        else:
            session = self._session()
            encoded = [one.encoded for one in candidates]
            added, _ = append_indexed(connection, self.index, session, encoded, now, of_thread=True)
            self.rows.transcript = replace(session, last_seq=session.last_seq + len(added))
        # Another task may have been faster, and an edit has the id of what was said first.
        new = {row.message.id for row in added}
        names = {key_of(one.id): one.id for one in candidates if one.id and one.id not in new}
        there = hashes_by_key(connection, session.key, list(names)) if names else {}
        known = read_named(connection, session, [names[key] for key in there])
        rows = {row.message.id: row for row in [*added, *known]}
        return {
            one.digest: (rows[one.id].seq, one.encoded.encoding.decoded)
            for one in candidates
            if one.id in rows
            and one.is_given
            and one.encoded.is_lossless
            and rows[one.id].message == one.encoded.encoding.decoded
        }

    def _unsaid(
        self, candidates: Sequence[_Candidate], channel: Sequence[BaseMessage]
    ) -> list[_Candidate]:
        """Leave out those without an id that were said as often as the channel says them."""
        doubtful = {one.encoded.digest for one in candidates if not (one.id or one.is_fresh)}
        if not doubtful:
            return list(candidates)
        key = key_of(self.rows.namespace.session_id)
        said = as_kept(self.before_store, [one for one in channel if not one.id])
        left = Counter(map(digest_of, said))
        left.subtract(counts_by_hash(self.rows.tx.connection, key, sorted(doubtful)))
        kept = []
        for one in reversed(candidates):
            left[one.encoded.digest] -= 1
            if one.id or one.is_fresh or left[one.encoded.digest] >= 0:
                kept.append(one)
        return kept[::-1]

    def _session(self) -> SessionRow:
        """Return the session's row in the transcript store; it belongs to the thread's owner."""
        connection, namespace = self.rows.tx.connection, self.rows.namespace
        session = find_or_make(connection, namespace.session_id, None)
        if self.user_id is None or session.user_id is not None:
            return session
        # A thread may have several users; with its sub-graphs it belongs to the first one.
        owner = owner_of_thread(connection, namespace.thread_id) or self.user_id
        return find_or_make(connection, namespace.session_id, owner)


def _candidates(
    waiting: Sequence[tuple[bytes, BaseMessage, bool]], before_store: BeforeStore | None
) -> list[_Candidate]:
    """Return the messages that a transcript takes, encoded.

    One that was changed in place may hold what no message can be made from again.
    """
    found = []
    kept = as_kept(before_store, [message for _, message, _ in waiting])
    for (digest, given, is_fresh), message in zip(waiting, kept, strict=True):
        try:
            created_at_of(message, _ANY_TIME)
            encoded = EncodedMessage(message)
            _ = encoded.encoding  # raises where no message could be made from it again
        except ConfigurationError:
            continue
        is_given = message is given or message == given
        found.append(_Candidate(digest, encoded, is_fresh, is_given))
    return found
