"""Documents: texts beside the transcript that may be replaced and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from langchain_tokenmem.core.search_units import DOCUMENT_STEP, IndexSource
from langchain_tokenmem.errors import CorruptStoreError, ScopeError
from langchain_tokenmem.storage.database.json_values import from_json, to_json
from langchain_tokenmem.storage.search_index.outbox import INDEXES, enqueue
from langchain_tokenmem.storage.search_index.partitions import (
    Partition,
    find_or_make_partition,
    find_partition,
    move_to_user,
    owner_key,
    session_documents,
    user_key,
)
from langchain_tokenmem.storage.search_index.postings import delete_entries
from langchain_tokenmem.storage.search_index.tables import documents
from langchain_tokenmem.storage.search_index.vectors import delete_vectors
from langchain_tokenmem.storage.transcripts.encoded_message import checksum, key_of
from langchain_tokenmem.storage.transcripts.sessions import checked_id, find, find_or_make

_COLUMNS = ("partition_key", "seq", "document_key", "created_at", "metadata", "body")


def _find_or_make_documents(
    connection: Connection, session_id: str | None, user_id: str | None
) -> Partition:
    if session_id is None:
        key = owner = _key_of_user(user_id)
    else:
        session = find_or_make(connection, session_id, user_id)
        move_to_user(connection, session)
        key, owner = session_documents(session.key), owner_key(session)
    made = find_or_make_partition(connection, key, owner)
    return find_partition(connection, key, lock=True) or made


def _key_of_user(user_id: str | None) -> str:
    if user_id is None:
        raise ScopeError("A document belongs to a session or a user: name session_id=, user_id=.")
    return user_key(checked_id(user_id, "user_id"))


def put_document(connection: Connection, source: IndexSource) -> tuple[Partition, bool]:
    """Store a document in the place of one with its id, and enqueue it for both indexes.

    Returns:
        Its partition, and whether there was none of its id.

    Raises:
        ScopeError: When it names neither session nor user, or the session is another user's.
    """
    partition = _find_or_make_documents(connection, source.session_id, source.user_id)
    was_there = _delete(connection, partition, source.source_id)
    seq = max(last_document(connection, partition.key), partition.indexed_to) + DOCUMENT_STEP
    columns = {
        "partition_key": partition.key,
        "seq": seq,
        "document_key": key_of(source.source_id),
        "created_at": source.created_at.isoformat(),
        "metadata": to_json(dict(source.metadata))[0],
        "body": to_json([source.source_id, source.text])[0],
    }
    connection.execute(
        insert(documents).values({**columns, "checksum": checksum(columns.values())})
    )
    enqueue(connection, INDEXES, partition.key, seq)
    return partition, not was_there


def delete_document(
    connection: Connection, document_id: str, session_id: str | None, user_id: str | None
) -> int | None:
    """Delete a document of a session, or of a user where no session is named.

    Returns:
        The number of its partition, None when there was no such document.

    Raises:
        ScopeError: When neither is named, or the session belongs to another user.
    """
    if session_id is None:
        key = _key_of_user(user_id)
    else:
        session = find(connection, session_id, user_id)
        key = "" if session is None else session_documents(session.key)
    partition = find_partition(connection, key, lock=True)
    if partition is None or not _delete(connection, partition, document_id):
        return None
    return partition.number


def _delete(connection: Connection, partition: Partition, document_id: str) -> bool:
    own = (documents.c.partition_key == partition.key) & (
        documents.c.document_key == key_of(document_id)
    )
    seq = connection.execute(select(documents.c.seq).where(own)).scalar()
    if seq is None:
        return False
    connection.execute(delete(documents).where(own))
    delete_entries(connection, partition, seq)
    delete_vectors(connection, partition.number, seq)
    return True


def last_document(connection: Connection, partition_key: str) -> int:
    """Return the highest number in a partition of documents, 0 when it is empty."""
    query = select(func.max(documents.c.seq)).where(documents.c.partition_key == partition_key)
    return connection.execute(query).scalar() or 0


def read_documents(
    connection: Connection,
    partition_key: str,
    *,
    from_seq: int = 0,
    limit: int | None = None,
    seqs: Sequence[int] | None = None,
    session_id: str | None = None,
    user_id: str | None = None,
) -> list[IndexSource]:
    """Return documents of a partition in order: from a number on, or those with some numbers.

    Raises:
        CorruptStoreError: When one is damaged.
    """
    query = (
        select(documents)
        .where(documents.c.partition_key == partition_key, documents.c.seq >= from_seq)
        .order_by(documents.c.seq)
        .limit(limit)
    )
    if seqs is not None:
        query = query.where(documents.c.seq.in_(seqs))
    return [_source(row, session_id, user_id) for row in connection.execute(query).mappings()]


def _source(row: Mapping[Any, Any], session_id: str | None, user_id: str | None) -> IndexSource:
    if checksum(row[name] for name in _COLUMNS) != row["checksum"]:
        raise CorruptStoreError(
            f"Document {row['seq']} of {row['partition_key']!r} is damaged. Nothing was "
            f"returned; add it again."
        )
    source_id, text = from_json(row["body"])
    return IndexSource(
        seq=row["seq"],
        text=text,
        role="document",
        created_at=datetime.fromisoformat(row["created_at"]),
        source_id=source_id,
        session_id=session_id,
        user_id=user_id,
        metadata=from_json(row["metadata"]),
    )
