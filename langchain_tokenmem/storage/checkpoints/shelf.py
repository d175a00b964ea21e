"""Where messages go: to the transcript of the session where they can, to the contents else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, bindparam, update

from langchain_tokenmem.core.messages import digest_of
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.contents import Adder, by_digest
from langchain_tokenmem.storage.checkpoints.spaces import Space
from langchain_tokenmem.storage.checkpoints.tables import contents
from langchain_tokenmem.storage.checkpoints.thread_rows import owner_of_thread
from langchain_tokenmem.storage.database.database import sqlite_driver
from langchain_tokenmem.storage.database.statements import Statement
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
from langchain_tokenmem.storage.transcripts.sessions import find, find_or_make

_MOVE = Statement(
    update(contents).where(
        contents.c.group_id == bindparam("b_group_id"), contents.c.number == bindparam("b_number")
    )
)

_ANY_TIME = datetime.fromtimestamp(0, UTC)
"""Stands for the current one where it only matters whether a message tells a time."""


class Placed(NamedTuple):
    """Where a message is, and whether it can no longer move to the transcript."""

    reference: int
    is_settled: bool


class _Said(NamedTuple):
    """A message that the transcript has: its number there, and what is read from it."""

    seq: int
    copy: BaseMessage


class _Waiting(NamedTuple):
    """A message that the transcript may lack, and whether it is sure to."""

    digest: bytes
    message: BaseMessage
    is_fresh: bool


class _Telling(NamedTuple):
    """The same, written down."""

    digest: bytes
    told: EncodedMessage
    is_fresh: bool


class Shelf:
    """Stores the messages of one session in one transaction.

    Args:
        connection: In a transaction that writes.
        codec: Writes those that the transcript cannot hold.
        space: Whose messages they are.
        index: Takes what is appended to the transcript.
        user_id: Who owns the session.
    """

    def __init__(
        self,
        connection: Connection,
        codec: Codec,
        space: Space,
        index: IndexStore,
        user_id: str | None,
    ) -> None:
        self._connection = connection
        self._codec = codec
        self._space = space
        self._index = index
        self._user_id = user_id
        self._adder = Adder(connection, codec, space)

    def place(
        self,
        new: Sequence[BaseMessage],
        now: datetime,
        *,
        channel: Sequence[BaseMessage] | None,
        fresh: Collection[int],
    ) -> list[Placed]:
        """Return where each message is, stored if it was not.

        Args:
            new: The messages.
            now: Time of those that bring none.
            channel: All messages of their channel if that is the transcript; None if not.
            fresh: The places of those that were not said before, even if the words were.
        """
        is_main = channel is not None
        digests = [self._codec.digest(message) for message in new]
        if sqlite_driver(self._connection) is None:  # SQLite has one writer at a time anyway
            self._adder.hold()
        rows = by_digest(self._connection, self._codec, self._space.group_id, sorted(set(digests)))
        said: dict[bytes, _Said] = {}
        # What is encrypted in a checkpoint must not stand in clear in the transcript.
        if self._codec.is_plain:
            waiting = [
                _Waiting(digest, message, at in fresh)
                for at, (digest, message) in enumerate(zip(digests, new, strict=True))
                if digest not in rows or (is_main and rows[digest]["seq"] is None)
            ]
            said = self._heard(waiting) if channel is None else self._said(waiting, now, channel)
        placed = []
        for digest, message in zip(digests, new, strict=True):
            if digest in said and (digest in rows or self._codec.is_keyed):
                rows[digest] = self._moved(rows.get(digest), digest, said[digest])
            elif digest not in rows and digest not in said:
                body = self._codec.checked(self._codec.pack(message))
                rows[digest] = self._adder.add(digest, None, body)
            placed.append(self._place_of(rows.get(digest), said.get(digest), is_main=is_main))
        self._adder.finish()
        return placed

    def _place_of(
        self, row: Mapping[str, Any] | None, said: _Said | None, *, is_main: bool
    ) -> Placed:
        if row is not None and (self._codec.is_keyed or row["seq"] is None):
            return Placed(-row["number"], is_settled=is_main or row["seq"] is not None)
        return Placed(row["seq"] if row is not None else said.seq if said else 0, is_settled=True)

    def _said(
        self,
        waiting: Sequence[_Waiting],
        now: datetime,
        channel: Sequence[BaseMessage],
    ) -> dict[bytes, _Said]:
        """Let the transcript have messages, and return where it has them."""
        told = self._unsaid(_told(waiting), channel)
        return _where_said(told, self._appended([one.told for one in told], now))

    def _unsaid(self, told: Sequence[_Telling], channel: Sequence[BaseMessage]) -> list[_Telling]:
        """Leave out those without an id that were said as often as the channel says them."""
        doubtful = {one.told.digest for one in told if not (one.told.stored.id or one.is_fresh)}
        if not doubtful:
            return list(told)
        key = key_of(self._space.session_id)
        left = Counter(digest_of(one) for one in channel if not one.id)
        left.subtract(counts_by_hash(self._connection, key, sorted(doubtful)))
        kept = []
        for one in reversed(told):
            left[one.told.digest] -= 1
            if one.told.stored.id or one.is_fresh or left[one.told.digest] >= 0:
                kept.append(one)
        return kept[::-1]

    def _appended(self, told: Sequence[EncodedMessage], now: datetime) -> list[TranscriptRow]:
        """Append what the transcript lacks, and return the rows of all that have an id."""
        if not told:
            return []
        session = find_or_make(self._connection, self._space.session_id, None)
        if self._user_id is not None and session.user_id is None:
            # A thread may have several users; with its sub-graphs it belongs to the first one.
            owner = owner_of_thread(self._connection, self._space.thread_id) or self._user_id
            session = find_or_make(self._connection, self._space.session_id, owner)
        added, _ = append_indexed(self._connection, self._index, session, told, now, of_thread=True)
        new = {row.message.id for row in added}
        others = [one.stored.id for one in told if one.stored.id and one.stored.id not in new]
        return [*added, *read_named(self._connection, session, others)] if others else added

    def _heard(self, waiting: Sequence[_Waiting]) -> dict[bytes, _Said]:
        """Return where the transcript has messages: another task may have been faster."""
        ids = (one.message.id for one in waiting)
        names = {key_of(name): name for name in ids if isinstance(name, str) and name}
        there = hashes_by_key(self._connection, key_of(self._space.session_id), list(names))
        session = find(self._connection, self._space.session_id, None) if there else None
        if session is None:
            return {}
        rows = read_named(self._connection, session, [names[key] for key in there])
        found = {row.message.id for row in rows}
        return _where_said(_told(one for one in waiting if one.message.id in found), rows)

    def _moved(self, row: dict[str, Any] | None, digest: bytes, said: _Said) -> dict[str, Any]:
        """Let the transcript hold a message, with the proof of what it says if there is a key."""
        proof = self._codec.digest(said.copy) if self._codec.is_keyed else None
        if row is None:
            return self._adder.add(digest, said.seq, proof)
        if row["seq"] == said.seq:
            return row
        moved = {**row, "seq": said.seq, "body": proof}
        _MOVE.run(
            self._connection,
            {
                "b_group_id": self._space.group_id,
                "b_number": row["number"],
                "seq": said.seq,
                "body": proof,
                "seal": self._codec.seal(moved.values()),
            },
        )
        return moved


def _told(waiting: Iterable[_Waiting]) -> list[_Telling]:
    """Return the messages that a transcript takes, written down.

    One that was changed in place may hold what no message can be made from again.
    """
    told = ((one, _written(one.message)) for one in waiting)
    return [_Telling(one.digest, said, one.is_fresh) for one, said in told if said is not None]


def _where_said(told: Iterable[_Telling], rows: Iterable[TranscriptRow]) -> dict[bytes, _Said]:
    """Return where rows say the very same."""
    there = {row.message.id: row for row in rows}
    said = {}
    for digest, one, _ in told:
        row = there.get(one.stored.id)
        if row is not None and one.is_lossless and row.message == one.encoding.decoded:
            said[digest] = _Said(row.seq, one.encoding.decoded)
    return said


def _written(message: BaseMessage) -> EncodedMessage | None:
    try:
        created_at_of(message, _ANY_TIME)
        encoded = EncodedMessage(message)
        _ = encoded.encoding  # raises where no message could be made from it again
    except ConfigurationError:
        return None
    return encoded
