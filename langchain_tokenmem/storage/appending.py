"""Adding messages to a session: which are new, and how they are stored."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, insert, select

from langchain_tokenmem.core.messages import digest_of
from langchain_tokenmem.storage.message_rows import TranscriptRow, chunks, columns_from
from langchain_tokenmem.storage.rows import as_stored, checksum, key_of, said_at, to_body
from langchain_tokenmem.storage.schema import messages
from langchain_tokenmem.storage.sessions import SessionRow

logger = logging.getLogger(__name__)

_LONGEST_TURN = 2
"""Messages that may well be said again in the same words: a question and its answer."""


def append(
    connection: Connection, session: SessionRow, new: Sequence[BaseMessage], now: datetime
) -> list[TranscriptRow]:
    """Insert the messages that are new, and return them with number and time.

    Raises:
        ConfigurationError: When one of them cannot be stored.
    """
    said = [as_stored(message) for message in new]
    resent = _resent(connection, session, said)
    fresh = _without_known(connection, session, range(resent, len(said)), said)
    rows, added = [], []
    for seq, index in enumerate(fresh, session.last_seq + 1):
        message = said[index]
        was_named = bool(message.id)
        if not was_named:
            message = message.model_copy(update={"id": str(uuid4())})
        # The mark that tells the time is no part of what is stored: ask the original.
        moment = said_at(new[index], now)
        columns = {
            "session_key": session.key,
            "seq": seq,
            "message_key": key_of(message.id or ""),
            "was_named": int(was_named),
            "digest": digest_of(message),
            "created_at": moment.isoformat(),
            "body": to_body(message),
        }
        rows.append({**columns, "checksum": checksum(columns.values())})
        added.append(TranscriptRow(seq, message, moment))
    if rows:
        connection.execute(insert(messages), rows)
    return added


def _without_known(
    connection: Connection, session: SessionRow, places: range, said: Sequence[BaseMessage]
) -> list[int]:
    """Return the places of the messages whose id is not stored yet, each id once."""
    keys = {index: key_of(name) for index in places if (name := said[index].id)}
    known = {
        key: digest
        for chunk in chunks(list(keys.values()))
        for key, digest in connection.execute(
            select(messages.c.message_key, messages.c.digest).where(
                messages.c.session_key == session.key, messages.c.message_key.in_(chunk)
            )
        ).all()
    }
    fresh = []
    for index in places:
        key = keys.get(index, "")
        if key not in known:
            fresh.append(index)
        elif known[key] != digest_of(said[index]):
            logger.warning(
                "Session %s: message %s is there with other words; the first ones stay.",
                session.session_id,
                said[index].id,
            )
        if key:
            known.setdefault(key, digest_of(said[index]))
    return fresh


def _resent(connection: Connection, session: SessionRow, said: Sequence[BaseMessage]) -> int:
    """Return how many of the first messages are what the transcript ends with, said again.

    Only messages without an id need this; those with one are known by it.
    """
    if session.count == 0 or all(message.id for message in said):
        return 0
    most = min(len(said), session.count)
    stored = columns_from(connection, session, session.last_seq - most + 1)
    # A turn of two messages may be said twice in the same words; a list that goes on, or a longer
    # one, is the transcript sent again.
    repeats = session.count > _LONGEST_TURN or len(said) > session.count > 1
    sizes = {session.count} if repeats and session.count <= most else set()
    # An id stands in one place only, so the first one that is said leaves one size possible.
    first = next((index for index, message in enumerate(said) if message.id), None)
    if first is not None:
        key = key_of(said[first].id or "")
        sizes |= {first + most - at for at, row in enumerate(stored) if row["message_key"] == key}
    for size in sorted(sizes, reverse=True):
        if size <= most and all(map(_is_same, said[:size], stored[most - size :])):
            return size
    return 0


def _is_same(message: BaseMessage, row: Mapping[str, Any]) -> bool:
    if message.id:
        return bool(key_of(message.id) == row["message_key"])
    return not row["was_named"] and digest_of(message) == row["digest"]
