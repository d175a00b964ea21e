"""Repair of checkpointed threads: deletes damaged checkpoints, so that the threads go on."""

from __future__ import annotations

from contextlib import suppress

from sqlalchemy import delete, select

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.checkpoint_rows import delete_checkpoints
from langchain_tokenmem.storage.checkpoints.doctor import (
    KEY_ORDERED,
    ORPHANED,
    OWNED,
    REINDEXED,
    WITH_ROW,
    Examination,
    examine,
    file_faults,
    namespace_faults,
    row_of,
)
from langchain_tokenmem.storage.checkpoints.namespaces import read_namespaces
from langchain_tokenmem.storage.checkpoints.reader import CheckpointReader
from langchain_tokenmem.storage.checkpoints.tables import namespaces
from langchain_tokenmem.storage.checkpoints.threads import recount


def repair(store: CheckpointReader, examination: Examination) -> Examination:
    """Delete checkpoints that cannot be read, and rows that belong to no thread.

    A thread then goes on from its newest checkpoint that is whole; one without any is left as it
    is. Transcripts are never touched. In a SQLite file, what stands in a wrong order is put right
    before anything else: what is not found by its key may be whole.

    Args:
        store: Where they are.
        examination: What `examine` has found.

    Returns:
        What is left.

    Raises:
        StoreError: When the file cannot be mended; it is as it was then.
    """
    if any(finding.remedy == REINDEXED for finding in examination.findings):
        _put_in_order(store)
        examination = examine(store)
    for number in {one.namespace_id for one in examination.findings if one.remedy}:
        if number is not None:
            # One thread that cannot be repaired leaves the others their turn.
            with suppress(CorruptStoreError):
                _delete_damaged(store, number)
    left = examine(store)
    if left.findings and all(finding.remedy == ORPHANED for finding in left.findings):
        with store.database.writing("The repair") as connection:
            for table, owner in OWNED:
                connection.execute(delete(table).where(table.c[owner.name].not_in(select(owner))))
        left = examine(store)
    store.database.forget_deleted()
    return left


def _delete_damaged(store: CheckpointReader, number: int) -> None:
    """Delete the checkpoints of a namespace that cannot be read."""
    with store.writing("The repair") as tx:
        for namespace in read_namespaces(tx, namespaces.c.namespace_id == number):
            row = row_of(tx.connection, number)
            # Looked at again: what could not be read then may be readable now.
            faults = namespace_faults(store, tx, row) if row else []
            mine = [one for one in faults if one.remedy]
            if mine:
                delete_checkpoints(tx.connection, number, [one.key for one in mine if one.key])
                recount(tx, namespace)


def _put_in_order(store: CheckpointReader) -> None:
    """Put the rows of a SQLite file in order again, with their indexes, if that mends it.

    Raises:
        CorruptStoreError: When it does not.
    """
    with store.database.writing("The order of rows") as connection:
        for table in KEY_ORDERED:
            connection.exec_driver_sql(f"REINDEX {table.name}")
        left = [one for one in file_faults(connection) if one.remedy != WITH_ROW]
        if left:
            raise CorruptStoreError(
                f"The rows could not be put in order: {left[0].what}. Restore a backup."
            )
