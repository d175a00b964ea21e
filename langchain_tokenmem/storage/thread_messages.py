"""Messages of checkpoints: each is a row of its thread's session, and stored once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, case, insert, select, update

from langchain_tokenmem.core.before_store import BeforeStore, as_kept
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.storage.codec import Codec
from langchain_tokenmem.storage.database import chunks
from langchain_tokenmem.storage.message_json import EncodedMessage, checksum, decoded_message
from langchain_tokenmem.storage.search_index import SearchIndex
from langchain_tokenmem.storage.sessions import Session, later, save
from langchain_tokenmem.storage.tables import messages
from langchain_tokenmem.storage.transcripts import (
    TranscriptRow,
    hide,
    next_number,
    row_of,
    show,
    wordings_of,
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
        keys = [(self.codec.digest(m), m.id and str(m.id)) for m in given]
        known = _known(connection, session, keys, near)
        batch = _Batch(connection, session, self, now, is_main=is_main)
        repeats = Counter[_Key]()
        numbers = []
        for message, key in zip(given, keys, strict=True):
            at = repeats[key] if is_main and not message.id else 0
            repeats[key] += 1
            found = known[key][at] if at < len(known[key]) else None
            if found is None:
                found = batch.add(message, key[0])
                known[key].append(found)
            elif found[1] is None and batch.is_transcript:
                found[1] = batch.adopt(found[0], message)
            numbers.append(found[0])
        return batch.save(), numbers

    def read(
        self, connection: Connection, session: int, numbers: Sequence[int]
    ) -> list[BaseMessage]:
        """Return messages by their numbers; no object is shared.

        Raises:
            CorruptStoreError: When one is damaged or missing.
        """
        found: dict[int, BaseMessage] = {}
        names = ("number", "message", "exact", "checksum", "has_own_id")
        columns = tuple(messages.c[name] for name in names)
        for some in chunks(sorted(set(numbers))):
            own = (messages.c.session == session, messages.c.number.in_(some))
            for row in connection.execute(select(*columns).where(*own)):
                if row.exact is not None:
                    found[row.number] = self.codec.unpack(row.exact)
                    continue
                if row.message is None or checksum(row.message) != row.checksum:
                    raise CorruptStoreError("a message is damaged")
                found[row.number] = decoded_message(row.message)
                if not row.has_own_id:  # the transcript has given it one
                    found[row.number].id = None
        if len(found) != len(set(numbers)):
            raise CorruptStoreError("a message is missing")
        given, seen = [], set[int]()
        for number in numbers:
            message = found[number]
            given.append(message.model_copy(deep=True) if number in seen else message)
            seen.add(number)
        return given

    def follow(
        self, connection: Connection, session: Session, before: Iterable[int], now: Iterable[int]
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
        was, there = set(before), set(now)
        changed: set[int] = set()
        if added := there - was:
            own = (messages.c.session == session.id, messages.c.is_shown == 0)
            query = select(messages.c.number, messages.c.seq).where(*own)
            rows = connection.execute(query.where(messages.c.seq.is_not(None))).all()
            again = {number: seq for number, seq in rows if number in added}
            show(connection, session, again)
            changed.update(again.values())
        if self.hides_removed and (gone := was - there):
            removed = _seqs(connection, session, gone) - _seqs(connection, session, there)
            hide(connection, session, removed)
            changed |= removed
        if not changed:
            return session, None
        session = save(connection, session, edits=session.edits + len(changed))
        return session, self.index.edited(connection, session, sorted(changed))


class _Batch:
    """New messages of one list."""

    def __init__(
        self,
        connection: Connection,
        session: Session,
        thread: ThreadMessages,
        now: datetime,
        *,
        is_main: bool,
    ) -> None:
        self._connection, self._session, self._thread, self._now = connection, session, thread, now
        # What is encrypted has no place in a transcript that everybody can read.
        self.is_transcript = is_main and thread.codec.is_plain
        self._rows: list[dict[str, Any]] = []
        self._new: list[TranscriptRow] = []
        self._number = 0
        self._last = session.last_seq
        self._seqs: dict[str, int] = {}

    def add(self, message: BaseMessage, digest: bytes) -> list[Any]:
        """Insert a message; return its number, and its place in the transcript."""
        self._number = (self._number or next_number(self._connection, self._session) - 1) + 1
        row = self._columns(message)
        self._rows.append(row | {"number": self._number, "digest": digest})
        return [self._number, row["seq"]]

    def adopt(self, number: int, message: BaseMessage) -> int | None:
        """Give a message that only a checkpoint had a place in the transcript."""
        row = self._columns(message, number)
        own = (messages.c.session == self._session.id, messages.c.number == number)
        connection = self._connection
        connection.execute(update(messages).where(*own).values(row))
        return row["seq"]  # type: ignore[no-any-return]

    def save(self) -> Session:
        """Write what was added; return the session as it is then."""
        if self._rows:
            self._connection.execute(insert(messages), self._rows)
        if not self._new:
            return self._session
        active_at = later(self._session.active_at, self._now)
        session = save(self._connection, self._session, last_seq=self._last, active_at=active_at)
        self._thread.index.appended(self._connection, session, self._new)
        return session

    def _columns(self, message: BaseMessage, number: int = 0) -> dict[str, Any]:
        """Return the columns of a wording: with a place in the transcript where it can have one."""
        codec = self._thread.codec
        kept = as_kept(self._thread.before_store, [message])[0] if self.is_transcript else message
        one = self._encoded(kept)
        if one is None:
            what = f"Message {message.id}"
            return {
                "session": self._session.id,
                "seq": None,
                "is_shown": 0,
                "message_id": message.id and str(message.id),
                "has_own_id": int(bool(message.id)),
                "content_hash": None,
                "checksum": None,
                "created_at": self._now.isoformat(),
                "message": None,
                "exact": codec.checked(codec.pack(message, what), what),
            }
        name = one.stored.id or ""
        seq = self._seq_of(name) if message.id else None
        is_new = seq is None
        if seq is None:
            seq = self._last = self._last + 1
        self._seqs[name] = seq
        row = row_of(self._session, 0, seq, one, self._now)
        row |= {"is_shown": int(is_new), "has_own_id": int(bool(message.id))}
        if kept is not message or not one.is_lossless:
            what = f"Message {message.id}"
            row["exact"] = codec.checked(codec.pack(message, what), what)
        del row["number"]
        if is_new:
            moment = datetime.fromisoformat(row["created_at"])
            number = number or self._number
            self._new.append(TranscriptRow(seq, one.stored, moment, number=number))
        return row

    def _encoded(self, kept: BaseMessage) -> EncodedMessage | None:
        if not self.is_transcript:
            return None
        try:
            one = EncodedMessage(kept) if kept.id else EncodedMessage(kept, str(uuid4()))
            row_of(self._session, 0, 0, one, self._now)
        except ConfigurationError:
            return None  # a transcript cannot hold it
        return one

    def _seq_of(self, name: str) -> int | None:
        if name in self._seqs:
            return self._seqs[name]
        found = wordings_of(self._connection, self._session, [name])
        return found[name][0] if name in found else None


_Key = tuple[bytes, str | None]
"""Digest of a message, and its id if it brought one."""


def _known(
    connection: Connection, session: Session, keys: Sequence[_Key], near: Collection[int]
) -> dict[_Key, list[list[Any]]]:
    """Return number and place in the transcript of the messages that are there, by key."""
    name = case((messages.c.has_own_id == 1, messages.c.message_id))
    columns = (messages.c.digest, name, messages.c.number, messages.c.seq)
    own = messages.c.session == session.id
    found: dict[_Key, list[list[Any]]] = defaultdict(list)
    unknown = {digest for digest, _ in keys}
    if near:  # nearly all stand in the list before this one: one query
        query = select(*columns).where(own, messages.c.number.between(min(near), max(near)))
        rows = connection.execute(query.order_by(messages.c.number)).all()
        unknown -= {bytes(row.digest) for row in rows}
        unknown |= {digest for digest, name in keys if not name}
        for digest, name, *place in rows:
            if bytes(digest) not in unknown:
                found[bytes(digest), name].append(place)
    for some in chunks(unknown):
        query = select(*columns).where(own, messages.c.digest.in_(some))
        for digest, name, *place in connection.execute(query.order_by(messages.c.number)):
            found[bytes(digest), name].append(place)
    return found


def _seqs(connection: Connection, session: Session, numbers: Collection[int]) -> set[int]:
    """Return the places in the transcript of some messages."""
    found: set[int] = set()
    for some in chunks(numbers):
        own = (messages.c.session == session.id, messages.c.number.in_(some))
        query = select(messages.c.seq).where(*own, messages.c.seq.is_not(None))
        found.update(connection.execute(query).scalars())
    return found


def own_copy(codec: Codec, message: BaseMessage) -> BaseMessage:
    """Return a message that nobody else can change."""
    try:
        return message.model_copy(deep=True)
    except (TypeError, ValueError, RecursionError):
        what = f"Message {message.id}"
        copy: BaseMessage = codec.unpack(codec.checked(codec.pack(message, what), what))
        return copy
