"""Reading and writing the rows of messages, each checked against its checksum."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, RowMapping, insert, select

from langchain_tokenmem.core.messages import call_ids, digest_of, marks_of, result_id
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.storage.rows import as_stored, checksum, from_body, key_of, to_body
from langchain_tokenmem.storage.schema import messages
from langchain_tokenmem.storage.sessions import SessionRow

logger = logging.getLogger(__name__)

_AT_ONCE = 500
"""Ids in one query; old versions of SQLite take 999 variables."""


@dataclass(frozen=True)
class TranscriptRow:
    """One message of a transcript.

    Attributes:
        seq: Its number in the session; grows by one, is never used again.
        message: The message as the application said it.
        created_at: When it was said, in UTC.
    """

    seq: int
    message: BaseMessage
    created_at: datetime


def read_from(connection: Connection, session: SessionRow, start: int) -> list[TranscriptRow]:
    """Return the messages from number `start` on, in order.

    Raises:
        CorruptStoreError: When one of them is damaged or missing.
    """
    query = (
        select(messages)
        .where(messages.c.session_key == session.key, messages.c.seq >= start)
        .order_by(messages.c.seq)
    )
    found = [_checked(row, session) for row in connection.execute(query).mappings()]
    if [row.seq for row in found] != list(range(start, session.last_seq + 1)):
        raise CorruptStoreError(
            f"Session {session.session_id!r}: messages {start} to {session.last_seq} should be "
            f"there, {len(found)} were found. Nothing was returned; restore a backup."
        )
    return found


def read_named(
    connection: Connection, session: SessionRow, ids: Sequence[str]
) -> list[TranscriptRow]:
    """Return the messages with these ids, in order.

    An id that the index does not know is looked for in the whole session, for a damaged index
    must not make a message disappear. Only unknown ids cost that much.
    """
    found = [
        _checked(row, session)
        for keys in _chunks([key_of(name) for name in ids])
        for row in connection.execute(
            select(messages).where(
                messages.c.session_key == session.key, messages.c.message_key.in_(keys)
            )
        ).mappings()
    ]
    if len(found) < len(set(ids)):
        wanted = set(ids)
        everything = read_from(connection, session, session.first_seq)
        found = [row for row in everything if row.message.id in wanted]
    return sorted(found, key=lambda row: row.seq)


def _checked(row: RowMapping, session: SessionRow) -> TranscriptRow:
    columns = dict(row)
    if columns.pop("checksum") != checksum(columns.values()):
        raise CorruptStoreError(
            f"Session {session.session_id!r}: the row of message {columns['seq']} is damaged. "
            f"Nothing was returned; restore a backup."
        )
    message = from_body(columns["body"])
    return TranscriptRow(columns["seq"], message, datetime.fromisoformat(columns["created_at"]))


def append(
    connection: Connection, session: SessionRow, new: Sequence[BaseMessage], now: datetime
) -> list[str]:
    """Insert the messages that are new, and return their ids.

    Raises:
        ConfigurationError: When one of them cannot be stored.
    """
    fresh = new[_resent(connection, session, new) :]
    fresh = _without_known(connection, session, fresh)
    named = [(m if m.id else m.model_copy(update={"id": str(uuid4())}), bool(m.id)) for m in fresh]
    rows = [
        _columns(session.key, seq, message, was_named=was_named, now=now)
        for seq, (message, was_named) in enumerate(named, session.last_seq + 1)
    ]
    if rows:
        connection.execute(insert(messages), rows)
    return [message.id or "" for message, _ in named]


def _columns(
    key: str, seq: int, message: BaseMessage, *, was_named: bool, now: datetime
) -> dict[str, Any]:
    stored = as_stored(message)
    columns = {
        "session_key": key,
        "seq": seq,
        "message_key": key_of(stored.id or ""),
        "was_named": was_named,
        "digest": digest_of(stored),
        "created_at": _moment(message, now).isoformat(),
        "body": to_body(stored),
    }
    return {**columns, "checksum": checksum(columns.values())}


def _moment(message: BaseMessage, now: datetime) -> datetime:
    told = marks_of(message).get("created_at")
    if told is None:
        return now
    try:
        return datetime.fromisoformat(told)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"Message {message.id}: created_at is {told!r}; it is a time in ISO 8601, such as "
            f'"2026-01-31T12:00:00+00:00".'
        ) from error


def _without_known(
    connection: Connection, session: SessionRow, new: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return the messages whose id is not stored yet, each id once."""
    keys = [key_of(message.id) for message in new if message.id]
    known = {
        key: digest
        for chunk in _chunks(keys)
        for key, digest in connection.execute(
            select(messages.c.message_key, messages.c.digest).where(
                messages.c.session_key == session.key, messages.c.message_key.in_(chunk)
            )
        ).all()
    }
    fresh = []
    for message in new:
        key = key_of(message.id) if message.id else ""
        if key not in known:
            fresh.append(message)
        elif known[key] != digest_of(message):
            logger.warning(
                "Session %s: message %s is there with other words; the first ones stay.",
                session.session_id,
                message.id,
            )
        if key:
            known.setdefault(key, digest_of(message))
    return fresh


def _resent(connection: Connection, session: SessionRow, new: Sequence[BaseMessage]) -> int:
    """Return how many of the first messages are what the transcript ends with, said again.

    Only messages without an id need this; those with one are known by it.
    """
    if session.count == 0 or all(message.id for message in new):
        return 0
    most = min(len(new), session.count)
    stored = list(
        reversed(
            connection.execute(
                select(messages.c.message_key, messages.c.was_named, messages.c.digest)
                .where(messages.c.session_key == session.key)
                .order_by(messages.c.seq.desc())
                .limit(most)
            ).all()
        )
    )
    said = [
        (key_of(message.id), True, "") if message.id else ("", False, digest_of(as_stored(message)))
        for message in new[:most]
    ]
    for size in range(most, 0, -1):
        pairs = list(zip(said[:size], stored[-size:], strict=True))
        same = all(
            mine[0] == theirs[0] if mine[1] else (not theirs[1] and mine[2] == theirs[2])
            for mine, theirs in pairs
        )
        is_known = any(mine[1] for mine, _ in pairs)
        if same and (is_known or (size == session.count and size > 1)):
            return size
    return 0


def _chunks(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE))


def lacks_call(rows: Sequence[TranscriptRow]) -> bool:
    """Return whether a result stands in the rows without its call."""
    calls: set[str] = set()
    for row in rows:
        calls.update(call_ids(row.message))
        answered = result_id(row.message)
        if answered is not None and answered not in calls:
            return True
    return False
