"""Documents: texts beside the transcript that may be replaced and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from langchain_tokenmem.core.search_units import DOCUMENT_STEP, Source
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.database.json_values import from_json, to_json
from langchain_tokenmem.storage.search_index.tables import documents
from langchain_tokenmem.storage.transcripts.encoded_message import checksum, key_of

_COLUMNS = ("shelf_key", "seq", "document_key", "created_at", "metadata", "body")


def put_document(
    connection: Connection,
    shelf_key: str,
    source_id: str,
    text: str,
    metadata: Mapping[str, Any],
    now: datetime,
    last: int,
) -> int:
    """Insert a document behind number `last` of its shelf and return its number."""
    seq = last + DOCUMENT_STEP
    columns = {
        "shelf_key": shelf_key,
        "seq": seq,
        "document_key": key_of(source_id),
        "created_at": now.isoformat(),
        "metadata": to_json(dict(metadata))[0],
        "body": to_json([source_id, text])[0],
    }
    connection.execute(
        insert(documents).values({**columns, "checksum": checksum(columns.values())})
    )
    return seq


def find_document(connection: Connection, shelf_key: str, source_id: str) -> int | None:
    """Return the number of a document on its shelf."""
    return connection.execute(
        select(documents.c.seq).where(
            documents.c.shelf_key == shelf_key, documents.c.document_key == key_of(source_id)
        )
    ).scalar()


def drop_document(connection: Connection, shelf_key: str, seq: int) -> None:
    """Delete a document."""
    connection.execute(
        delete(documents).where(documents.c.shelf_key == shelf_key, documents.c.seq == seq)
    )


def last_document(connection: Connection, shelf_key: str) -> int:
    """Return the highest number on a shelf of documents, 0 when it is empty."""
    query = select(func.max(documents.c.seq)).where(documents.c.shelf_key == shelf_key)
    return connection.execute(query).scalar() or 0


def read_documents(
    connection: Connection,
    shelf_key: str,
    *,
    from_seq: int | None = None,
    limit: int | None = None,
    seqs: Sequence[int] | None = None,
    session_id: str | None = None,
    user_id: str | None = None,
) -> list[Source]:
    """Return documents of a shelf in order: from a number on, or those with some numbers.

    Raises:
        CorruptStoreError: When one is damaged.
    """
    query = select(documents).where(documents.c.shelf_key == shelf_key).order_by(documents.c.seq)
    if from_seq is not None:
        query = query.where(documents.c.seq >= from_seq)
    if seqs is not None:
        query = query.where(documents.c.seq.in_(seqs))
    if limit is not None:
        query = query.limit(limit)
    return [_source(row, session_id, user_id) for row in connection.execute(query).mappings().all()]


def _source(row: Mapping[Any, Any], session_id: str | None, user_id: str | None) -> Source:
    columns = {name: row[name] for name in _COLUMNS}
    if checksum(columns.values()) != row["checksum"]:
        raise CorruptStoreError(
            f"Document {columns['seq']} of {columns['shelf_key']!r} is damaged. Nothing was "
            f"returned; add it again."
        )
    source_id, text = from_json(columns["body"])
    return Source(
        seq=columns["seq"],
        text=text,
        role="document",
        created_at=datetime.fromisoformat(columns["created_at"]),
        source_id=source_id,
        session_id=session_id,
        user_id=user_id,
        metadata=from_json(columns["metadata"]),
    )
