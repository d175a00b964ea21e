"""Upgrades a database of an older schema version, with Alembic's operations."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, update

from langchain_tokenmem.errors import CorruptStoreError, StoreError
from langchain_tokenmem.storage.database.schema import PREFIX, Schema, save_table_layout
from langchain_tokenmem.storage.database.tables import facts

logger = logging.getLogger(__name__)


def upgrade(connection: Connection, schema: Schema, version: int) -> None:
    """Bring the tables of an older version to those of a schema; of a SQLite file keep a copy.

    Args:
        connection: In the transaction that writes, to be rolled back when this raises.
        schema: The tables that the database should have.
        version: The version that it has.

    Raises:
        CorruptStoreError: When the tables are not as their version made them.
        StoreError: When no copy can be made.
    """
    copy = _copy_beside(connection, version)
    try:
        _change_tables(connection, schema, version)
    except BaseException:
        if copy:
            copy.unlink()
        raise
    logger.warning(
        "The database was upgraded from schema version %d to %d.%s",
        version,
        schema.version,
        f" {copy} keeps it as it was, with everything that is erased later: delete it when you "
        f"need it no longer."
        if copy
        else "",
    )


def _change_tables(connection: Connection, schema: Schema, version: int) -> None:
    context = MigrationContext.configure(connection, opts={"include_name": _is_ours})
    schema.upgrade(Operations(context), version)
    schema.metadata.create_all(connection)
    for table in schema.metadata.tables.values():
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    if left := compare_metadata(context, schema.metadata):
        raise CorruptStoreError(
            f"The tables of schema version {version} are not as that version made them "
            f"({left[0]!r:.200}). Nothing was changed; restore a backup."
        )
    version_row = update(facts).where(facts.c.name == "schema_version")
    connection.execute(version_row.values(number=schema.version))
    save_table_layout(connection)


def _is_ours(name: str | None, kind: str, _parents: object) -> bool:
    return kind != "table" or (name or "").startswith(PREFIX)


def _copy_beside(connection: Connection, version: int) -> Path | None:
    """Copy a SQLite file by SQLite's own backup, and return the path of the copy.

    Nobody else can write meanwhile: the caller's transaction holds the lock.
    """
    if connection.dialect.name != "sqlite":
        return None
    path = connection.exec_driver_sql("PRAGMA database_list").all()[0].file
    copy = Path(f"{path}.v{version}-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}Z.bak")
    part = copy.with_suffix(".part")
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(part)) as target:
            source.backup(target)
        part.chmod(Path(path).stat().st_mode)
        return part.replace(copy)
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise StoreError(
            f"{path} has schema version {version}, and no copy could be made before its upgrade "
            f"({error}). Nothing was changed; make room beside it, and open it again."
        ) from error
