"""The schema of a store: its version, all of its tables, and the upgrade from older versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Text, inspect

import langchain_tokenmem.storage.checkpoints.tables
import langchain_tokenmem.storage.search_index.tables
import langchain_tokenmem.storage.transcripts.tables  # noqa: F401  # each declares its tables
from langchain_tokenmem.storage.database.schema import Schema
from langchain_tokenmem.storage.database.tables import metadata
from langchain_tokenmem.storage.rows_before_3 import rewrite_rows

if TYPE_CHECKING:
    from alembic.operations import Operations

_WITH_ORDERED_KEYS = 3
"""The version since which namespaces are found by the order of their hashes."""

_RENAMED_IN_4: tuple[tuple[str, str, dict[str, str]], ...] = (
    (
        "tokenmem_sessions",
        "tokenmem_sessions",
        {"fingerprint": "session_id_hash", "version": "state_version"},
    ),
    (
        "tokenmem_messages",
        "tokenmem_messages",
        {"was_named": "has_own_id", "digest": "content_hash", "body": "message"},
    ),
    (
        "tokenmem_leases",
        "tokenmem_leases",
        {"owner": "held_by", "expires_ms": "expires_at_ms"},
    ),
    ("tokenmem_owners", "tokenmem_index_owners", {"owner": "owner_id"}),
    (
        "tokenmem_shelves",
        "tokenmem_index_partitions",
        {
            "shelf": "partition_id",
            "shelf_key": "partition_key",
            "owner": "owner_id",
            "indexed_to": "indexed_to_seq",
            "units": "unit_count",
            "length": "term_count",
        },
    ),
    (
        "tokenmem_terms",
        "tokenmem_terms",
        {"owner": "owner_id", "tf": "occurrences", "length": "unit_length"},
    ),
    (
        "tokenmem_outbox",
        "tokenmem_outbox",
        {"sink": "index_name", "shelf_key": "partition_key"},
    ),
    ("tokenmem_vectors", "tokenmem_vectors", {"shelf": "partition_id"}),
    ("tokenmem_documents", "tokenmem_documents", {"shelf_key": "partition_key"}),
    ("tokenmem_index_facts", "tokenmem_index_properties", {}),
    (
        "tokenmem_checkpoint_groups",
        "tokenmem_checkpoint_sessions",
        {"group_id": "session_number", "last_number": "last_message_number"},
    ),
    (
        "tokenmem_checkpoint_spaces",
        "tokenmem_checkpoint_namespaces",
        {
            "space_id": "namespace_id",
            "ns_key": "checkpoint_ns_key",
            "group_id": "session_number",
            "count": "checkpoint_count",
            "last_blob": "last_value_number",
            "head": "latest_checkpoint_id",
            "tips": "leaf_checkpoint_ids",
        },
    ),
    (
        "tokenmem_checkpoints",
        "tokenmem_checkpoints",
        {
            "space_id": "namespace_id",
            "run_key": "run_hash",
            "writes": "write_count",
            "writes_seal": "write_count_seal",
            "body": "checkpoint",
        },
    ),
    (
        "tokenmem_checkpoint_blobs",
        "tokenmem_checkpoint_values",
        {
            "space_id": "namespace_id",
            "number": "value_number",
            "refs": "message_refs",
            "body": "value",
        },
    ),
    (
        "tokenmem_checkpoint_writes",
        "tokenmem_checkpoint_writes",
        {
            "space_id": "namespace_id",
            "written": "written_at",
            "refs": "message_refs",
            "body": "value",
        },
    ),
    (
        "tokenmem_checkpoint_contents",
        "tokenmem_checkpoint_messages",
        {
            "group_id": "session_number",
            "number": "message_number",
            "seq": "transcript_seq",
            "body": "message",
        },
    ),
)
"""Names of tables before and since version 4, and of their columns.

Checksums and seals are over values in the order of columns, never over names: they stay.
"""


def _upgrade(operations: Operations, version: int) -> None:
    """Change the tables of an older version.

    Version 1 grew with the package, so a database of it may lack tables and an index that came
    later: they are created like new ones.
    """
    connection = operations.get_bind()
    there = set(inspect(connection).get_table_names())
    if version < _WITH_ORDERED_KEYS:
        rewrite_rows(connection, version)
    spaces = "tokenmem_checkpoint_spaces"
    is_ordered = version >= _WITH_ORDERED_KEYS or connection.dialect.name == "sqlite"
    if spaces in there and not is_ordered:
        operations.alter_column(spaces, "fingerprint", type_=Text(collation="C"))
    shelves = "tokenmem_shelves"
    if shelves in there and shelves not in metadata.tables:
        operations.drop_index("tokenmem_shelves_owner", shelves)  # created under its new name
    for old, new, columns in _RENAMED_IN_4:
        # A table that this version does not have under the new name is not renamed (yet).
        if old not in there or new not in metadata.tables:
            continue
        if old != new:
            operations.rename_table(old, new)
        for column, name in columns.items():
            if name in metadata.tables[new].columns:
                operations.alter_column(new, column, new_column_name=name)


SCHEMA = Schema(version=4, metadata=metadata, upgrade=_upgrade)
