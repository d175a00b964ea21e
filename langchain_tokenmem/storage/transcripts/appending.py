"""Appends messages to a transcript: finds out which are new, and inserts their rows."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol
from uuid import uuid4

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection, bindparam, func, insert, literal_column, select

from langchain_tokenmem.core.messages import digest_of, marks_of, role_of
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.storage.database.statements import Statement
from langchain_tokenmem.storage.transcripts.edits import EditIndexer, new_words, set_words
from langchain_tokenmem.storage.transcripts.encoded_message import (
    EncodedMessage,
    checksum,
    created_at_of,
    key_of,
)
from langchain_tokenmem.storage.transcripts.message_rows import (
    TranscriptRow,
    chunks,
    columns_between,
    seqs_by_key,
)
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, save
from langchain_tokenmem.storage.transcripts.tables import messages

logger = logging.getLogger(__name__)

_LONGEST_TURN = 2
"""Messages that may well come again with the same content: a question and its answer."""

_INSERT = Statement(insert(messages))
_HASHES = Statement(
    select(messages.c.message_key, messages.c.content_hash).where(
        messages.c.session_key == bindparam("b_key"),
        messages.c.message_key.in_(bindparam("names", expanding=True)),
    )
)

_COUNTS = Statement(
    select(messages.c.content_hash, func.count().label("count"))
    .where(
        messages.c.session_key == bindparam("b_key"),
        messages.c.has_own_id == literal_column("0"),  # as the index has it
        messages.c.content_hash.in_(bindparam("hashes", expanding=True)),
    )
    .group_by(messages.c.content_hash)
)


class MessageIndexer(EditIndexer, Protocol):
    """Takes the new messages of a session in the transaction that stores them."""

    def appended(
        self, connection: Connection, session: SessionRow, rows: Sequence[TranscriptRow]
    ) -> Change:
        """Index new messages, or note that the index lacks them.

        Args:
            connection: In the transaction that stored the messages.
            session: The session's row as it was before.
            rows: The new messages.

        Returns:
            What to tell the index's listeners after the commit.
        """
        ...


def append_indexed(
    connection: Connection,
    index: MessageIndexer,
    session: SessionRow,
    new: Sequence[EncodedMessage],
    now: datetime,
    *,
    of_thread: bool = False,
) -> tuple[list[TranscriptRow], Change]:
    """Append the messages that are new, and index them.

    Words that a message with a known id never had supersede those that it has.

    Args:
        connection: In a transaction that writes; `index.make_ready` was called before it.
        index: Takes what is appended, at once or later.
        session: The session's row as it is stored.
        new: The messages, oldest first.
        now: Time of messages that bring none.
        of_thread: Whether they come from a checkpointed thread: then its head decides which words
            are shown, and messages without an id are new.

    Returns:
        The new rows, and what to tell the index's listeners after the commit.

    Raises:
        ConfigurationError: When one of them cannot be stored.
    """
    resent = 0 if of_thread else _resent(connection, session, [one.stored for one in new])
    fresh, edited = _new_messages(connection, session, new[resent:])
    made = [
        _made_row(session, seq, message, now)
        for seq, message in enumerate(fresh, session.last_seq + 1)
    ]
    longer = replace(session, last_seq=session.last_seq + len(made))
    if made:
        _INSERT.run_all(connection, [columns for columns, _ in made])
        save(connection, longer)
    added = [row for _, row in made]
    change = index.appended(connection, session, added)
    if edited and not of_thread:
        change = _edit(connection, index, longer, edited, now) or change
    return added, change


def _edit(
    connection: Connection,
    index: MessageIndexer,
    session: SessionRow,
    edited: Mapping[str, EncodedMessage],
    now: datetime,
) -> Change | None:
    """Let messages say the words that they never had; return what to tell the listeners."""
    seqs = seqs_by_key(connection, session.key, list(edited))
    words = new_words(connection, session, {seqs[key]: one for key, one in edited.items()})
    for one in words.values():
        # Some model servers give all of their answers one id.
        is_answer = one is not None and role_of(one.stored) == "ai"
        logger.log(
            logging.WARNING if is_answer else logging.INFO,
            "Session %s: message %s was there with other words; these supersede them.",
            session.session_id,
            one and one.stored.id,
        )
    return set_words(connection, index, session, words, now)


def _made_row(
    session: SessionRow, seq: int, message: EncodedMessage, now: datetime
) -> tuple[dict[str, Any], TranscriptRow]:
    """Return the columns of a new message, and the row that reading them gives."""
    has_own_id = bool(message.given.id)
    if not message.stored.id:
        message = EncodedMessage(message.given, str(uuid4()), created_at=message.created_at)
    text, _, text_only = message.encoding
    if text_only:
        logger.warning(
            "Message %s holds %s, which is no plain data: only its text form is stored.",
            message.stored.id,
            ", ".join(sorted(text_only)),
        )
    # The mark that gives the time is no part of what is stored: ask the original.
    moment = message.created_at or created_at_of(message.given, now)
    columns = {
        "session_key": session.key,
        "seq": seq,
        "message_key": key_of(message.stored.id or ""),
        "has_own_id": int(has_own_id),
        "content_hash": message.full_digest if has_own_id else message.digest,
        "created_at": moment.isoformat(),
        "message": text,
    }
    row = TranscriptRow(seq, message.stored, moment, has_own_id)
    return {**columns, "checksum": checksum(columns.values())}, row


def _new_messages(
    connection: Connection,
    session: SessionRow,
    new: Sequence[EncodedMessage],
) -> tuple[list[EncodedMessage], dict[str, EncodedMessage]]:
    """Return the messages whose id is new, each once, and those with other words by their key."""
    keys = [key_of(one.stored.id) if one.stored.id else "" for one in new]
    stored = hashes_by_key(connection, session.key, [*filter(None, keys)])
    fresh: list[EncodedMessage] = []
    edited: dict[str, EncodedMessage] = {}
    for key, message in zip(keys, new, strict=True):
        if key not in stored:
            fresh.append(message)
        elif stored[key] == message.full_digest:
            edited.pop(key, None)  # in one batch the last words count
        elif not marks_of(message.given).get("cut"):  # what a view made of it is no edit
            edited[key] = message
        if key:
            stored.setdefault(key, message.full_digest)
    return fresh, edited


def hashes_by_key(connection: Connection, session_key: str, keys: Sequence[str]) -> dict[str, str]:
    """Return the content hashes of the messages with these keys that a session has."""
    return {
        row["message_key"]: row["content_hash"]
        for chunk in chunks(keys)
        for row in _HASHES.all(connection, {"b_key": session_key, "names": list(chunk)})
    }


def counts_by_hash(
    connection: Connection, session_key: str, hashes: Sequence[str]
) -> dict[str, int]:
    """Return how many messages without an id of their own have each of these content hashes."""
    return {
        row["content_hash"]: row["count"]
        for chunk in chunks(hashes)
        for row in _COUNTS.all(connection, {"b_key": session_key, "hashes": list(chunk)})
    }


def _resent(connection: Connection, session: SessionRow, new: Sequence[BaseMessage]) -> int:
    """Return how many of the first messages repeat what the transcript ends with.

    Only messages without an id need this; an id alone tells a message that is stored already.
    """
    if session.count == 0 or all(message.id for message in new):
        return 0
    most = min(len(new), session.count)
    stored = columns_between(connection, session, session.last_seq - most + 1, session.last_seq)
    # A turn of two messages may come twice with the same content; a list that goes on, or a
    # longer one, is the transcript sent again.
    repeats = session.count > _LONGEST_TURN or len(new) > session.count > 1
    sizes = {session.count} if repeats and session.count <= most else set()
    # An id stands in one place only, so the first one in the list leaves one size possible.
    first = next((index for index, message in enumerate(new) if message.id), None)
    if first is not None:
        key = key_of(new[first].id or "")
        sizes |= {first + most - at for at, row in enumerate(stored) if row["message_key"] == key}
    for size in sorted(sizes, reverse=True):
        if size <= most and all(map(_is_same, new[:size], stored[most - size :])):
            return size
    return 0


def _is_same(message: BaseMessage, row: Mapping[str, Any]) -> bool:
    if message.id:
        return bool(key_of(message.id) == row["message_key"])
    return not row["has_own_id"] and digest_of(message) == row["content_hash"]
