"""Documents: texts beside the transcript that may be replaced and deleted.

They are stored as messages of a session of another kind. The column `digest` has a hash of the id
of the document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, true

from langchain_tokenmem.core.search_units import DOCUMENT_STEP, SEQ_BITS, IndexSource
from langchain_tokenmem.errors import CorruptStoreError, ScopeError, StoreError
from langchain_tokenmem.storage.message_json import checksum, from_json, to_json
from langchain_tokenmem.storage.sessions import (
    OF_SESSION,
    OF_USER,
    Session,
    find_or_make,
)
from langchain_tokenmem.storage.tables import messages, sessions
from langchain_tokenmem.storage.transcripts import next_number


def put(connection: Connection, sources: Sequence[IndexSource]) -> tuple[Session, list[int]]:
    """Store documents of one session or user; each replaces the one with its id.

    An unchanged document is not stored again, so that nothing is embedded twice. Successive parts
    of a document get successive numbers, which makes them neighbours.

    Args:
        connection: In a write transaction.
        sources: The documents, at least one.

    Returns:
        The documents' session, which its caller saves, and the numbers of the documents that were
        replaced.

    Raises:
        ScopeError: When they name neither session nor user, or the session is another user's.
        StoreError: When the session has no numbers left.
    """
    kind, name = home_of(sources[0].session_id, sources[0].user_id)
    user_id = sources[0].user_id
    if kind == OF_SESSION:  # documents belong to the owner of their conversation
        user_id = find_or_make(connection, name, user_id).user_id
    session = find_or_make(connection, name, user_id, kind=kind)
    gone: list[int] = []
    for source in sources:
        body = to_json(
            {"id": source.source_id, "text": source.text, "metadata": dict(source.metadata)}
        )[0]
        old = _rows(connection, session, messages.c.message_id == source.source_id)
        if [row.message for row in old] == [body]:
            continue
        seq = session.last_seq + (1 if _continues(connection, session, source) else DOCUMENT_STEP)
        if seq >= 1 << SEQ_BITS:
            raise StoreError(
                "The documents of this session or user were replaced so often that they have no "
                "numbers left. Erase them and add them again."
            )
        gone += _delete(connection, session, old)
        row = {
            "session": session.id,
            "number": next_number(connection, session),
            "seq": seq,
            "is_shown": 1,
            "message_id": source.source_id,
            "has_own_id": 1,
            "digest": _digest(source.document_id),
            "checksum": checksum(body),
            "created_at": source.created_at.isoformat(),
            "message": body,
        }
        connection.execute(insert(messages), row)
        session.last_seq = seq
        session.note_activity(source.created_at)
    return session, gone


def _continues(connection: Connection, session: Session, source: IndexSource) -> bool:
    """Return whether the newest document of a session is a part of the same document."""
    newest = (messages.c.session == session.id, messages.c.seq == session.last_seq)
    digest = connection.execute(select(messages.c.digest).where(*newest)).scalar()
    return digest == _digest(source.document_id)


def _digest(document_id: str | None) -> bytes:
    """Return the hash that all parts of a document share."""
    name = (document_id or "").encode("utf-8", "surrogatepass")
    return hashlib.blake2b(name, digest_size=16).digest()


def remove(connection: Connection, session: Session, document_id: str) -> list[int]:
    """Delete a document and its parts; return the deleted numbers."""
    named = messages.c.message_id == document_id
    part = messages.c.digest == _digest(document_id)
    return _delete(connection, session, _rows(connection, session, or_(named, part)))


def count(connection: Connection, session: Session | None = None) -> int:
    """Return the number of documents of a session of documents or, by default, of the store."""
    own = messages.join(sessions, sessions.c.id == messages.c.session)
    query = select(func.count()).select_from(own)
    query = query.where(sessions.c.kind.in_((OF_SESSION, OF_USER)))
    if session is not None:
        query = query.where(sessions.c.id == session.id)
    return connection.execute(query).scalar_one()


def read(
    connection: Connection,
    session: Session,
    *,
    from_seq: int = 0,
    limit: int | None = None,
    seqs: Sequence[int] | None = None,
    named: str | None = None,
) -> list[IndexSource]:
    """Return documents in order: from a number on, those with given numbers, or with an id."""
    among = true() if seqs is None else messages.c.seq.in_(seqs)
    mine = true() if named is None else messages.c.message_id == named
    rows = _rows(connection, session, messages.c.seq >= from_seq, among, mine, limit=limit)
    return [_source(session, row) for row in rows]


def home_of(session_id: str | None, user_id: str | None) -> tuple[str, str]:
    """Return kind and name of the session that has the documents of a session or of a user.

    Raises:
        ScopeError: When neither is named.
    """
    if session_id is not None:
        return OF_SESSION, session_id
    if user_id is None:
        raise ScopeError("A document belongs to a session or a user: name session_id=, user_id=.")
    return OF_USER, user_id


def _rows(
    connection: Connection, session: Session, *conditions: Any, limit: int | None = None
) -> Sequence[Any]:
    query = select(messages).where(messages.c.session == session.id, *conditions)
    return connection.execute(query.order_by(messages.c.seq).limit(limit)).all()


def _delete(connection: Connection, session: Session, rows: Sequence[Any]) -> list[int]:
    gone = [row.seq for row in rows]
    if gone:
        own = (messages.c.session == session.id, messages.c.seq.in_(gone))
        connection.execute(delete(messages).where(*own))
    return gone


def _source(session: Session, row: Any) -> IndexSource:
    if row.message is None or checksum(row.message) != row.checksum:
        raise CorruptStoreError(
            f"Document {row.message_id!r} of {session.name!r} is damaged. Nothing was returned; "
            f"add it again."
        )
    body: Mapping[str, Any] = from_json(row.message)
    return IndexSource(
        seq=row.seq,
        text=body["text"],
        role="document",
        created_at=datetime.fromisoformat(row.created_at),
        source_id=body["id"],
        session_id=session.name if session.kind == OF_SESSION else None,
        user_id=session.user_id,
        metadata=body["metadata"],
    )
