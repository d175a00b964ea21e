"""The schema of a store: its version, all of its tables, and upgrades from older versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Text, inspect

import langchain_tokenmem.storage.checkpoints.tables
import langchain_tokenmem.storage.search_index.tables
import langchain_tokenmem.storage.transcripts.tables  # noqa: F401  # they declare their tables
from langchain_tokenmem.storage.database.schema import Schema
from langchain_tokenmem.storage.database.tables import metadata

if TYPE_CHECKING:
    from alembic.operations import Operations

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
)
"""Table names before and since version 4, and columns. Checksums are over values, never names."""


def _upgrade(operations: Operations, version: int) -> None:
    """Change the tables of an older version.

    Version 1 grew as the package did, so a database of it may lack later tables and an index:
    they are created like new ones.
    """
    connection = operations.get_bind()
    there = set(inspect(connection).get_table_names())
    spaces = "tokenmem_checkpoint_spaces"
    if version < 3 and spaces in there and connection.dialect.name == "postgresql":  # noqa: PLR2004
        operations.alter_column(spaces, "fingerprint", type_=Text(collation="C"))
    for old, new, columns in _RENAMED_IN_4:
        if old not in there:
            continue
        if old != new:
            operations.rename_table(old, new)
        for column, name in columns.items():
            operations.alter_column(new, column, new_column_name=name)


SCHEMA = Schema(version=4, metadata=metadata, upgrade=_upgrade)
