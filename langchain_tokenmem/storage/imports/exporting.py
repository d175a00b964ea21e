"""Gives a session as lines of JSON: a head with its state, then one message a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection

from langchain_tokenmem.errors import ScopeError, StoreError
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.database.json_values import from_json
from langchain_tokenmem.storage.transcripts.edits import MessageEdit, read_edits
from langchain_tokenmem.storage.transcripts.message_rows import columns_between
from langchain_tokenmem.storage.transcripts.sessions import SessionRow, find

FORMAT = "tokenmem_export"
"""Key of the head of an export; its value is the version of the form."""
VERSION = 1

_PAGE = 500


def export_lines(database: Database, session_id: str, user_id: str | None) -> Iterator[str]:
    """Yield the lines of a session, each page read in a transaction of its own.

    What is appended meanwhile is not part of it.

    Raises:
        ScopeError: When there is no such session, or it belongs to another user.
        StoreError: When it was cleared meanwhile.
        CorruptStoreError: When something of it is damaged.
    """
    about = f"Session {session_id!r}"
    with database.reading(about) as connection:
        head = _found(connection, session_id, user_id)
    yield _head(head)
    for start in range(head.first_seq, head.last_seq + 1, _PAGE):
        with database.reading(about) as connection:
            session = _found(connection, session_id, user_id)
            if session.first_seq != head.first_seq:
                raise StoreError(f"{about} was cleared while it was exported; export it again.")
            last = min(start + _PAGE - 1, head.last_seq)
            rows = columns_between(connection, session, start, last)
            edits = read_edits(connection, session, [row["seq"] for row in rows])
        for row in rows:
            yield _line(row, edits.get(row["seq"], ()))


def _found(connection: Connection, session_id: str, user_id: str | None) -> SessionRow:
    session = find(connection, session_id, user_id)
    if session is None:
        raise ScopeError(f"There is no session {session_id!r} in this store.")
    return session


def _head(session: SessionRow) -> str:
    return json.dumps(
        {
            FORMAT: VERSION,
            "session_id": session.session_id,
            "user_id": session.user_id,
            "first": session.first_seq,
            "count": session.count,
            "budget": None if session.budget is None else from_json(session.budget),
            "state": None if session.state is None else from_json(session.state),
        }
    )


def _line(row: dict[str, Any], edits: Sequence[MessageEdit]) -> str:
    fields: dict[str, Any] = {
        "seq": row["seq"],
        "created_at": row["created_at"],
        "has_own_id": bool(row["has_own_id"]),
        "message": from_json(row["message"]),
    }
    if edits:
        fields["edits"] = [
            {
                "version": edit.version,
                "is_current": bool(edit.is_current),
                "created_at": edit.created_at,
                "message": None if edit.text is None else from_json(edit.text),
            }
            for edit in edits
        ]
    return json.dumps(fields)
