"""Documents: texts beside the transcript that may be replaced and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import takewhile
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

_PART = "p"
"""Begins the key of a part; that of a document begins with `=` (`key_of`)."""

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


def put_document(
    connection: Connection, source: IndexSource, parts: Sequence[IndexSource] = ()
) -> tuple[Partition, bool]:
    """Store a document in the place of one with its id, and enqueue it for both indexes.

    One that is there already with the same words, metadata and parts stays as it is, so that
    nothing is embedded twice.

    Args:
        connection: In a transaction that writes.
        source: The document.
        parts: What a splitter made of it, in order; they take the numbers behind its own, so that
            they are neighbours of one another, and go with it.

    Returns:
        Its partition, and whether nothing of its id was deleted.

    Raises:
        ScopeError: When it names neither session nor user, or the session is another user's.
        StoreError: When the partition has no numbers left.
    """
    partition = _find_or_make_documents(connection, source.session_id, source.user_id)
    found = _rows(connection, partition.key, source.source_id)
    given = [_columns(each, len(parts)) for each in (source, *parts)]
    if [_said(row) for row in found if _is_whole(row)] == [_said(row) for row in given]:
        return partition, True
    was_there = _delete(connection, partition, found)
    seq = max(last_document(connection, partition.key), partition.indexed_to) + DOCUMENT_STEP
    if seq + len(parts) >= 1 << SEQ_BITS:
        raise StoreError(
            "The documents of this session or user were replaced so often that they have no "
            "numbers left. Erase them and add them again."
        )
    rows = [
        {"partition_key": partition.key, "seq": number, **each}
        for number, each in enumerate(given, seq)
    ]
    connection.execute(
        insert(documents), [{**row, "checksum": checksum(row.values())} for row in rows]
    )
    enqueue(connection, INDEXES, partition.key, seq)
    return partition, not was_there


def _columns(source: IndexSource, count: int) -> dict[str, str]:
    """Return what is stored of a document or a part, in the order of `_COLUMNS`."""
    place, key = source.document_part, key_of(source.source_id)
    body: list[Any] = [source.source_id, source.text]
    if place is not None:
        key = f"{_PART}{place.number}{key_of(place.document_id)}"
        body.append([place.document_id, place.number, place.count])
    elif count:
        body.append(count)
    return {
        "document_key": key,
        "created_at": source.created_at.isoformat(),
        "metadata": to_json(dict(source.metadata))[0],
        "body": to_json(body)[0],
    }


def _said(row: Mapping[Any, Any]) -> tuple[str, str]:
    return row["metadata"], row["body"]


def _rows(
    connection: Connection, partition_key: str, document_id: str
) -> Sequence[Mapping[Any, Any]]:
    """Return the rows of a document and of its parts, in order; none where there is no document."""
    own, key = documents.c.partition_key == partition_key, key_of(document_id)
    named = select(documents).where(own, documents.c.document_key == key)
    whole = connection.execute(named).mappings().first()
    if whole is None:
        return []
    seq, most = whole["seq"], None
    if _is_whole(whole):
        _, _, *more = from_json(whole["body"])
        most = more[0] if more else 0
    # Of a damaged one the keys tell where its parts end.
    behind = select(documents.c.document_key).where(own, documents.c.seq > seq)
    keys = connection.execute(behind.order_by(documents.c.seq).limit(most)).scalars()
    parts = takewhile(lambda pair: pair[1] == f"{_PART}{pair[0]}{key}", enumerate(keys))
    last = seq + sum(1 for _ in parts)
    query = select(documents).where(own, documents.c.seq.between(seq, last))
    return connection.execute(query.order_by(documents.c.seq)).mappings().all()


def find_document(
    connection: Connection, document_id: str, session_id: str | None, user_id: str | None
) -> list[IndexSource]:
    """Return a document of a session, or of a user, and its parts; empty where there is none.

    Raises:
        ScopeError: When neither is named, or the session belongs to another user.
        CorruptStoreError: When it is damaged.
    """
    key = _find_key(connection, session_id, user_id)
    rows = _rows(connection, key, document_id)
    return [_source(row, session_id, user_id) for row in rows]


def count_documents(connection: Connection, session_id: str | None, user_id: str | None) -> int:
    """Return how many documents a session has, or a user; all there are where neither is named.

    Raises:
        ScopeError: When the session belongs to another user.
    """
    # A part's key begins with a letter of its own.
    query = select(func.count()).where(documents.c.document_key.not_like(f"{_PART}%"))
    if session_id is not None or user_id is not None:
        key = _find_key(connection, session_id, user_id)
        query = query.where(documents.c.partition_key == key)
    return connection.execute(query).scalar_one()


def _find_key(connection: Connection, session_id: str | None, user_id: str | None) -> str:
    """Return the key of a partition of documents, empty where the session is not there."""
    if session_id is None:
        return _key_of_user(user_id)
    session = find(connection, session_id, user_id)
    return "" if session is None else session_documents(session.key)


def delete_document(
    connection: Connection, document_id: str, session_id: str | None, user_id: str | None
) -> int | None:
    """Delete a document of a session, or of a user where no session is named.

    Returns:
        The number of its partition, None when there was no such document.

    Raises:
        ScopeError: When neither is named, or the session belongs to another user.
    """
    key = _find_key(connection, session_id, user_id)
    partition = find_partition(connection, key, lock=True)
    if partition is None:
        return None
    rows = _rows(connection, key, document_id)
    return partition.number if _delete(connection, partition, rows) else None


def _delete(
    connection: Connection, partition: Partition, rows: Sequence[Mapping[Any, Any]]
) -> bool:
    """Delete a document with its parts; return whether there was one."""
    if not rows:
        return False
    first, last = rows[0]["seq"], rows[-1]["seq"]
    own = documents.c.partition_key == partition.key
    connection.execute(delete(documents).where(own, documents.c.seq.between(first, last)))
    delete_entries(connection, partition, first, last)
    delete_vectors(connection, partition.number, first, last)
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


def _is_whole(row: Mapping[Any, Any]) -> bool:
    return bool(checksum(row[name] for name in _COLUMNS) == row["checksum"])


def _source(row: Mapping[Any, Any], session_id: str | None, user_id: str | None) -> IndexSource:
    if not _is_whole(row):
        raise CorruptStoreError(
            f"Document {row['seq']} of {row['partition_key']!r} is damaged. Nothing was "
            f"returned; add it again."
        )
    source_id, text, *more = from_json(row["body"])
    is_part = bool(more) and isinstance(more[0], list)
    return IndexSource(
        seq=row["seq"],
        text=text,
        role="document" if is_part or not more else WHOLE_DOCUMENT,
        document_part=DocumentPart(*more[0]) if is_part else None,
        created_at=datetime.fromisoformat(row["created_at"]),
        source_id=source_id,
        session_id=session_id,
        user_id=user_id,
        metadata=from_json(row["metadata"]),
    )
