"""Batches of the lexical index: messages and documents that the outbox names."""

from __future__ import annotations

from sqlalchemy import Connection

from langchain_tokenmem.core.search_units import Analyser
from langchain_tokenmem.storage.search_index.index_sources import sources_from
from langchain_tokenmem.storage.search_index.outbox import LEXICAL, acknowledge, enqueue_everything
from langchain_tokenmem.storage.search_index.partitions import lock_partition
from langchain_tokenmem.storage.search_index.postings import add_entries, delete_all_entries


def index_batch(
    connection: Connection, analyser: Analyser, partition_key: str, size: int
) -> tuple[int, bool]:
    """Index some texts of a partition; return how many, and whether there are more."""
    partition = lock_partition(connection, partition_key)
    if partition is None:
        acknowledge(connection, LEXICAL, partition_key, 0, 0)
        return 0, False
    found, last = sources_from(connection, partition_key, partition.indexed_to + 1, size)
    entries = {source.seq: analyser.entries(source) for source in found}
    done_to = found[-1].seq if found else last
    add_entries(connection, partition, entries, done_to)
    acknowledge(connection, LEXICAL, partition_key, done_to, last)
    return len(found), done_to < last


def start_over(connection: Connection) -> None:
    """Empty the lexical index, and enqueue everything for it."""
    delete_all_entries(connection)
    enqueue_everything(connection, LEXICAL)
