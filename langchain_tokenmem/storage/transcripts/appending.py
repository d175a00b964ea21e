"""Adding messages to a session: which are new, and how they are stored."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, bindparam, func, insert, literal_column, select

from langchain_tokenmem.core.messages import digest_of
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.storage.database.schema import messages
from langchain_tokenmem.storage.database.statements import Statement
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.encoded_message import Told, checksum, key_of, said_at
from langchain_tokenmem.storage.transcripts.message_rows import TranscriptRow, chunks, columns_from
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, save

logger = logging.getLogger(__name__)

_LONGEST_TURN = 2
"""Messages that may well be said again in the same words: a question and its answer."""

_INSERT = Statement(insert(messages))
_KNOWN = Statement(
    select(messages.c.message_key, messages.c.digest).where(
        messages.c.session_key == bindparam("b_key"),
        messages.c.message_key.in_(bindparam("names", expanding=True)),
    )
)

_TIMES = Statement(
    select(messages.c.digest, func.count().label("times"))
    .where(
        messages.c.session_key == bindparam("b_key"),
        messages.c.was_named == literal_column("0"),  # as the index has it
        messages.c.digest.in_(bindparam("digests", expanding=True)),
    )
    .group_by(messages.c.digest)
)


def append_indexed(
    connection: Connection,
    index: IndexStore,
    session: SessionRow,
    new: Sequence[Told],
    now: datetime,
    *,
    of_thread: bool = False,
) -> tuple[list[TranscriptRow], Change]:
    """Append what is new, and note it for the index.

    Args:
        connection: In a transaction that writes; `index.make_ready` was called before it.
        index: Takes what is appended, at once or later.
        session: The session's row as it is stored.
        new: The messages, oldest first.
        now: Time of messages that bring none.
        of_thread: Whether they come from a checkpointed thread, as for `append`.

    Returns:
        The new rows, and what to tell the index's listeners after the commit.
    """
    added = append(connection, session, new, now, of_thread=of_thread)
    if added:
        save(connection, replace(session, last_seq=session.last_seq + len(added)))
    return added, index.appended(connection, session, added)


def append(
    connection: Connection,
    session: SessionRow,
    new: Sequence[Told],
    now: datetime,
    *,
    of_thread: bool = False,
) -> list[TranscriptRow]:
    """Insert the messages that are new, and return them with number and time.

    One that is there with other words stays as it is, with a warning.

    Args:
        connection: In a transaction that writes.
        session: The session's row as it is stored.
        new: The messages, oldest first.
        now: Time of messages that bring none.
        of_thread: Whether they come from a checkpointed thread: then other words for a known id
            are an edit and worth no warning, and those without an id are new.

    Raises:
        ConfigurationError: When one of them cannot be stored.
    """
    said = [one.stored for one in new]
    resent = 0 if of_thread else _resent(connection, session, said)
    places = range(resent, len(said))
    fresh = _without_known(connection, session, places, new, may_differ=of_thread)
    rows, added = [], []
    for seq, index in enumerate(fresh, session.last_seq + 1):
        was_named = bool(new[index].given.id)
        told = new[index] if said[index].id else Told(new[index].given, str(uuid4()))
        body, _, described = told.written
        if described:
            logger.warning(
                "Message %s holds %s, which is no plain data: only its text form is stored.",
                told.stored.id,
                ", ".join(sorted(described)),
            )
        # The mark that tells the time is no part of what is stored: ask the original.
        moment = said_at(told.given, now)
        columns = {
            "session_key": session.key,
            "seq": seq,
            "message_key": key_of(told.stored.id or ""),
            "was_named": int(was_named),
            "digest": told.digest,
            "created_at": moment.isoformat(),
            "body": body,
        }
        rows.append({**columns, "checksum": checksum(columns.values())})
        added.append(TranscriptRow(seq, told.stored, moment, was_named))
    if rows:
        _INSERT.run_all(connection, rows)
    return added


def _without_known(
    connection: Connection,
    session: SessionRow,
    places: range,
    new: Sequence[Told],
    *,
    may_differ: bool,
) -> list[int]:
    """Return the places of the messages whose id is not stored yet, each id once."""
    keys = {index: key_of(name) for index in places if (name := new[index].stored.id)}
    known = known_keys(connection, session.key, list(keys.values()))
    fresh = []
    for index in places:
        key = keys.get(index, "")
        if key not in known:
            fresh.append(index)
        elif not may_differ and known[key] != new[index].digest:
            logger.warning(
                "Session %s: message %s is there with other words; the first ones stay.",
                session.session_id,
                new[index].stored.id,
            )
        if key:
            known.setdefault(key, new[index].digest)
    return fresh


def known_keys(connection: Connection, session_key: str, keys: Sequence[str]) -> dict[str, str]:
    """Return those of the keys of messages that a session has, with the messages' digests."""
    return {
        row["message_key"]: row["digest"]
        for chunk in chunks(keys)
        for row in _KNOWN.all(connection, {"b_key": session_key, "names": list(chunk)})
    }


def times_said(connection: Connection, session_key: str, digests: Sequence[str]) -> dict[str, int]:
    """Return how often messages without an id were said in these words, by the words' digest."""
    return {
        row["digest"]: row["times"]
        for chunk in chunks(digests)
        for row in _TIMES.all(connection, {"b_key": session_key, "digests": list(chunk)})
    }


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
