"""Connections and transactions of a SQLite or PostgreSQL database, with errors of our own."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from langchain_tokenmem.background import seconds_left
from langchain_tokenmem.errors import (
    ConfigurationError,
    CorruptStoreError,
    StoreError,
    TokenMemoryError,
)
from langchain_tokenmem.storage.database.engines import BUSY_SECONDS, create_database_engine
from langchain_tokenmem.storage.database.schema import Schema, is_empty, set_up
from langchain_tokenmem.storage.database.sqlite_file import (
    OpenFile,
    cannot_write,
    is_damage,
    open_file,
    read_only_error,
)
from langchain_tokenmem.storage.database.urls import parsed

_LEAST_BUSY_SECONDS = 1.0
"""Writers queue up all the time: a turn whose time is over still waits for those before it."""

_WRITES = "tokenmem_writes"
_WRITER = {_WRITES: True}


class Database:
    """A SQLite file or a PostgreSQL database, opened on first use.

    Safe to share between threads. SQLite runs in WAL mode; a writer takes the write lock when its
    transaction begins, so that writers queue up instead of failing halfway.

    Args:
        url: An SQLAlchemy URL.
        schema: The tables that it has.
        pool_size: Most connections at a time; a SQLite file has one more, for all writers.

    Attributes:
        closings: How often it was closed: a backup may stand in its place since then.

    Raises:
        ConfigurationError: When the URL names no database that is supported here.
    """

    def __init__(self, url: str | os.PathLike[str], schema: Schema, *, pool_size: int = 8) -> None:
        self._url = parsed(url)
        self._schema = schema
        if pool_size < 1:
            raise ConfigurationError(f"pool_size is {pool_size}; one connection is the least.")
        self._is_sqlite = self._url.get_backend_name() == "sqlite"
        self._is_file = self._is_sqlite and self._url.database not in {None, "", ":memory:"}
        # A database in memory is its one connection.
        self._pool_size = pool_size + self._is_file if self._is_file or not self._is_sqlite else 1
        self._engine: Engine | None = None
        self._writer_connection: Connection | None = None
        self._inherited: list[object] = []
        self._file: OpenFile | None = None
        self._is_read_only = False
        self.closings = 0
        self._writer_lock = threading.Lock()
        self._open_lock = threading.Lock()
        self._process = os.getpid()

    @contextmanager
    def reading(self, about: str) -> Iterator[Connection]:
        """Give a connection with one consistent picture of the data.

        Args:
            about: Named in errors, such as "Session 's1'".
        """
        with self._translated_errors(about), self._transaction(self._reader(about)) as connection:
            try:
                yield connection
            except TokenMemoryError:
                raise
            except (TypeError, ValueError, LookupError) as error:
                raise CorruptStoreError(
                    f"{about}: a stored value cannot be read ({error}). Nothing was returned; "
                    f"restore a backup."
                ) from error

    @contextmanager
    def writing(self, about: str) -> Iterator[Connection]:
        """Give a connection whose changes are all made, or none.

        A transaction that writes is never begun inside of another one.

        Args:
            about: Named in errors.
        """
        with self._translated_errors(about), self._only_writer(about):
            try:
                with self._transaction(self._writer(about)) as connection:
                    yield connection
                self._check_file(about)  # never acknowledged into a file that is gone
            except BaseException:
                self._drop_writer()  # whatever state it is in
                raise

    def close(self) -> None:
        """Close every connection; the next use opens the database again.

        Raises:
            StoreError: When somebody has been writing for half a minute, and still is.
        """
        about = "Closing the database"
        with self._translated_errors(about), self._only_writer(about), self._open_lock:
            self.closings += 1
            self._drop_writer()
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def forget_deleted(self) -> None:
        """Make sure that deleted text does not stay readable in SQLite's log."""
        if self._is_file and not self._is_read_only:
            with self._translated_errors("Cleaning the log"), self._open().connect() as connection:
                # Outside of a transaction, and harmless where a reader is in the way.
                driver = sqlite_driver(connection)
                if driver:
                    driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _transaction(self, source: Engine | Connection) -> Iterator[Connection]:
        """Give a connection in a transaction."""
        with source.begin() as begun:
            connection = begun if isinstance(begun, Connection) else begun.connection
            driver = sqlite_driver(connection)
            if driver:  # a listener would do it, too, and slow down every statement
                driver.execute(f"PRAGMA busy_timeout={1000 * _busy_seconds():.0f}")
                driver.execute("BEGIN IMMEDIATE" if is_writer(connection) else "BEGIN")
            try:
                yield connection
            except BaseException:
                if self._is_file:
                    # As long as somebody holds the error, it may hold a cursor with rows left, and
                    # the connection would go on with what it saw then, whatever is stored later.
                    _discard(connection)
                raise

    @contextmanager
    def _only_writer(self, about: str) -> Iterator[None]:
        """Let the writers of this process queue up; SQLite itself has them ask again and again.

        SQLite's own lock still keeps other processes out.
        """
        with self._open_lock:
            self._reset_after_fork()
            lock = self._writer_lock
        if not self._is_sqlite:
            yield
            return
        wait_s = _busy_seconds()
        if not lock.acquire(timeout=wait_s):
            raise StoreError(
                f"{about}: something in this process has been writing for {wait_s:.3g} s, and "
                f"nothing was done. Try again; if it was called inside of a transaction, such as "
                f"from a callback, call it after that."
            )
        try:
            yield
        finally:
            lock.release()

    def _open(self) -> Engine:
        with self._open_lock:
            self._reset_after_fork()
            if self._engine is None:
                self._is_read_only = False
                try:
                    self._engine = self._opened()
                except OperationalError as error:
                    if not (self._is_file and cannot_write(error.orig)):
                        raise
                    self._is_read_only = True
                    self._engine = self._opened()
            return self._engine

    def _opened(self) -> Engine:
        """Return an engine whose tables are set up, or checked where they can only be read."""
        read_only = self._is_read_only
        engine = create_database_engine(self._url, self._pool_size, is_read_only=read_only)
        source = engine if read_only else engine.execution_options(**_WRITER)
        try:
            with self._transaction(source) as connection:
                self._set_up(connection)
                self._file = open_file(connection) if self._is_file else None
        except BaseException:
            engine.dispose()
            raise
        return engine

    def _set_up(self, connection: Connection) -> None:
        path = self._url.database or ""
        if self._is_read_only and is_empty(connection):
            raise StoreError(f"{path} is empty and read-only: there is nothing to read.")
        version = set_up(connection, self._schema, path)
        if version < self._schema.version and self._is_read_only:
            raise StoreError(
                f"{path} has schema version {version}, is read-only, and has to be upgraded before "
                f"it is read. Copy it to where it can be written, and open the copy."
            )
        if version < self._schema.version:
            # Alembic takes longer to import than the database to open.
            from langchain_tokenmem.storage.database.upgrade import upgrade  # noqa: PLC0415

            upgrade(connection, self._schema, version)

    def _check_file(self, about: str) -> None:
        if self._file:
            self._file.check(about)

    def _reader(self, about: str) -> Engine:
        engine = self._open()
        self._check_file(about)
        if self._is_sqlite:
            return engine
        # By default each statement would see what others committed meanwhile: a session's row
        # and its messages would not belong together.
        return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def _writer(self, about: str) -> Engine | Connection:
        """Return where a transaction that writes begins.

        For a SQLite file that is a connection that is kept: to take one from the pool and put it
        back would be a good part of a transaction of a few statements.
        """
        engine = self._open()
        self._check_file(about)
        if self._is_read_only:
            raise read_only_error(about, self._url.database)
        if not self._is_file:
            return engine.execution_options(**_WRITER)
        if self._writer_connection is None:
            self._writer_connection = engine.connect().execution_options(**_WRITER)
        return self._writer_connection

    def _drop_writer(self) -> None:
        connection, self._writer_connection = self._writer_connection, None
        if connection is not None:
            _discard(connection)
            with suppress(SQLAlchemyError):
                connection.close()

    def _reset_after_fork(self) -> None:
        """In a forked child, open everything anew.

        It must not use its parent's connections, nor close them, not even by forgetting them.
        """
        if self._process != os.getpid():
            if self._engine is not None:
                self._inherited += [self._engine.pool, self._writer_connection]
                self._engine.dispose(close=False)
            self._engine, self._writer_connection = None, None
            self._writer_lock, self._process = threading.Lock(), os.getpid()

    @contextmanager
    def _translated_errors(self, about: str) -> Iterator[None]:
        """Raise errors of the database as those of this package."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
            if is_damage(cause):
                raise CorruptStoreError(
                    f"{about}: the database is damaged ({cause}). Nothing was returned; restore a "
                    f"backup."
                ) from error
            if cannot_write(cause) and self._file is not None:  # it could be opened
                raise read_only_error(about, self._url.database) from error
            raise StoreError(f"{about}: the database could not do it ({cause}).") from error


def _busy_seconds() -> float:
    """Return how long a transaction waits for another one, within the limit of its turn."""
    return min(BUSY_SECONDS, max(seconds_left(), _LEAST_BUSY_SECONDS))


def _discard(connection: Connection) -> None:
    """Give up a transaction of SQLite, and the driver's connection with it."""
    with suppress(sqlite3.Error, SQLAlchemyError):
        if not (connection.closed or connection.invalidated):
            driver = sqlite_driver(connection)
            if driver:
                driver.rollback()
            connection.invalidate()


def is_writer(connection: Connection) -> bool:
    """Return whether the connection is in a transaction that writes."""
    return bool(connection.get_execution_options().get(_WRITES))


def sqlite_driver(connection: Connection) -> sqlite3.Connection | None:
    """Return SQLite's own connection; None where the database is another one."""
    driver = connection.connection.dbapi_connection
    return driver if isinstance(driver, sqlite3.Connection) else None
