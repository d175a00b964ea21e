"""Reads the rows of messages, each checked against its checksum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, bindparam, select

from langchain_tokenmem.core.messages import groups, marks_of, role_of, unmarked
from langchain_tokenmem.core.thread_names import is_id
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.transcripts.encoded_message import (
    UNDATED,
    checksum,
    decoded_message,
    key_of,
)
from langchain_tokenmem.storage.transcripts.sessions import SessionRow
from langchain_tokenmem.storage.transcripts.tables import messages

Key = TypeVar("Key")

_AT_ONCE = 500
"""Ids in one query; old versions of SQLite take 999 variables."""

_LOOK_BACK = 16
"""Rows read in front of the last ones, for the call of a result."""

# Made once: a search over many sessions asks for rows of each.
_OWN = select(messages).where(messages.c.session_key == bindparam("key"))
_AT = _OWN.where(messages.c.seq.in_(bindparam("seqs", expanding=True))).order_by(messages.c.seq)

_COLUMNS = tuple(column.name for column in messages.c if column.name != "checksum")


@dataclass(frozen=True)
class TranscriptRow:
    """One message of a transcript.

    Attributes:
        seq: Its number in the session; grows by one, is never used again.
        message: The message as the application gave it.
        created_at: Its time, in UTC.
        was_named: Whether it brought its id.
        is_hidden: Whether it was removed and hidden; its message is empty then.
        is_dated: Whether its time is that of the message; else it was imported without one, and
            the time is that of the import.
    """

    seq: int
    message: BaseMessage
    created_at: datetime
    was_named: bool = True
    is_hidden: bool = False
    is_dated: bool = True


def read_from(connection: Connection, session: SessionRow, start: int) -> list[TranscriptRow]:
    """Return the messages from number `start` on, in order.

    Raises:
        CorruptStoreError: When one of them is damaged or missing.
    """
    return read_between(connection, session, start, session.last_seq)


def read_between(
    connection: Connection, session: SessionRow, first: int, last: int
) -> list[TranscriptRow]:
    """Return the messages with the numbers `first` to `last`, in order.

    Raises:
        CorruptStoreError: When one of them is damaged or missing.
    """
    return [_row(columns) for columns in columns_between(connection, session, first, last)]


def columns_between(
    connection: Connection, session: SessionRow, first: int, last: int
) -> list[dict[str, Any]]:
    """Return the checked columns of the messages with the numbers `first` to `last`, in order.

    Raises:
        CorruptStoreError: When one of them is damaged or missing.
    """
    query = _OWN.where(messages.c.seq >= first).order_by(messages.c.seq)
    if last < session.last_seq:
        query = query.where(messages.c.seq <= last)
    rows = connection.execute(query, {"key": session.key}).mappings()
    found = [_checked(row, session) for row in rows]
    if [row["seq"] for row in found] != list(range(first, last + 1)):
        raise _incomplete(
            session, f"messages {first} to {last} should be there, {len(found)} were found"
        )
    if len({row["message_key"] for row in found}) != len(found):
        raise _incomplete(session, "an id is there twice")
    return found


def read_last(
    connection: Connection,
    session: SessionRow,
    n: int,
    shown: Callable[[Connection, SessionRow, Sequence[TranscriptRow]], list[TranscriptRow]],
) -> list[TranscriptRow]:
    """Return the newest `n` messages, and more where they begin in the middle of a group.

    `shown` gives rows the words that are shown, and leaves out those that are not.
    """
    size = n + _LOOK_BACK
    while True:
        start = max(session.first_seq, session.last_seq - size + 1)
        found = shown(connection, session, read_from(connection, session, start))
        if start == session.first_seq or (len(found) >= n and _shows_groups(found, n)):
            break
        size *= 4
    wanted = 0
    for group in reversed(groups([row.message for row in found])):
        if wanted >= n:
            break
        wanted += len(group.messages)
    return found[len(found) - wanted :]


def _shows_groups(rows: Sequence[TranscriptRow], n: int) -> bool:
    """Return whether the groups of the last `n` rows are plain without what stands before.

    They are from the first AI message on that follows another role: no later result belongs to
    a call before it.
    """
    roles = [role_of(row.message) for row in rows[: len(rows) - n + 1]]
    return any(one != "ai" and two == "ai" for one, two in pairwise(roles))


def read_named(
    connection: Connection, session: SessionRow, ids: Sequence[str]
) -> list[TranscriptRow]:
    """Return the messages with these ids that there are, in order.

    Raises:
        CorruptStoreError: When one is damaged, or is there and not found by its id.
    """
    keys = {key_of(name) for name in ids if is_id(name)}
    found = [
        _row(_checked(row, session))
        for chunk in chunks(sorted(keys))
        for row in connection.execute(
            _OWN.where(messages.c.message_key.in_(chunk)), {"key": session.key}
        ).mappings()
    ]
    if len(found) < len(keys):
        _make_sure_of_absence(connection, session, keys, len(found))
    return sorted(found, key=lambda row: row.seq)


def read_some(
    connection: Connection, session: SessionRow, start: int, limit: int
) -> list[TranscriptRow]:
    """Return at most `limit` messages from number `start` on, in order.

    Raises:
        CorruptStoreError: When one is damaged or missing.
    """
    return read_between(connection, session, start, min(session.last_seq, start + limit - 1))


def read_at(
    connection: Connection, session: SessionRow, seqs: Sequence[int]
) -> list[TranscriptRow]:
    """Return the messages with these numbers that there are, in order.

    Raises:
        CorruptStoreError: When one is damaged.
    """
    return [
        _row(_checked(row, session))
        for chunk in chunks(seqs)
        for row in connection.execute(_AT, {"key": session.key, "seqs": chunk}).mappings()
    ]


def keys_at(connection: Connection, session_key: str, seqs: Sequence[int]) -> dict[int, str]:
    """Return the keys of the messages with these numbers, by number."""
    query = select(messages.c.seq, messages.c.message_key).where(
        messages.c.session_key == session_key
    )
    return {
        row.seq: row.message_key
        for chunk in chunks(seqs)
        for row in connection.execute(query.where(messages.c.seq.in_(chunk)))
    }


def seqs_by_key(connection: Connection, session_key: str, keys: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the messages with these keys that there are, by key."""
    query = select(messages.c.message_key, messages.c.seq).where(
        messages.c.session_key == session_key
    )
    return {
        row.message_key: row.seq
        for chunk in chunks(keys)
        for row in connection.execute(query.where(messages.c.message_key.in_(chunk)))
    }


def _make_sure_of_absence(
    connection: Connection, session: SessionRow, keys: set[str], found: int
) -> None:
    """Look through the whole session: the index of ids may be the damaged part."""
    rows = connection.execute(
        select(messages.c.seq, messages.c.message_key)
        .where(messages.c.session_key == session.key, messages.c.seq >= session.first_seq)
        .order_by(messages.c.seq)
    ).all()
    if [row.seq for row in rows] != list(range(session.first_seq, session.last_seq + 1)):
        raise _incomplete(session, f"{len(rows)} of {session.count} messages were found")
    if sum(row.message_key in keys for row in rows) != found:
        raise _incomplete(session, "the index of its ids lacks one")


def _checked(row: Mapping[Any, Any], session: SessionRow) -> dict[str, Any]:
    columns = {name: row[name] for name in _COLUMNS}
    if checksum(columns.values()) != row["checksum"]:
        raise _incomplete(session, f"the row of message {columns['seq']} is damaged")
    if columns["session_key"] != session.key or columns["seq"] < session.first_seq:
        raise _incomplete(session, f"message {columns['seq']} has no place in it")
    return columns


def _row(columns: Mapping[str, Any]) -> TranscriptRow:
    message = decoded_message(columns["message"])
    return TranscriptRow(
        columns["seq"],
        unmarked(message, [UNDATED]),
        datetime.fromisoformat(columns["created_at"]),
        bool(columns["has_own_id"]),
        is_dated=UNDATED not in marks_of(message),
    )


def _incomplete(session: SessionRow, what: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"Session {session.session_id!r}: {what}. Nothing was returned; restore a backup."
    )


def chunks(keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
    """Give keys in runs that fit into one query."""
    return (keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE))
