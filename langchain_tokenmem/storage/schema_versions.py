"""The schema of a store: its version, all of its tables, and the upgrade from older versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Column, MetaData, Table, Text, inspect, select

import langchain_tokenmem.storage.checkpoints.tables
import langchain_tokenmem.storage.items.tables
import langchain_tokenmem.storage.search_index.tables
import langchain_tokenmem.storage.transcripts.tables  # noqa: F401  # each declares its tables
from langchain_tokenmem.storage.database.schema import Schema
from langchain_tokenmem.storage.database.tables import metadata
from langchain_tokenmem.storage.rows_before_3 import rewrite_rows
from langchain_tokenmem.storage.transcripts.encoded_message import checksum

if TYPE_CHECKING:
    from alembic.operations import Operations

_VERSION_3 = 3
"""Since this version namespaces are found by the order of their hashes."""

_VERSION_4 = 4
"""Since this version tables and columns have the names that they have now."""

_VERSION_5 = 5
"""Since this version there are edits of messages, and sessions count theirs."""

_RENAMED_COLUMNS = (
    ("tokenmem_sessions", "fingerprint", "session_id_hash"),
    ("tokenmem_sessions", "version", "state_version"),
    ("tokenmem_messages", "was_named", "has_own_id"),
    ("tokenmem_messages", "digest", "content_hash"),
    ("tokenmem_messages", "body", "message"),
    ("tokenmem_leases", "owner", "held_by"),
    ("tokenmem_leases", "expires_ms", "expires_at_ms"),
    ("tokenmem_owners", "owner", "owner_id"),
    ("tokenmem_shelves", "shelf", "partition_id"),
    ("tokenmem_shelves", "shelf_key", "partition_key"),
    ("tokenmem_shelves", "owner", "owner_id"),
    ("tokenmem_shelves", "indexed_to", "indexed_to_seq"),
    ("tokenmem_shelves", "units", "unit_count"),
    ("tokenmem_shelves", "length", "term_count"),
    ("tokenmem_terms", "owner", "owner_id"),
    ("tokenmem_terms", "tf", "occurrences"),
    ("tokenmem_terms", "length", "unit_length"),
    ("tokenmem_outbox", "sink", "index_name"),
    ("tokenmem_outbox", "shelf_key", "partition_key"),
    ("tokenmem_vectors", "shelf", "partition_id"),
    ("tokenmem_documents", "shelf_key", "partition_key"),
    ("tokenmem_checkpoint_groups", "group_id", "session_number"),
    ("tokenmem_checkpoint_groups", "last_number", "last_message_number"),
    ("tokenmem_checkpoint_spaces", "space_id", "namespace_id"),
    ("tokenmem_checkpoint_spaces", "ns_key", "checkpoint_ns_key"),
    ("tokenmem_checkpoint_spaces", "group_id", "session_number"),
    ("tokenmem_checkpoint_spaces", "count", "checkpoint_count"),
    ("tokenmem_checkpoint_spaces", "last_blob", "last_value_number"),
    ("tokenmem_checkpoint_spaces", "head", "latest_checkpoint_id"),
    ("tokenmem_checkpoint_spaces", "tips", "leaf_checkpoint_ids"),
    ("tokenmem_checkpoints", "space_id", "namespace_id"),
    ("tokenmem_checkpoints", "run_key", "run_hash"),
    ("tokenmem_checkpoints", "writes", "write_count"),
    ("tokenmem_checkpoints", "writes_seal", "write_count_seal"),
    ("tokenmem_checkpoints", "body", "checkpoint"),
    ("tokenmem_checkpoint_blobs", "space_id", "namespace_id"),
    ("tokenmem_checkpoint_blobs", "number", "value_number"),
    ("tokenmem_checkpoint_blobs", "refs", "message_refs"),
    ("tokenmem_checkpoint_blobs", "body", "value"),
    ("tokenmem_checkpoint_writes", "space_id", "namespace_id"),
    ("tokenmem_checkpoint_writes", "written", "written_at"),
    ("tokenmem_checkpoint_writes", "refs", "message_refs"),
    ("tokenmem_checkpoint_writes", "body", "value"),
    ("tokenmem_checkpoint_contents", "group_id", "session_number"),
    ("tokenmem_checkpoint_contents", "number", "message_number"),
    ("tokenmem_checkpoint_contents", "seq", "transcript_seq"),
    ("tokenmem_checkpoint_contents", "body", "message"),
)
"""Tables of version 3, their columns, and the names of these since version 4.

Checksums and seals are over values in the order of columns, never over names: they stay.
"""

_RENAMED_TABLES = {
    "tokenmem_owners": "tokenmem_index_owners",
    "tokenmem_shelves": "tokenmem_index_partitions",
    "tokenmem_index_facts": "tokenmem_index_properties",
    "tokenmem_checkpoint_groups": "tokenmem_checkpoint_sessions",
    "tokenmem_checkpoint_spaces": "tokenmem_checkpoint_namespaces",
    "tokenmem_checkpoint_blobs": "tokenmem_checkpoint_values",
    "tokenmem_checkpoint_contents": "tokenmem_checkpoint_messages",
}


def _upgrade(operations: Operations, version: int) -> None:
    """Bring the tables of an older version to version 6, whose items are a new table.

    Version 1 grew with the package, so a database of it may lack tables and an index that came
    later: they are created like new ones.
    """
    connection = operations.get_bind()
    there = set(inspect(connection).get_table_names())
    if version < _VERSION_3:
        rewrite_rows(connection, version)
        namespaces = "tokenmem_checkpoint_spaces"
        if connection.dialect.name == "postgresql" and namespaces in there:
            operations.alter_column(namespaces, "fingerprint", type_=Text(collation="C"))
    if version < _VERSION_4:
        _rename(operations, there)
    if version < _VERSION_5:
        _add_edit_counts(operations)


def _rename(operations: Operations, there: set[str]) -> None:
    if "tokenmem_shelves" in there:
        operations.drop_index("tokenmem_shelves_owner")  # created under its new name
    for table, column, name in _RENAMED_COLUMNS:
        if table in there:
            operations.alter_column(table, column, new_column_name=name)
    for table, name in _RENAMED_TABLES.items():
        if table in there:
            operations.rename_table(table, name)


def _add_edit_counts(operations: Operations) -> None:
    """Add the column of version 5 to the sessions, and make their checksums anew.

    A row with a wrong checksum keeps it: whoever reads it notices.
    """
    name = "tokenmem_sessions"
    count = Column("edit_count", BigInteger, nullable=False, server_default="0")
    connection = operations.get_bind()
    table = Table(name, MetaData(), autoload_with=connection)
    before = connection.execute(select(table)).mappings().all()
    operations.add_column(name, count)
    for row in before:
        columns = [value for column, value in row.items() if column != "checksum"]
        if checksum(columns) == row["checksum"]:
            own = table.c.session_key == row["session_key"]
            anew = checksum([*columns, 0])
            connection.execute(table.update().where(own).values(checksum=anew))


SCHEMA = Schema(version=6, metadata=metadata, upgrade=_upgrade)
