"""The engine: connections, transactions, and errors in our own words."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, create_engine, event, insert
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from langchain_tokenmem.errors import (
    ConfigurationError,
    CorruptStoreError,
    StoreError,
    TokenMemoryError,
)
from langchain_tokenmem.storage.database.damage import is_damage
from langchain_tokenmem.storage.database.schema import Schema, configure_sqlite, set_up
from langchain_tokenmem.storage.database.urls import parsed

_BUSY_SECONDS = 30
"""How long a writer waits for another one before it gives up."""

_WRITES = "tokenmem_writes"


class _Engines(NamedTuple):
    """An engine, and the same for transactions that write: made once, that takes its time."""

    engine: Engine
    writer: Engine


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

    def __init__(self, url: str, schema: Schema, *, pool_size: int = 8) -> None:
        self._url = parsed(url)
        self._schema = schema
        if pool_size < 1:
            raise ConfigurationError(f"pool_size is {pool_size}; one connection is the least.")
        self._is_sqlite = self._url.get_backend_name() == "sqlite"
        self._is_file = self._is_sqlite and self._url.database not in {None, "", ":memory:"}
        # A database in memory is its one connection.
        is_memory = self._is_sqlite and not self._is_file
        self._pool_size = 1 if is_memory else pool_size + self._is_file
        self._engines: _Engines | None = None
        self._kept: Connection | None = None
        self._inherited: list[object] = []
        self.closings = 0
        self._turn = threading.Lock()
        self._process = os.getpid()
        self._opening = threading.Lock()

    @contextmanager
    def reading(self, about: str) -> Iterator[Connection]:
        """Give a connection with one consistent picture of the data.

        Args:
            about: What is read, for the words of an error.
        """
        with self._said(about), self._begun(self._reader()) as connection:
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
        """Give a connection whose changes are all made, or none; never one inside of another."""
        with self._said(about), self._in_turn(about):
            try:
                with self._begun(self._writer()) as connection:
                    yield connection
            except BaseException:
                self._drop_writer()  # whatever state it is in
                raise

    def close(self) -> None:
        """Close every connection; the next use opens the database again.

        Raises:
            StoreError: When somebody has been writing for half a minute, and still is.
        """
        about = "Closing the database"
        with self._said(about), self._in_turn(about), self._opening:
            self.closings += 1
            self._drop_writer()
            if self._engines is not None:
                self._engines.engine.dispose()
                self._engines = None

    def forget_deleted(self) -> None:
        """Make sure that deleted text does not stay readable in SQLite's log."""
        if self._is_file:
            with self._said("Cleaning the log"), self._opened().connect() as connection:
                # Outside of a transaction, and harmless where a reader is in the way.
                driver = sqlite_driver(connection)
                if driver:
                    driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _begun(self, source: Engine | Connection) -> Iterator[Connection]:
        """Give a connection in a transaction."""
        with source.begin() as begun:
            connection = begun if isinstance(begun, Connection) else begun.connection
            driver = sqlite_driver(connection)
            if driver:  # a listener would do it, too, and slow down every statement
                driver.execute("BEGIN IMMEDIATE" if is_writer(connection) else "BEGIN")
            try:
                yield connection
            except BaseException:
                if self._is_file:
                    # As long as somebody holds the error, it may hold a cursor with rows left, and
                    # the connection would go on with what it saw then, whatever is stored later.
                    _end(connection)
                raise

    @contextmanager
    def _in_turn(self, about: str) -> Iterator[None]:
        """Let the writers of this process queue up; SQLite itself has them ask again and again.

        SQLite's own lock still keeps other processes out.
        """
        with self._opening:
            self._leave_parent()
            turn = self._turn
        if not self._is_sqlite:
            yield
            return
        if not turn.acquire(timeout=_BUSY_SECONDS):
            raise StoreError(
                f"{about}: something in this process has been writing for {_BUSY_SECONDS} s, and "
                f"nothing was done. Try again; if it was called inside of a transaction, such as "
                f"from a callback, call it after that."
            )
        try:
            yield
        finally:
            turn.release()

    def _reader(self) -> Engine:
        engine = self._opened()
        if self._is_sqlite:
            return engine
        # By default each statement would see what others committed meanwhile: a session's row
        # and its messages would not belong together.
        return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def _opened(self) -> Engine:
        return self._open().engine

    def _open(self) -> _Engines:
        with self._opening:
            self._leave_parent()
            if self._engines is None:
                engine = self._made()
                try:
                    self._set_up(engine)
                except BaseException:
                    engine.dispose()
                    raise
                writer = engine.execution_options(**{_WRITES: True})
                self._engines = _Engines(engine, writer)
            return self._engines

    def _writer(self) -> Engine | Connection:
        """Return where a transaction that writes begins.

        For a SQLite file that is a connection that is kept: in a transaction of a few statements,
        to take one from the pool and put it back would be a good part of the work.
        """
        writer = self._open().writer
        if not self._is_file:
            return writer
        if self._kept is None:
            self._kept = writer.connect()
        return self._kept

    def _drop_writer(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            _end(kept)
            with suppress(SQLAlchemyError):
                kept.close()

    def _leave_parent(self) -> None:
        """In a forked child, open everything anew.

        It must not use its parent's connections, nor close them, not even by forgetting them.
        """
        if self._process != os.getpid():
            if self._engines is not None:
                self._inherited += [self._engines.engine.pool, self._kept]
                self._engines.engine.dispose(close=False)
            self._engines, self._kept, self._turn = None, None, threading.Lock()
            self._process = os.getpid()

    def _made(self) -> Engine:
        options: dict[str, Any] = {
            "poolclass": QueuePool,
            "pool_size": self._pool_size,
            "max_overflow": 0,
            "pool_use_lifo": True,  # the one used last has its pages and statements at hand
        }
        if not self._is_sqlite:
            return create_engine(self._url, pool_pre_ping=True, **options)
        arguments = {"check_same_thread": False, "timeout": _BUSY_SECONDS}
        engine = create_engine(self._url, connect_args=arguments, **options)
        event.listen(engine, "connect", configure_sqlite)
        return engine

    def _set_up(self, engine: Engine) -> None:
        with self._begun(engine.execution_options(**{_WRITES: True})) as connection:
            set_up(connection, self._schema, self._url.database or "")

    @contextmanager
    def _said(self, about: str) -> Iterator[None]:
        """Raise what a database says in our own words."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
            if is_damage(cause):
                raise CorruptStoreError(
                    f"{about}: the database is damaged ({cause}). Nothing was returned; restore a "
                    f"backup."
                ) from error
            raise StoreError(f"{about}: the database could not do it ({cause}).") from error


def _end(connection: Connection) -> None:
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


def insert_unless_there(connection: Connection, table: Any, row: dict[str, Any]) -> None:
    """Insert a row unless its key is there; on PostgreSQL without a race."""
    if connection.dialect.name == "postgresql":
        connection.execute(postgres_insert(table).values(row).on_conflict_do_nothing())
    else:
        connection.execute(insert(table).values(row))
