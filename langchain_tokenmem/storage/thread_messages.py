"""Messages of threads: each is stored once, as a row of its session; edits reach the heads, too."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.messages import BaseMessage
from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    func,
    insert,
    or_,
    select,
    text,
    tuple_,
    update,
)

from langchain_tokenmem.core.argument_checks import BeforeStore, as_kept
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.core.thread_names import is_id
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError, StoreError
from langchain_tokenmem.storage.checkpoint_rows import Value, is_at, to_ranges
from langchain_tokenmem.storage.codec import Codec
from langchain_tokenmem.storage.database import chunks, rows_with
from langchain_tokenmem.storage.message_json import (
    EncodedMessage,
    checksum,
    created_at_of,
    decoded_message,
    message_digest,
)
from langchain_tokenmem.storage.search_index import SearchIndex
from langchain_tokenmem.storage.sessions import Session, has_checkpoints
from langchain_tokenmem.storage.tables import checkpoints, messages
from langchain_tokenmem.storage.transcripts import (
    TranscriptRow,
    append,
    hide,
    read_named,
    row_of,
    show,
    time_of_message,
)

_Key = tuple[bytes, str | None]
"""Digest of a message, and its id if it came with one."""


class _Place(NamedTuple):
    """Number of a message in its session and in the transcript, and whether it is shown there."""

    number: int
    seq: int | None
    is_shown: int


@dataclass
class ThreadMessages:
    """Stores the messages of checkpoints, and reads them.

    Attributes:
        codec: Digests messages, and packs those that JSON cannot represent.
        index: Indexes new messages of a transcript.
        before_store: Changes messages before they are stored in the transcript.
        hides_removed: Whether the transcript hides messages that the head no longer has.
    """

    codec: Codec
    index: SearchIndex
    before_store: BeforeStore | None = None
    hides_removed: bool = False

    def read(
        self, connection: Connection, session: int, numbers: Sequence[int]
    ) -> list[BaseMessage]:
        """Return new message objects, by their numbers.

        Raises:
            CorruptStoreError: When one is damaged or missing.
        """
        found: dict[int, BaseMessage] = {}
        for number, stored, proof, exact, has_own_id in _rows(connection, session, {*numbers}):
            if exact is not None:
                found[number] = self.codec.unpack(exact)
                continue
            if stored is None or checksum(stored) != proof:
                raise CorruptStoreError("a message is damaged")
            found[number] = decoded_message(stored)
            if not has_own_id:
                found[number].id = None  # the transcript generated its id
        if not found.keys() >= {*numbers}:
            raise CorruptStoreError("a message is missing")
        if len(found) == len(numbers):
            return [found[number] for number in numbers]
        given, seen = [], set[int]()
        for number in numbers:
            message = found[number]
            given.append(message.model_copy(deep=True) if number in seen else message)
            seen.add(number)
        return given


@dataclass
class MessageWriter:
    """Stores messages of one checkpoint; the caller saves the session.

    Attributes:
        thread: How messages are stored.
        connection: In a write transaction.
        session: The session of the thread.
        now: Time of messages without one.
    """

    thread: ThreadMessages
    connection: Connection
    session: Session
    now: datetime
    _is_any_hidden: bool = False
    _seqs: dict[str, int] = field(default_factory=dict)
    _new: list[TranscriptRow] = field(default_factory=list)

    def store(self, given: Sequence[BaseMessage], *, is_main: bool) -> list[int]:
        """Return the numbers of messages in their session; insert the new ones.

        The k-th message without an id in the list is the k-th stored one with the same content.

        Args:
            given: The messages.
            is_main: Whether they are the transcript.
        """
        # Encrypted messages do not belong in a transcript in plain text.
        is_transcript = is_main and self.thread.codec.is_plain
        names = [str(message.id) if message.id else "" for message in given]
        # None for an id that the column cannot store.
        keys = [
            (self.thread.codec.digest(message), name if name and is_id(name) else None)
            for message, name in zip(given, names, strict=True)
        ]
        places, last = self._known(keys)
        repeats = Counter[_Key]()
        numbers: list[int] = []
        rows: list[dict[str, Any]] = []
        for message, key in zip(given, keys, strict=True):
            there = places[key]
            at = repeats[key] if is_main and not message.id else 0
            if message.id and is_transcript:  # maybe stored by the turn or a tool
                at = next((i for i, one in enumerate(there) if one.seq is not None), at)
            repeats[key] += 1
            if at >= len(there):
                last += 1
                row = self._columns(message, key, last, is_transcript=is_transcript)
                rows.append(row)
                there.append(_Place(last, row["seq"], row["is_shown"]))
            elif there[at].seq is None and is_transcript:
                # Until now only a checkpoint had this message: add it to the transcript.
                number = there[at].number
                row = self._columns(message, key, number, is_transcript=True)
                self.connection.execute(_ADOPT, {"of": self.session.id, "at": number, **row})
                there[at] = _Place(number, row["seq"], row["is_shown"])
            self._is_any_hidden |= there[at].seq is not None and not there[at].is_shown
            numbers.append(there[at].number)
        if rows:
            self.connection.execute(insert(messages), rows)
        if self._new:
            self.session.note_activity(self.now)
            self.thread.index.appended(self.connection, self.session, self._new)
            self._new = []
        return numbers

    def follow(self, before: list[int], now: list[int], *, is_branch: bool) -> Change | None:
        """Make the transcript match the head of its thread.

        Args:
            before: Numbers of the messages of the previous head.
            now: Numbers of the messages of the new head.
            is_branch: Whether the new head does not continue the previous one.

        Returns:
            The change for the listeners of the index, or None.
        """
        # In a thread that continues, only the tail has to be compared.
        size = len(before) if now[: len(before)] == before else 0
        was, there = set(before[size:]), set(now[size:])
        changed: set[int] = set()
        if (added := there - was) and (is_branch or self._is_any_hidden):
            rows = self.connection.execute(_HIDDEN, {"of": self.session.id}).all()
            again = {number: seq for number, seq in rows if number in added}
            if again:
                show(self.connection, self.session, again)
                changed.update(again.values())
        if self.thread.hides_removed and (gone := was - there):
            removed = self._seqs_of(gone) - self._seqs_of(there)
            hide(self.connection, self.session, removed)
            changed |= removed
        if not changed:
            return None
        self.session.edits += len(changed)
        return self.thread.index.edited(self.connection, self.session, sorted(changed))

    def _known(self, keys: Sequence[_Key]) -> tuple[dict[_Key, list[_Place]], int]:
        """Return where the session has messages, oldest first, and its highest number."""
        rows: dict[int, Any] = {}
        for some in chunks(set(keys)):
            same = {"digests": [digest for digest, _ in some], "ids": [name for _, name in some]}
            found = self.connection.execute(_SAME, {"of": self.session.id, **same})
            rows |= {row.number: row for row in found}
        places: dict[_Key, list[_Place]] = defaultdict(list)
        self._seqs = {}
        for _, row in sorted(rows.items()):
            key = bytes(row.digest), row.message_id if row.has_own_id else None
            places[key].append(_Place(row.number, row.seq, row.is_shown))
            if row.seq is not None:
                self._seqs[row.message_id] = row.seq
        return places, max(rows, default=0)

    def _columns(
        self, message: BaseMessage, key: _Key, number: int, *, is_transcript: bool
    ) -> dict[str, Any]:
        """Return the columns of a wording, with a place in the transcript if it can have one."""
        kept, one = message, None
        if is_transcript:
            if self.thread.before_store:
                kept = as_kept(self.thread.before_store, [message])[0]
            try:
                one = EncodedMessage(kept, None if kept.id else str(uuid4()))
                row = row_of(self.session, number, 0, one, self.now)
            except ConfigurationError:
                one = None  # a transcript cannot hold it
        if one is None:
            row = dict.fromkeys(messages.c.keys()) | {
                "session": self.session.id,
                "number": number,
                "is_shown": 0,
                "message_id": key[1],
                "created_at": self.now.isoformat(),
            }
        else:
            name: str = row["message_id"]
            seq = self._seqs.get(name) if message.id else None
            is_new = seq is None
            if seq is None:
                seq = self.session.last_seq = self.session.last_seq + 1
                moment = datetime.fromisoformat(row["created_at"])
                self._new.append(TranscriptRow(seq, one.stored, moment, number=number))
            elif (said_at := time_of_message(self.connection, self.session, seq)) is not None:
                row["created_at"] = created_at_of(kept, said_at).isoformat()
            self._seqs[name] = seq
            row |= {"seq": seq, "is_shown": int(is_new)}
        row |= {"digest": key[0], "has_own_id": int(bool(message.id))}
        if one is None or kept is not message or not one.is_lossless:
            row["exact"] = self.thread.codec.checked(message, f"Message {message.id}")
        return row

    def _seqs_of(self, numbers: Collection[int]) -> set[int]:
        """Return the places of some messages in the transcript."""
        own = (messages.c.session == self.session.id, messages.c.seq.is_not(None))
        query = select(messages.c.seq).where(*own)
        return {row.seq for row in rows_with(self.connection, query, messages.c.number, numbers)}


# --- edits by the application


def edit(
    connection: Connection, session: Session, one: EncodedMessage, codec: Codec, now: datetime
) -> list[int]:
    """Replace the wording of a message, also in the heads of its thread.

    Returns:
        The numbers of the messages whose wording changed; the caller saves the session.

    Raises:
        StoreError: When the session has no such message.
    """
    named = messages.c.message_id == one.stored.id
    own = (messages.c.session == session.id, named, messages.c.seq.is_not(None))
    wordings = read_named(connection, session, [one.stored.id or ""])
    if not wordings:
        raise StoreError(
            f"Session {session.name!r} has no message {one.stored.id!r}, and nothing was edited."
        )
    same = messages.c.digest == message_digest(one.stored)
    known = connection.execute(select(messages.c.number).where(*own, same)).scalars().first()
    if known is None:
        _, seqs = append(connection, session, [one], now)
    else:  # an earlier wording
        show(connection, session, [known])
        session.edits += 1
        seqs = [wordings[0].seq]
    number = connection.execute(
        select(messages.c.number).where(*own, messages.c.is_shown == 1)
    ).scalar_one()
    _give_to_heads(connection, session, {row.number for row in wordings}, number, codec)
    return seqs


def take_out(connection: Connection, session: Session, ids: Collection[str]) -> list[int]:
    """Hide messages, and return their numbers; the caller saves the session.

    Raises:
        StoreError: When it is a thread with checkpoints; its graph removes messages itself.
    """
    if has_checkpoints(connection, session):
        raise StoreError(
            f"Session {session.name!r} holds the messages of a thread with checkpoints. Nothing "
            f"was removed; put a RemoveMessage into the graph's state."
        )
    seqs = sorted({row.seq for row in read_named(connection, session, ids) if row.is_shown})
    hide(connection, session, seqs)
    session.edits += len(seqs)
    return seqs


def _give_to_heads(
    connection: Connection, session: Session, old: set[int], number: int, codec: Codec
) -> None:
    """Replace old wordings by a new one in the newest checkpoint of each namespace."""
    here = checkpoints.c
    place = (here.thread_id, here.ns)
    newest = select(*place, func.max(here.checkpoint_id)).group_by(*place)
    heads = tuple_(*place, here.checkpoint_id).in_(newest.where(here.session == session.id))
    for row in connection.execute(select(checkpoints).where(heads)).all():
        fields, metadata, entries = codec.unpack(row.body)
        for name, entry in entries.items():
            value = Value(*entry)
            if not old.isdisjoint(value.numbers):
                new = to_ranges(number if n in old else n for n in value.numbers)
                entries[name] = [*value._replace(refs=new, list_hash=None)]
        body = codec.pack([fields, metadata, entries])
        connection.execute(update(checkpoints).where(*is_at(row)).values(body=body))


# --- statements


def _lookups() -> tuple[Select[Any], Select[Any]]:
    """Return statements for messages with the same content or id, and for hidden ones."""
    table, own = messages.c, messages.c.session == bindparam("of")
    names = ("number", "seq", "is_shown", "message_id", "has_own_id", "digest")
    query = select(*(table[name] for name in names)).where(own)
    newest = select(func.max(table.number)).where(own).scalar_subquery()
    same = or_(
        table.digest.in_(bindparam("digests", expanding=True)),
        table.message_id.in_(bindparam("ids", expanding=True)),
        table.number == newest,
    )
    hidden = select(table.number, table.seq).where(table.is_shown == text("0"), own)
    return query.where(same), hidden.where(table.seq.is_not(None))


# Built once: building one takes longer than executing it.
_ADOPT = update(messages).where(
    messages.c.session == bindparam("of"), messages.c.number == bindparam("at")
)
_SAME, _HIDDEN = _lookups()


_NUMBERED = select(
    *(messages.c[name] for name in ("number", "message", "checksum", "exact", "has_own_id"))
).where(messages.c.session == bindparam("of"))
_NUMBERED_BETWEEN = _NUMBERED.where(
    messages.c.number.between(bindparam("first"), bindparam("last"))
)


def _rows(connection: Connection, session: int, numbers: set[int]) -> Iterable[Any]:
    """Return number, text, checksum and exact form of messages, and whether they have an id.

    Most lists have nearly all numbers of a range, and reading a range takes a quarter less time.
    """
    if not numbers:
        return ()
    first, last = min(numbers), max(numbers)
    if last - first < 2 * len(numbers):
        own = {"of": session, "first": first, "last": last}
        return (row for row in connection.execute(_NUMBERED_BETWEEN, own) if row[0] in numbers)
    return rows_with(connection, _NUMBERED, messages.c.number, numbers, of=session)
