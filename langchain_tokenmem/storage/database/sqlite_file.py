"""The file of a SQLite database: whether it is there and whole, and how it is read only."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL, Connection

from langchain_tokenmem.errors import StoreError

_NO_WRITE = frozenset({"SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM"})
"""Errors, without what is behind their second underscore, of a file that cannot be written."""

_DAMAGE_CODES = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT"})
_DAMAGE_WORDS = ("malformed", "not a database", "could not decode", "no such table", "no such col")


class OpenFile(NamedTuple):
    """A file as it was when its database was opened."""

    path: str
    device: int
    inode: int

    def check(self, about: str) -> None:
        """Raise if the file was deleted or replaced.

        What is written to a deleted file is gone when the last connection is closed.

        Args:
            about: Named in the error.

        Raises:
            StoreError: When it was.
        """
        try:
            now = os.stat(self.path)  # noqa: PTH116  at each transaction, and Path takes 5 times as long
        except OSError:
            now = None
        if now is None or (now.st_dev, now.st_ino) != (self.device, self.inode):
            what = "deleted" if now is None else "replaced by another one"
            raise StoreError(
                f"{about}: {self.path} was {what} while it was open, and nothing was stored. Call "
                f"close() on the store, put the file or a backup in its place, and go on: the next "
                f"use opens what is there then."
            )


def open_file(connection: Connection) -> OpenFile | None:
    """Return the file that a connection has open; None where the database is no file."""
    path = connection.exec_driver_sql("PRAGMA database_list").all()[0].file
    if not path:
        return None
    found = Path(path).stat()
    return OpenFile(path, found.st_dev, found.st_ino)


def cannot_write(error: BaseException | None) -> bool:
    """Return whether an error of SQLite says that a file, or its folder, is read-only."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return "_".join(name.split("_")[:2]) in _NO_WRITE


def is_damage(error: BaseException) -> bool:
    """Return whether a database says that its file is damaged."""
    code = getattr(error, "sqlite_errorname", "") or ""
    if any(code.startswith(begin) for begin in _DAMAGE_CODES):
        return True
    words = str(error).lower()
    return isinstance(error, UnicodeDecodeError) or any(word in words for word in _DAMAGE_WORDS)


def read_only_error(about: str, path: str | None) -> StoreError:
    """Return what is raised when somebody writes to a file that can only be read."""
    return StoreError(
        f"{about}: {path} is read-only, or its folder is, and nothing was stored. Reading works; "
        f"to write, copy it to where it can be written, or change the permissions (of its -wal and "
        f"-shm files, too), call close() on the store and try again."
    )


def read_only_connector(url: URL, timeout: float) -> Callable[[], sqlite3.Connection] | None:
    """Return what connects to a file that is only read; None where the address is no path.

    In WAL mode SQLite has to write beside the file even to read it. Where it cannot, the file is
    opened as one that nobody changes, unless there is a log with what the file does not have yet.

    Raises:
        StoreError: When there is such a log.
    """
    path = Path(url.database or "")
    if str(path).startswith("file:") or not path.is_file():
        return None
    address = path.absolute().as_uri()

    def connect(options: str = "mode=ro") -> sqlite3.Connection:
        return sqlite3.connect(
            f"{address}?{options}", uri=True, timeout=timeout, check_same_thread=False
        )

    connection = connect()
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        if not cannot_write(error):
            raise
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            raise StoreError(
                f"{path} has a log, {log.name}, that was not brought into it, and its folder is "
                f"read-only. Copy both to a folder that can be written, and open the copy."
            ) from error
        return lambda: connect("mode=ro&immutable=1")
    finally:
        connection.close()
    return connect
