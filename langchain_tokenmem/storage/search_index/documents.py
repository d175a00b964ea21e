"""Adding and deleting documents, with their entries in the index, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, delete

from langchain_tokenmem.core.search_units import Entry, Source, unit_number
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.storage.search_index.document_rows import (
    drop_document,
    find_document,
    last_document,
    put_document,
)
from langchain_tokenmem.storage.search_index.postings import add_entries, drop_units
from langchain_tokenmem.storage.search_index.shelves import (
    SINKS,
    VECTORS,
    Shelf,
    find_or_make_shelf,
    find_shelf,
    hand_over,
    owe,
    owner_key,
    session_documents,
    user_key,
)
from langchain_tokenmem.storage.search_index.tables import vectors
from langchain_tokenmem.storage.transcripts.sessions import checked_id, find, find_or_make


def home_of(
    connection: Connection, session_id: str | None, user_id: str | None, *, make: bool
) -> Shelf | None:
    """Return the shelf of the documents of a session, or of a user where no session is named.

    Raises:
        ScopeError: When neither is named, or the session belongs to another user.
    """
    if session_id is None:
        if user_id is None:
            raise ScopeError(
                "A document belongs to a session or a user: name session_id=, user_id=."
            )
        key = user_key(checked_id(user_id, "user_id"))
        if make:
            find_or_make_shelf(connection, key, key)
        return find_shelf(connection, key, lock=True)
    if not make:
        session = find(connection, session_id, user_id)
        if session is None:
            return None
        return find_shelf(connection, session_documents(session.key), lock=True)
    session = find_or_make(connection, session_id, user_id)
    own = find_shelf(connection, session.key)
    if own is not None:
        hand_over(connection, session, own)
    key = session_documents(session.key)
    return hand_over(connection, session, find_or_make_shelf(connection, key, owner_key(session)))


def put(
    connection: Connection,
    shelf: Shelf,
    source: Source,
    entries: Sequence[Entry] | None,
    now: datetime,
) -> int:
    """Store a document in the place of one with its id and return its number.

    Args:
        connection: In a transaction that writes.
        shelf: Where it stands.
        source: The document.
        entries: Of the lexical index; None where nobody could make them: they are owed.
        now: When it was added.
    """
    remove(connection, shelf, source.source_id)
    last = max(last_document(connection, shelf.key), shelf.indexed_to)
    seq = put_document(
        connection, shelf.key, source.source_id, source.text, source.metadata, now, last
    )
    owe(connection, [VECTORS] if entries is not None else SINKS, shelf.key, seq)
    if entries is not None:
        add_entries(connection, shelf, {seq: entries}, seq)
    return seq


def remove(connection: Connection, shelf: Shelf, document_id: str) -> bool:
    """Delete a document and its entries; return whether there was one."""
    seq = find_document(connection, shelf.key, document_id)
    if seq is None:
        return False
    drop_document(connection, shelf.key, seq)
    drop_units(connection, shelf, [seq])
    first, last = unit_number(shelf.number, seq), unit_number(shelf.number, seq + 1)
    connection.execute(
        delete(vectors).where(
            vectors.c.shelf == shelf.number, vectors.c.unit >= first, vectors.c.unit < last
        )
    )
    return True
