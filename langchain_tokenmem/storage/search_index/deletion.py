"""Deletion of everything that the search index has of a session or a user."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from langchain_tokenmem.storage.search_index.partitions import find_partition, partition_keys
from langchain_tokenmem.storage.search_index.postings import delete_partition_entries
from langchain_tokenmem.storage.search_index.tables import (
    documents,
    outbox,
    owners,
    partitions,
)
from langchain_tokenmem.storage.search_index.vectors import delete_vectors
from langchain_tokenmem.storage.transcripts.sessions import delete_sessions


def delete_partitions(
    connection: Connection, keys: Sequence[str]
) -> tuple[dict[str, int], list[int]]:
    """Delete partitions, documents included.

    Args:
        connection: In a transaction that writes.
        keys: Of the partitions (`partitions.partition_keys`).

    Returns:
        How many rows there were of each kind, and the numbers of the partitions that are gone.
    """
    counts = dict.fromkeys(("terms", "vectors", "documents", "outbox"), 0)
    found = [one for key in keys if (one := find_partition(connection, key)) is not None]
    for partition in found:
        counts["terms"] += delete_partition_entries(connection, partition, 0)
        counts["vectors"] += delete_vectors(connection, partition.number)
        own = partitions.c.partition_id == partition.number
        connection.execute(delete(partitions).where(own))
    for name, table in (("documents", documents), ("outbox", outbox)):
        for key in keys:
            gone = connection.execute(delete(table).where(table.c.partition_key == key))
            counts[name] += gone.rowcount
    maybe_done = {partition.owner for partition in found}
    still_there = select(partitions.c.owner_id).where(partitions.c.owner_id.in_(maybe_done))
    connection.execute(
        delete(owners).where(
            owners.c.owner_id.in_(maybe_done), owners.c.owner_id.not_in(still_there)
        )
    )
    return counts, [partition.number for partition in found]


def erase_sessions(
    connection: Connection, keys: Sequence[str], partitions: Sequence[str] | None = None
) -> tuple[dict[str, int], list[int]]:
    """Delete the messages, states, documents and index entries of sessions.

    Args:
        connection: In a transaction that writes.
        keys: Keys of the sessions.
        partitions: Keys of their partitions of the search index; default: those of the sessions.

    Returns:
        How many rows there were of each kind, and the numbers of the partitions that are gone.
    """
    counts, gone = delete_partitions(connection, partitions or partition_keys(keys, None, None))
    return counts | delete_sessions(connection, keys), gone


def clear_messages(connection: Connection, session_key: str, last_seq: int) -> list[int]:
    """Delete what the index has of a session's messages; its documents stay.

    Returns:
        The number of their partition, if there is one.
    """
    connection.execute(delete(outbox).where(outbox.c.partition_key == session_key))
    partition = find_partition(connection, session_key)
    if partition is None:
        return []
    delete_partition_entries(connection, partition, last_seq)
    delete_vectors(connection, partition.number)
    return [partition.number]
