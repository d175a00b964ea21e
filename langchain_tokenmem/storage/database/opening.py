"""A database that is opened: its tables are made when it is new, and looked at when it is not."""

from __future__ import annotations

import hashlib
import sqlite3
from typing import Any

from sqlalchemy import Connection, insert, inspect, select, text

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints import tables as _checkpoints  # noqa: F401
from langchain_tokenmem.storage.database.schema import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    facts,
    metadata,
)

_SETUP_LOCK = 0x746F6B6D
"""PostgreSQL's advisory lock, so that two processes do not both make the tables."""


def set_up(connection: Connection, path: str) -> None:
    """Make the tables of a new database; anything else must be ours, and of this version.

    Args:
        connection: In a transaction that writes.
        path: The SQLite file, for the words of an error.

    Raises:
        CorruptStoreError: When it is somebody else's, damaged, or of another version.
    """
    if connection.dialect.name == "sqlite":
        _set_up_sqlite(connection, path)
    else:
        connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _SETUP_LOCK})
        if not inspect(connection).has_table(facts.name):
            _create(connection)
    found = _fact(connection, "schema_version")
    if found != SCHEMA_VERSION:
        is_newer = isinstance(found, int) and found > SCHEMA_VERSION
        remedy = "Upgrade" if is_newer else "It needs the version that wrote it: downgrade"
        raise CorruptStoreError(
            f"The database has schema version {found!r}, this package reads {SCHEMA_VERSION}. "
            f"{remedy} langchain-tokenmem, or restore a backup."
        )


def configure_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    """Make a new connection safe; for SQLAlchemy's event `connect`."""
    connection.isolation_level = None
    owner, pages = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "page_count")
    )
    if owner == APPLICATION_ID or pages == 0:
        # It stays with the file, and the file of another program is none of ours to change.
        connection.execute("PRAGMA journal_mode = WAL")
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


def _set_up_sqlite(connection: Connection, path: str) -> None:
    """Create the tables in a new file; anything else must be ours already.

    Tables that are missing in a file that is not new mean damage: made anew, they would turn it
    into silently empty histories.
    """
    owner = connection.exec_driver_sql("PRAGMA application_id").scalar()
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar() or 0
    names = set(inspect(connection).get_table_names())
    if owner == 0 and not names and pages <= 1:
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        _create(connection)
    elif owner != APPLICATION_ID:
        raise CorruptStoreError(
            f"{path} is no file of langchain-tokenmem, or its header is damaged. Give the memory "
            f"a file of its own, or restore a backup."
        )
    elif not names.issuperset(metadata.tables):
        missing = ", ".join(sorted(set(metadata.tables) - names))
        raise CorruptStoreError(f"{path} lacks the tables {missing}; restore a backup.")
    elif _fact(connection, "shape") != _shape(connection):
        raise CorruptStoreError(f"{path}: the table definitions are damaged; restore a backup.")


def _shape(connection: Connection) -> int:
    """Return a number that stands for encoding and table definitions of a SQLite file.

    Only the tables of this schema count: `ANALYZE` and others may add their own.
    """
    encoding = connection.exec_driver_sql("PRAGMA encoding").scalar()
    rows = connection.exec_driver_sql(
        "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    ).all()
    ours = [tuple(row) for row in rows if row.tbl_name in metadata.tables]
    said = repr((encoding, ours)).encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.blake2b(said, digest_size=7).digest(), "big")


def _fact(connection: Connection, name: str) -> Any:
    return connection.execute(select(facts.c.number).where(facts.c.name == name)).scalar()


def _create(connection: Connection) -> None:
    metadata.create_all(connection, checkfirst=False)
    numbers = {"schema_version": SCHEMA_VERSION}
    if connection.dialect.name == "sqlite":
        numbers["shape"] = _shape(connection)
    connection.execute(
        insert(facts), [{"name": name, "number": number} for name, number in numbers.items()]
    )
