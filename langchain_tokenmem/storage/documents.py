"""Documents: texts beside the transcript that may be replaced and deleted.

They are rows like messages, in a session of a kind of their own; a part that a text splitter made
stands behind its document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from langchain_tokenmem.core.search_units import (
    DOCUMENT_STEP,
    SEQ_BITS,
    WHOLE_DOCUMENT,
    DocumentPart,
    IndexSource,
)
from langchain_tokenmem.errors import CorruptStoreError, ScopeError, StoreError
from langchain_tokenmem.storage.json_values import from_json, to_json
from langchain_tokenmem.storage.message_json import checksum
from langchain_tokenmem.storage.sessions import (
    OF_SESSION,
    OF_USER,
    Session,
    find,
    find_or_make,
    later,
    lock_name,
    save,
)
from langchain_tokenmem.storage.tables import messages, sessions
from langchain_tokenmem.storage.transcripts import next_number


def put(
    connection: Connection, source: IndexSource, parts: Sequence[IndexSource] = ()
) -> tuple[Session, list[int]]:
    """Store a document in the place of one with its id.

    One that is there already with the same words, metadata and parts stays as it is, so that
    nothing is embedded twice.

    Args:
        connection: In a transaction that writes.
        source: The document.
        parts: What a splitter made of it, in order; they take the numbers behind its own, so that
            they are neighbours of one another, and go with it.

    Returns:
        The session that holds it, and the numbers of what it took the place of.

    Raises:
        ScopeError: When it names neither session nor user, or the session is another user's.
        StoreError: When the session has no numbers left.
    """
    kind, name = _home(source.session_id, source.user_id)
    user_id = source.user_id
    if kind == OF_SESSION:  # the owner of the conversation is that of its documents
        user_id = find_or_make(connection, name, user_id).user_id
    session = find_or_make(connection, name, user_id, kind=kind)
    bodies = [_body(each, len(parts)) for each in (source, *parts)]
    old = _rows(connection, session, source.source_id)
    if [row.message for row in old] == bodies:
        return session, []
    gone = _delete(connection, session, old)
    seq = session.last_seq + DOCUMENT_STEP
    if seq + len(parts) >= 1 << SEQ_BITS:
        raise StoreError(
            "The documents of this session or user were replaced so often that they have no "
            "numbers left. Erase them and add them again."
        )
    number = next_number(connection, session)
    rows = [
        {
            "session": session.id,
            "number": number + n,
            "seq": seq + n,
            "is_shown": 1,
            "message_id": source.source_id,
            "has_own_id": int(n == 0),
            "digest": hashlib.blake2b(body.encode(), digest_size=16).digest(),
            "checksum": checksum(body),
            "created_at": source.created_at.isoformat(),
            "message": body,
        }
        for n, body in enumerate(bodies)
    ]
    connection.execute(insert(messages), rows)
    active_at = later(session.active_at, source.created_at)
    return save(connection, session, last_seq=seq + len(parts), active_at=active_at), gone


def remove(
    connection: Connection, document_id: str, session_id: str | None, user_id: str | None
) -> tuple[Session | None, list[int]]:
    """Delete a document of a session, or of a user where no session is named.

    Returns:
        The session that held it, and the numbers that are gone.

    Raises:
        ScopeError: When neither is named, or the session belongs to another user.
    """
    session = _find(connection, session_id, user_id)
    if session is None:
        return None, []
    return session, _delete(connection, session, _rows(connection, session, document_id))


def find_document(
    connection: Connection, document_id: str, session_id: str | None, user_id: str | None
) -> list[IndexSource]:
    """Return a document of a session, or of a user, and its parts; empty where there is none."""
    session = _find(connection, session_id, user_id)
    if session is None:
        return []
    return [_source(session, row) for row in _rows(connection, session, document_id)]


def count(connection: Connection, session_id: str | None, user_id: str | None) -> int:
    """Return how many documents a session has, or a user; all there are where neither is named."""
    own = messages.join(sessions, sessions.c.id == messages.c.session)
    query = select(func.count()).select_from(own)
    query = query.where(sessions.c.kind.in_((OF_SESSION, OF_USER)), messages.c.has_own_id == 1)
    if session_id is not None or user_id is not None:
        session = _find(connection, session_id, user_id)
        if session is None:
            return 0
        query = query.where(sessions.c.id == session.id)
    return connection.execute(query).scalar_one()


def read(
    connection: Connection,
    session: Session,
    *,
    from_seq: int = 0,
    limit: int | None = None,
    seqs: Sequence[int] | None = None,
) -> list[IndexSource]:
    """Return documents in order: from a number on, or those with some numbers."""
    query = select(messages).where(messages.c.session == session.id, messages.c.seq >= from_seq)
    if seqs is not None:
        query = query.where(messages.c.seq.in_(seqs))
    rows = connection.execute(query.order_by(messages.c.seq).limit(limit))
    return [_source(session, row) for row in rows]


def lock_of(session_id: str | None, user_id: str | None) -> str:
    """Return what a transaction that changes these documents holds."""
    return lock_name(*_home(session_id, user_id))


def _home(session_id: str | None, user_id: str | None) -> tuple[str, str]:
    if session_id is not None:
        return OF_SESSION, session_id
    if user_id is None:
        raise ScopeError("A document belongs to a session or a user: name session_id=, user_id=.")
    return OF_USER, user_id


def _find(connection: Connection, session_id: str | None, user_id: str | None) -> Session | None:
    kind, name = _home(session_id, user_id)
    if kind == OF_SESSION:
        find(connection, name, user_id)  # raises where it is another user's
    return find(connection, name, user_id, kind=kind)


def _rows(connection: Connection, session: Session, document_id: str) -> Sequence[Any]:
    own = (messages.c.session == session.id, messages.c.message_id == document_id)
    return connection.execute(select(messages).where(*own).order_by(messages.c.seq)).all()


def _delete(connection: Connection, session: Session, rows: Sequence[Any]) -> list[int]:
    gone = [row.seq for row in rows]
    if gone:
        own = (messages.c.session == session.id, messages.c.seq.in_(gone))
        connection.execute(delete(messages).where(*own))
    return gone


def _body(source: IndexSource, parts: int) -> str:
    """Return what is stored of a document or a part."""
    place = source.document_part
    body: dict[str, Any] = {
        "id": source.source_id,
        "text": source.text,
        "metadata": dict(source.metadata),
        "parts": parts,
    }
    if place is not None:
        body["part"] = [place.document_id, place.number, place.count]
    return to_json(body)[0]


def _source(session: Session, row: Any) -> IndexSource:
    if row.message is None or checksum(row.message) != row.checksum:
        raise CorruptStoreError(
            f"Document {row.message_id!r} of {session.name!r} is damaged. Nothing was returned; "
            f"add it again."
        )
    body: Mapping[str, Any] = from_json(row.message)
    part = body.get("part")
    return IndexSource(
        seq=row.seq,
        text=body["text"],
        role=WHOLE_DOCUMENT if body["parts"] and part is None else "document",
        document_part=None if part is None else DocumentPart(*part),
        created_at=datetime.fromisoformat(row.created_at),
        source_id=body["id"],
        session_id=session.name if session.kind == OF_SESSION else None,
        user_id=session.user_id,
        metadata=body["metadata"],
    )
