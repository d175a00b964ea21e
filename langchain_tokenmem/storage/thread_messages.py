"""Messages of checkpoints: each is a row of its thread's session, and stored once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4
from zlib import crc32

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, Select, bindparam, func, insert, or_, select, text, update

from langchain_tokenmem.core.argument_checks import BeforeStore, as_kept
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.core.thread_names import is_id
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.storage.codec import Codec
from langchain_tokenmem.storage.database import chunks
from langchain_tokenmem.storage.message_json import EncodedMessage, checksum, decoded_message
from langchain_tokenmem.storage.search_index import SearchIndex
from langchain_tokenmem.storage.sessions import Session, later
from langchain_tokenmem.storage.tables import messages
from langchain_tokenmem.storage.transcripts import (
    TranscriptRow,
    hide,
    row_of,
    show,
)


@dataclass(frozen=True)
class ThreadMessages:
    """Stores the messages of checkpoints, and reads them.

    Attributes:
        codec: Digests messages, and packs those that JSON cannot say.
        index: Takes what is new in a transcript.
        before_store: Changes messages on their way into the transcript.
        hides_removed: Whether the transcript hides what the head of a thread has no more.
    """

    codec: Codec
    index: SearchIndex
    before_store: BeforeStore | None = None
    hides_removed: bool = False

    def store(
        self,
        connection: Connection,
        session: Session,
        given: Sequence[BaseMessage],
        now: datetime,
        *,
        is_main: bool,
        near: Collection[int] = (),
    ) -> tuple[Session, list[int]]:
        """Return the numbers of messages in their session; what is new is inserted.

        A message without an id is the k-th that says so if it is the k-th in its list.

        Args:
            connection: In a transaction that writes.
            session: The session of the thread.
            given: The messages.
            now: Time of those that bring none.
            is_main: Whether they are the transcript.
            near: Numbers among which most of them are.
        """
        if not given:
            return session, []
        keys = [(self.codec.digest(message), _name_of(message)) for message in given]
        known = _Known(connection, session, keys, near)
        batch = _Batch(connection, session, self, now, known, is_main=is_main)
        repeats = Counter[_Key]()
        numbers = []
        for message, key in zip(given, keys, strict=True):
            places = known.places[key]
            at = repeats[key] if is_main and not message.id else 0
            if message.id and batch.is_transcript:  # where the turn or a tool has stored it already
                at = next((i for i, (_, seq) in enumerate(places) if seq is not None), at)
            repeats[key] += 1
            if at >= len(places):
                places.append(batch.add(message, key[0]))
            elif places[at][1] is None and batch.is_transcript:
                places[at] = batch.adopt(places[at][0], message)
            numbers.append(places[at][0])
        return batch.save(), numbers

    def read(
        self, connection: Connection, session: int, numbers: Sequence[int]
    ) -> list[BaseMessage]:
        """Return messages by their numbers; no object is shared.

        Raises:
            CorruptStoreError: When one is damaged or missing.
        """
        found: dict[int, BaseMessage] = {}
        missing = set(numbers)
        for number, said, proof in _rows(connection, session, missing, _PLAIN, *_IS_PLAIN):
            if crc32(said.encode()) != proof:
                raise CorruptStoreError("a message is damaged")
            found[number] = decoded_message(said)
        missing -= found.keys()
        for number, said, exact, proof in _rows(connection, session, missing, _ODD):
            if exact is not None:
                found[number] = self.codec.unpack(exact)
                continue
            if said is None or checksum(said) != proof:
                raise CorruptStoreError("a message is damaged")
            found[number] = decoded_message(said)
            found[number].id = None  # the transcript has given it one
        missing -= found.keys()
        if missing:
            raise CorruptStoreError("a message is missing")
        if len(found) == len(numbers):
            return [found[number] for number in numbers]
        given, seen = [], set[int]()
        for number in numbers:
            message = found[number]
            given.append(message.model_copy(deep=True) if number in seen else message)
            seen.add(number)
        return given

    def follow(
        self, connection: Connection, session: Session, before: list[int], now: list[int]
    ) -> tuple[Session, Change | None]:
        """Let the transcript say what the head of its thread says.

        Args:
            connection: In a transaction that writes.
            session: The session of the thread.
            before: Numbers of the messages that the head had.
            now: Numbers of those that it has.

        Returns:
            The session, and what to tell the listeners of the index; None for nothing.
        """
        # A thread that went on has no more to compare than its tail.
        size = len(before) if now[: len(before)] == before else 0
        was, there = set(before[size:]), set(now[size:])
        changed: set[int] = set()
        if added := there - was:
            rows = connection.execute(_HIDDEN, {"of": session.id}).all()
            again = {number: seq for number, seq in rows if number in added}
            if again:
                show(connection, session, again)
                changed.update(again.values())
        if self.hides_removed and (gone := was - there):
            removed = _seqs(connection, session, gone) - _seqs(connection, session, there)
            hide(connection, session, removed)
            changed |= removed
        if not changed:
            return session, None
        session = replace(session, edits=session.edits + len(changed))
        return session, self.index.edited(connection, session, sorted(changed))


_Key = tuple[bytes, str | None]
"""Digest of a message, and its id if it brought one."""

_Place = tuple[int, int | None]
"""Number of a message in its session, and in the transcript."""


def _lookups() -> tuple[Select[Any], Select[Any], Select[Any]]:
    """Return statements for messages in a range, those that say the same, and hidden ones."""
    table, own = messages.c, messages.c.session == bindparam("of")
    query = select(table.number, table.seq, table.message_id, table.has_own_id, table.digest)
    newest = select(func.max(table.number)).where(own).scalar_subquery()
    same = or_(
        table.digest.in_(bindparam("digests", expanding=True)),
        table.message_id.in_(bindparam("ids", expanding=True)),
        table.number == newest,
    )
    hidden = select(table.number, table.seq).where(table.is_shown == text("0"), own)
    return (
        query.where(own, table.number.between(bindparam("first"), bindparam("last"))),
        query.where(own, same),
        hidden.where(table.seq.is_not(None)),
    )


# Made once: building them anew takes longer than asking.
_ADOPT = update(messages).where(
    messages.c.session == bindparam("of"), messages.c.number == bindparam("at")
)
_NEAR, _SAME, _HIDDEN = _lookups()


class _Known:
    """What a session has of some messages.

    Args:
        connection: In a transaction that writes.
        session: The session.
        keys: The messages.
        near: Numbers among which most of them are: one query finds them.

    Attributes:
        places: The messages that say the same, by key, the oldest first.
        seqs: Numbers in the transcript by id.
        last: The newest number of all, where a message is missing.
    """

    def __init__(
        self,
        connection: Connection,
        session: Session,
        keys: Sequence[_Key],
        near: Collection[int],
    ) -> None:
        own = {"of": session.id}
        rows: dict[int, Any] = {}
        if near:
            between = own | {"first": min(near), "last": max(near)}
            rows = {row.number: row for row in connection.execute(_NEAR, between)}
        there = {(bytes(r.digest), r.message_id) for r in rows.values() if r.has_own_id and r.seq}
        for some in chunks(set(keys) - there):
            same = {"digests": [digest for digest, _ in some], "ids": [name for _, name in some]}
            rows |= {row.number: row for row in connection.execute(_SAME, own | same)}
        self.last = max(rows, default=0)
        self.seqs: dict[str, int] = {}
        self.places: dict[_Key, list[_Place]] = defaultdict(list)
        for number, seq, name, has_own_id, digest in (rows[number] for number in sorted(rows)):
            self.places[bytes(digest), name if has_own_id else None].append((number, seq))
            if seq is not None:
                self.seqs[name] = seq


class _Batch:
    """New messages of one list."""

    def __init__(
        self,
        connection: Connection,
        session: Session,
        thread: ThreadMessages,
        now: datetime,
        known: _Known,
        *,
        is_main: bool,
    ) -> None:
        self._connection, self._session, self._thread, self._now = connection, session, thread, now
        # What is encrypted has no place in a transcript that everybody can read.
        self.is_transcript = is_main and thread.codec.is_plain
        self._rows: list[dict[str, Any]] = []
        self._new: list[TranscriptRow] = []
        self._number, self._seqs = known.last, known.seqs
        self._last = session.last_seq

    def add(self, message: BaseMessage, digest: bytes) -> _Place:
        """Insert a message; return its place."""
        self._number += 1
        row = self._columns(message, self._number) | {"digest": digest}
        self._rows.append(row)
        return self._number, row["seq"]

    def adopt(self, number: int, message: BaseMessage) -> _Place:
        """Give a message that only a checkpoint had a place in the transcript."""
        row = self._columns(message, number)
        at = {"of": self._session.id, "at": number}
        self._connection.execute(_ADOPT, at | row)
        return number, row["seq"]

    def save(self) -> Session:
        """Write what was added; return the session as it is to be saved."""
        if self._rows:
            self._connection.execute(insert(messages), self._rows)
        if not self._new:
            return self._session
        active_at = later(self._session.active_at, self._now)
        session = replace(self._session, last_seq=self._last, active_at=active_at)
        self._thread.index.appended(self._connection, session, self._new)
        return session

    def _columns(self, message: BaseMessage, number: int) -> dict[str, Any]:
        """Return the columns of a wording: with a place in the transcript where it can have one."""
        codec = self._thread.codec
        what = f"Message {message.id}"
        kept = message
        if self.is_transcript and self._thread.before_store:
            kept = as_kept(self._thread.before_store, [message])[0]
        found = self._row_of(kept, number) if self.is_transcript else None
        if found is None:
            return {
                "session": self._session.id,
                "number": number,
                "seq": None,
                "is_shown": 0,
                "message_id": _name_of(message),
                "has_own_id": int(bool(message.id)),
                "content_hash": None,
                "checksum": None,
                "created_at": self._now.isoformat(),
                "message": None,
                "exact": codec.checked(codec.pack(message, what), what),
            }
        row, one = found
        name: str = row["message_id"]
        seq = self._seqs.get(name) if message.id else None
        is_new = seq is None
        if seq is None:
            seq = self._last = self._last + 1
        self._seqs[name] = seq
        row |= {"seq": seq, "is_shown": int(is_new), "has_own_id": int(bool(message.id))}
        if kept is not message or not one.is_lossless:
            row["exact"] = codec.checked(codec.pack(message, what), what)
        if is_new:
            moment = datetime.fromisoformat(row["created_at"])
            self._new.append(TranscriptRow(seq, one.stored, moment, number=number))
        return dict(row)

    def _row_of(
        self, kept: BaseMessage, number: int
    ) -> tuple[dict[str, Any], EncodedMessage] | None:
        """Return the columns that a transcript has of a message; None where it cannot hold it."""
        try:
            one = EncodedMessage(kept, None if kept.id else str(uuid4()))
            return row_of(self._session, number, 0, one, self._now), one
        except ConfigurationError:
            return None


_PLAIN = (messages.c.number, messages.c.message, messages.c.checksum)
_IS_PLAIN = (messages.c.exact.is_(None), messages.c.has_own_id == 1)
_ODD = (messages.c.number, messages.c.message, messages.c.exact, messages.c.checksum)


def _rows(
    connection: Connection, session: int, numbers: set[int], columns: Any, *conditions: Any
) -> Iterator[Any]:
    """Give columns of these messages, the number first."""
    query = select(*columns).where(messages.c.session == session, *conditions)
    if numbers and max(numbers) - min(numbers) < 2 * len(numbers):  # nearly all of a range
        own = messages.c.number.between(min(numbers), max(numbers))
        rows = connection.execute(query.where(own)).all()
        yield from rows if len(rows) == len(numbers) else (r for r in rows if r[0] in numbers)
        return
    for some in chunks(numbers):
        yield from connection.execute(query.where(messages.c.number.in_(some))).all()


def _seqs(connection: Connection, session: Session, numbers: Collection[int]) -> set[int]:
    """Return the places in the transcript of some messages."""
    found: set[int] = set()
    for some in chunks(numbers):
        own = (messages.c.session == session.id, messages.c.number.in_(some))
        query = select(messages.c.seq).where(*own, messages.c.seq.is_not(None))
        found.update(connection.execute(query).scalars())
    return found


def _name_of(message: BaseMessage) -> str | None:
    """Return the id of a message, None where it has none that a column can hold."""
    name = message.id and str(message.id)
    return name if name and is_id(name) else None


def own_copy(codec: Codec, message: BaseMessage) -> BaseMessage:
    """Return a message that nobody else can change."""
    try:
        return message.model_copy(deep=True)
    except (TypeError, ValueError, RecursionError):
        what = f"Message {message.id}"
        copy: BaseMessage = codec.unpack(codec.checked(codec.pack(message, what), what))
        return copy
