"""Indexing of edits: what the index has of a message is replaced by its current words."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from langchain_tokenmem.core.search_units import Analyser, Change, IndexSource
from langchain_tokenmem.storage.search_index import outbox, postings, vectors
from langchain_tokenmem.storage.search_index.index_sources import source_of
from langchain_tokenmem.storage.search_index.outbox import LEXICAL, VECTORS
from langchain_tokenmem.storage.search_index.partitions import Partition, find_partition
from langchain_tokenmem.storage.transcripts.message_rows import TranscriptRow
from langchain_tokenmem.storage.transcripts.sessions import SessionRow

logger = logging.getLogger(__name__)


def index_edits(
    connection: Connection,
    analyser: Analyser | None,
    session: SessionRow,
    before: Sequence[TranscriptRow],
    after: Sequence[TranscriptRow],
) -> Change:
    """Replace what the index has of messages, in the transaction that edits them.

    Args:
        connection: In that transaction.
        analyser: Makes the terms; None where this process has none: they are made later.
        session: The session's row.
        before: The messages with the words that were shown until now.
        after: The same with those that are shown from now on.

    Returns:
        What to tell the index's listeners after the commit.
    """
    outbox.enqueue(connection, [VECTORS], session.key, min(row.seq for row in after))
    partition = find_partition(connection, session.key, lock=True)
    if partition is None:
        return Change("added")
    for old, new in zip(before, after, strict=True):
        vectors.delete_vectors(connection, partition.number, new.seq)
        if new.seq <= partition.indexed_to and not _replace_entries(
            connection, analyser, partition, source_of(old, session), source_of(new, session)
        ):
            postings.delete_entries_from(connection, partition, new.seq)
            outbox.enqueue(connection, [LEXICAL], session.key, new.seq)
            partition = replace(partition, indexed_to=new.seq - 1)
    return Change("cleared", [partition.number])


def _replace_entries(
    connection: Connection,
    analyser: Analyser | None,
    partition: Partition,
    old: IndexSource,
    new: IndexSource,
) -> bool:
    """Replace the lexical entries of a message; return False where that has to wait."""
    if analyser is None:
        return False
    try:
        known, entries = analyser.entries(old), analyser.entries(new)
    except Exception:  # an index never fails a turn; the outbox keeps what is missing
        logger.exception("A message could not be analysed; it is not found yet.")
        return False
    if not postings.delete_known_entries(connection, partition, old.seq, known):
        postings.delete_entries(connection, partition, old.seq)
    postings.add_entries(connection, partition, {new.seq: entries}, partition.indexed_to)
    return True
