"""Creates the tables of a new database, and checks those and the version of an old one."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    Connection,
    MetaData,
    create_mock_engine,
    delete,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import DDLElement

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.database.tables import facts

if TYPE_CHECKING:
    from alembic.operations import Operations

APPLICATION_ID = 0x746F6B6D
"""Marks a SQLite file as ours in its header (the letters `tokm`)."""

PREFIX = "tokenmem_"
"""Begins the names of all our tables, in every version of the schema."""

_SETUP_LOCK = 0x746F6B6D
"""PostgreSQL's advisory lock, so that two processes do not both make or upgrade the tables."""


class Schema(NamedTuple):
    """The tables of a database, and the way to them from older versions.

    Attributes:
        version: Number of this version.
        metadata: All tables.
        upgrade: Changes the tables of an older version, given Alembic's operations and the number
            of that version. Tables and indexes that are only new are created after it.
        oldest: The oldest version that it upgrades.
    """

    version: int
    metadata: MetaData
    upgrade: Callable[[Operations, int], None]
    oldest: int = 1


def set_up(connection: Connection, schema: Schema, path: str) -> int:
    """Create the tables in a new database, or check those that are there.

    Args:
        connection: In a transaction that writes.
        schema: The tables that the database should have.
        path: The SQLite file; empty where there is none.

    Returns:
        The version of the database's schema; an older one than `schema` is to be upgraded.

    Raises:
        CorruptStoreError: When the database is another program's, damaged, or of a version that
            cannot be upgraded.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:
        connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _SETUP_LOCK})
    names = set(inspect(connection).get_table_names())
    if _is_new(connection, names):
        if is_sqlite:
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        _create_tables(connection, schema.metadata)
        connection.execute(insert(facts), {"name": "schema_version", "number": schema.version})
        save_table_layout(connection)
        return schema.version
    if is_sqlite:
        _check_file(connection, names, path)
    found = _fact(connection, "schema_version")
    if not (isinstance(found, int) and schema.oldest <= found <= schema.version):
        is_newer = isinstance(found, int) and found > schema.version
        remedy = "Upgrade" if is_newer else "It needs the version that wrote it: downgrade"
        raise CorruptStoreError(
            f"The database has schema version {found!r}, this package reads {schema.version}. "
            f"{remedy} langchain-tokenmem, or restore a backup."
        )
    missing = ", ".join(sorted(set(schema.metadata.tables) - names))
    if missing and found == schema.version:
        # Made anew, they would turn damage into silently empty histories.
        raise CorruptStoreError(f"The database lacks the tables {missing}; restore a backup.")
    return found


def _create_tables(connection: Connection, metadata: MetaData) -> None:
    if connection.dialect.name == "sqlite":
        for statement in _sqlite_statements(metadata):
            connection.exec_driver_sql(statement)
    else:
        metadata.create_all(connection, checkfirst=False)


@lru_cache
def _sqlite_statements(metadata: MetaData) -> tuple[str, ...]:
    """Return the statements of `create_all` for SQLite.

    They are kept for the tests of applications, which open many stores in memory: the second one is
    open and empty after 6 ms of CPU time instead of 11 (seen on a busy machine).
    """
    found: list[str] = []
    dialect = sqlite.dialect()

    def keep(statement: DDLElement, *_: Any, **__: Any) -> None:
        found.append(str(statement.compile(dialect=dialect)))

    metadata.create_all(create_mock_engine("sqlite://", keep), checkfirst=False)
    return tuple(found)


def is_empty(connection: Connection) -> bool:
    """Return whether a database has nothing in it yet."""
    return _is_new(connection, set(inspect(connection).get_table_names()))


def _is_new(connection: Connection, names: set[str]) -> bool:
    if connection.dialect.name != "sqlite":
        return facts.name not in names
    owner = connection.exec_driver_sql("PRAGMA application_id").scalar()
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar() or 0
    return owner == 0 and not names and pages <= 1


def _check_file(connection: Connection, names: set[str], path: str) -> None:
    if connection.exec_driver_sql("PRAGMA application_id").scalar() != APPLICATION_ID:
        raise CorruptStoreError(
            f"{path} is no file of langchain-tokenmem, or its header is damaged. Give the memory "
            f"a file of its own, or restore a backup."
        )
    if facts.name not in names:
        raise CorruptStoreError(f"{path} lacks the table {facts.name}; restore a backup.")
    if _fact(connection, "shape") != _shape(connection):
        raise CorruptStoreError(f"{path}: the table definitions are damaged; restore a backup.")


def _shape(connection: Connection) -> int:
    """Return a number that stands for encoding and table definitions of a SQLite file.

    Only our own tables count: `ANALYZE` and others may add theirs.
    """
    encoding = connection.exec_driver_sql("PRAGMA encoding").scalar()
    rows = connection.exec_driver_sql(
        "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    ).all()
    ours = [tuple(row) for row in rows if str(row.tbl_name).startswith(PREFIX)]
    definitions = repr((encoding, ours)).encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.blake2b(definitions, digest_size=7).digest(), "big")


def _fact(connection: Connection, name: str) -> Any:
    return connection.execute(select(facts.c.number).where(facts.c.name == name)).scalar()


def save_table_layout(connection: Connection) -> None:
    """Store the digest of the table definitions of a SQLite file."""
    if connection.dialect.name == "sqlite":
        connection.execute(delete(facts).where(facts.c.name == "shape"))
        connection.execute(insert(facts), {"name": "shape", "number": _shape(connection)})


def configure_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    """Make a new connection safe; for SQLAlchemy's event `connect`."""
    owner, pages = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "page_count")
    )
    if owner == APPLICATION_ID or pages == 0:
        # It stays with the file, and the file of another program is none of ours to change.
        connection.execute("PRAGMA journal_mode = WAL")
    configure_reader(connection, _record)


def configure_reader(connection: sqlite3.Connection, _record: object) -> None:
    """Make a connection safe without a change of the file; for the event `connect`."""
    connection.isolation_level = None
    for pragma in (
        # A power cut must not take back what was acknowledged; NORMAL would.
        "synchronous = FULL",
        "foreign_keys = ON",
        # Deleted text must not stay readable in the file.
        "secure_delete = ON",
        # Damage inside a page is noticed when the page is read.
        "cell_size_check = ON",
        # A tampered schema must not run code.
        "trusted_schema = OFF",
    ):
        connection.execute(f"PRAGMA {pragma}")
