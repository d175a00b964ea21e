"""Appending to a transcript: its rows, the session's row and the index, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection

from langchain_tokenmem.core.units import Change
from langchain_tokenmem.storage.index_store import IndexStore
from langchain_tokenmem.storage.message_rows import TranscriptRow, append
from langchain_tokenmem.storage.sessions import SessionRow, save


def append_indexed(
    connection: Connection,
    index: IndexStore,
    session: SessionRow,
    new: Sequence[BaseMessage],
    now: datetime,
    *,
    may_differ: bool = False,
) -> tuple[list[TranscriptRow], Change]:
    """Append what is new, and note it for the index.

    Args:
        connection: In a transaction that writes; `index.make_ready` was called before it.
        index: Takes what is appended, at once or later.
        session: The session's row as it is stored.
        new: The messages, oldest first.
        now: Time of messages that bring none.
        may_differ: Whether a message that is there with other words is worth no warning.

    Returns:
        The new rows, and what to tell the index's listeners after the commit.
    """
    added = append(connection, session, new, now, may_differ=may_differ)
    if added:
        save(connection, replace(session, last_seq=session.last_seq + len(added)))
    return added, index.appended(connection, session, added)
