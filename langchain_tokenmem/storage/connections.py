"""Setup of new connections to a database, and how long they wait for others."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

from langchain_tokenmem.background import seconds_left
from langchain_tokenmem.storage.tables import APPLICATION_ID

BUSY_SECONDS = 30
"""Seconds that a writer waits for another before it gives up."""

_LEAST_BUSY_SECONDS = 1.0
"""Least seconds of that wait: even a turn that has no time left waits for writers before it."""


def busy_seconds() -> float:
    """Return the seconds that a transaction waits for others, within its turn's time limit."""
    return min(BUSY_SECONDS, max(seconds_left(), _LEAST_BUSY_SECONDS))


def configured_for(*, read_only: bool) -> Any:
    """Return what sets up a new connection to a SQLite file."""

    def configure(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        owner, pages = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "page_count")
        )
        if not read_only and (owner == APPLICATION_ID or pages == 0):
            # WAL mode stays with the file, and another program's file is not ours to change.
            _use_write_ahead_log(connection)
        for pragma in (
            # A power failure must not undo an acknowledged commit; with NORMAL it could.
            "synchronous = FULL",
            "foreign_keys = ON",
            # Deleted text must not stay readable in the file.
            "secure_delete = ON",
            # Detect damage inside a page when the page is read.
            "cell_size_check = ON",
            # A tampered schema must not run code.
            "trusted_schema = OFF",
        ):
            connection.execute(f"PRAGMA {pragma}")

    return configure


def prepare_nothing_behind_a_pooler(connection: Any, _record: object) -> None:
    """Turn off prepared statements where the server process may change, as with PgBouncer.

    There a statement may be missing, or be another client's of the same name. Without a pooler they
    are worth having: 120 turns took 1.3 to 1.5 s of the server's CPU with them, 1.8 to 2.0 without.
    """
    (server,) = connection.execute("SELECT pg_backend_pid()").fetchone()
    connection.rollback()
    if connection.info.backend_pid != server:  # PgBouncer gives its clients invented numbers
        connection.prepare_threshold = None


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the file to WAL mode; SQLite itself does not wait for others doing the same."""
    until = time.monotonic() + busy_seconds()
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            is_busy = (error.sqlite_errorname or "").startswith("SQLITE_BUSY")
            if not is_busy or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return
