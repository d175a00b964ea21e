"""Deletes sessions with all that the search index has of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, delete, select

from langchain_tokenmem.storage.search_index.postings import drop_entries
from langchain_tokenmem.storage.search_index.shelves import (
    Shelf,
    find_shelf,
    session_documents,
    user_key,
)
from langchain_tokenmem.storage.search_index.tables import (
    documents,
    outbox,
    owners,
    shelves,
    vectors,
)
from langchain_tokenmem.storage.transcripts.sessions import delete_sessions


def shelf_keys(keys: Iterable[str], session_id: str | None, user_id: str | None) -> list[str]:
    """Return the keys of the shelves of some sessions, and of a user without one."""
    found = [key for one in keys for key in (one, session_documents(one))]
    if session_id is None and user_id is not None:
        found.append(user_key(user_id))
    return found


def erase_sessions(
    connection: Connection, keys: Sequence[str], on_shelves: Sequence[str] | None = None
) -> tuple[dict[str, int], list[int]]:
    """Delete the messages, states, documents and index entries of sessions.

    Args:
        connection: In a transaction that writes.
        keys: Keys of the sessions.
        on_shelves: Keys of their shelves; default: what belongs to the sessions themselves.

    Returns:
        How many rows there were of each kind, and the numbers of the shelves that are gone.
    """
    names = shelf_keys(keys, None, None) if on_shelves is None else on_shelves
    found = [shelf for key in names if (shelf := find_shelf(connection, key)) is not None]
    counts = _emptied(connection, names, found) | delete_sessions(connection, keys)
    return counts, [shelf.number for shelf in found]


def empty_shelf(connection: Connection, session_key: str, last_seq: int) -> None:
    """Delete the index entries of a session's messages; its documents stay."""
    shelf = find_shelf(connection, session_key)
    if shelf is not None:
        drop_entries(connection, shelf, last_seq)
        connection.execute(delete(vectors).where(vectors.c.shelf == shelf.number))
    connection.execute(delete(outbox).where(outbox.c.shelf_key == session_key))


def _emptied(connection: Connection, keys: Sequence[str], found: Sequence[Shelf]) -> dict[str, int]:
    counts = dict.fromkeys(("terms", "vectors", "documents", "outbox"), 0)
    for shelf in found:
        counts["terms"] += drop_entries(connection, shelf, 0)
        counts["vectors"] += connection.execute(
            delete(vectors).where(vectors.c.shelf == shelf.number)
        ).rowcount
        connection.execute(delete(shelves).where(shelves.c.shelf == shelf.number))
    for key in keys:
        for name, table in (("documents", documents), ("outbox", outbox)):
            counts[name] += connection.execute(
                delete(table).where(table.c.shelf_key == key)
            ).rowcount
    for owner in {shelf.owner for shelf in found}:
        left = select(shelves.c.shelf).where(shelves.c.owner == owner).limit(1)
        if connection.execute(left).first() is None:
            connection.execute(delete(owners).where(owners.c.owner == owner))
    return counts
