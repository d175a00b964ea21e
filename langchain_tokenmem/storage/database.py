"""One SQLite file or PostgreSQL database: its transactions, a lock per thread, our errors."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import QueuePool

from langchain_tokenmem.background import renew_after_fork
from langchain_tokenmem.errors import (
    ConfigurationError,
    CorruptStoreError,
    StoreError,
    TokenMemoryError,
)
from langchain_tokenmem.storage.connections import (
    BUSY_SECONDS,
    busy_seconds,
    configured_for,
    prepare_nothing_behind_a_pooler,
)
from langchain_tokenmem.storage.database_url import checked_engine, parsed
from langchain_tokenmem.storage.tables import foreign_file, set_up

_AT_ONCE = 500
"""Maximum keys per query; old versions of SQLite accept 999 variables."""

_DAMAGE_CODES = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")
_DAMAGE_WORDS = ("malformed", "not a database", "could not decode", "no such table", "no such col")
_NO_WRITE = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")
_ADVICE = {
    ("SQLITE_BUSY", "SQLITE_LOCKED", "55P03", "40001", "40P01"): (
        " Another transaction has locked it, and nothing was done. Call again, or end that one."
    ),
    ("SQLITE_FULL", "53100"): " Free space on its disk, then call again.",
    ("26000", "42P05"): (
        " Behind PgBouncer, create the engine with connect_args={'prepare_threshold': None}."
    ),
}
"""What to do about an error, by the beginnings of its codes."""

Key = TypeVar("Key")


class Database:
    """A SQLite file or a PostgreSQL database, opened on first use.

    Safe to share between threads. SQLite runs in WAL mode, and its writers queue up; on PostgreSQL
    a writer first takes the locks of the threads that it writes to, in one order.

    Args:
        url: An SQLAlchemy URL, or the path of a SQLite file. To open a file
            read-only: `sqlite:///file:memory.db?mode=ro&uri=true`.
        pool_size: Maximum number of connections.
        engine: An application's own PostgreSQL engine, instead of a URL. It is never disposed
            of here. A `schema_translate_map={None: "memory"}` among its execution options puts the
            tables into a schema, which must be there.

    Raises:
        ConfigurationError: When the URL does not name a supported database, or the engine is async
            or for SQLite, which has to be opened by its URL.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        pool_size: int = 8,
        engine: sa.Engine | None = None,
    ) -> None:
        self._given = None if engine is None else checked_engine(engine)
        self.url = self._given.url if self._given is not None else parsed(url)
        if pool_size < 1:
            raise ConfigurationError(f"pool_size is {pool_size}; it must be at least 1.")
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._is_memory = self.is_sqlite and self.url.database in {None, "", ":memory:"}
        self._is_read_only = "ro" in str(self.url.query.get("mode", ""))
        # A database in memory is its one connection; a file has one more, for its writer.
        self._pool_size = 1 if self._is_memory else pool_size + self.is_sqlite
        self._engine: sa.Engine | None = None
        self._file: tuple[str, int, int] | None = None
        self.renew()
        renew_after_fork(self)

    @contextmanager
    def reading(self, about: object) -> Iterator[sa.Connection]:
        """Yield a connection with a consistent snapshot of the data.

        Args:
            about: Its name in errors, such as "Session 's1'", or an object with that text.
        """
        with self._errors(about):
            # By default each statement would see what others have committed meanwhile.
            snapshot = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            options = {} if self.is_sqlite else snapshot
            with self._transaction(self._open(about), "BEGIN", **options) as connection:
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
    def writing(self, about: object, *threads: str, undo: bool = False) -> Iterator[sa.Connection]:
        """Yield a connection whose changes are committed together or not at all.

        Never open one write transaction inside another.

        Args:
            about: Its name in errors, as in `reading`.
            threads: Ids of the threads that are changed, locked until the transaction ends.
            undo: Whether to roll back at the end, for a dry run.
        """
        with self._errors(about), self._only_writer(about):
            engine = self._open(about)
            if self._is_read_only:
                raise StoreError(f"{about}: {self._path} is opened read-only; nothing was stored.")
            with self._transaction(engine, "BEGIN IMMEDIATE") as connection:
                if threads:
                    lock_threads(connection, threads)
                yield connection
                if undo:
                    connection.rollback()
            self._check_file(about)  # never acknowledge writes to a deleted file

    def close(self) -> None:
        """Close every connection; the next use opens the database again.

        Raises:
            StoreError: When another writer is still busy after half a minute.
        """
        with self._only_writer("Closing the database"), self._opening:
            if self._engine is not None and self._given is None:
                self._engine.dispose()
            self._engine = None

    def forget_deleted(self) -> None:
        """Truncate SQLite's log, so that deleted text does not stay readable in it."""
        if self.is_sqlite and not self._is_memory:
            about = "Cleaning the log"
            with self._errors(about), self._open(about).connect() as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def rewrite(self) -> str | None:
        """Rewrite SQLite's file and truncate its log, so that no deleted text is readable.

        Returns:
            What is left to do, as text, or None.
        """
        if not self.is_sqlite:
            return (
                "PostgreSQL keeps old row versions until VACUUM FULL, and its write-ahead log, "
                "replicas and backups have copies"
            )
        about = "Rewriting the file"
        with (
            self._errors(about),
            self._only_writer(about),
            self._open(about).connect() as connection,
        ):
            run = connection.exec_driver_sql
            run(f"PRAGMA busy_timeout={1000 * busy_seconds():.0f}")
            run("VACUUM")
            if self._is_memory:
                return None
            is_busy, *_ = run("PRAGMA wal_checkpoint(TRUNCATE)").one()
        if is_busy:
            return (
                "another connection is reading, so that the -wal file keeps old pages: redact again"
            )
        return None

    @property
    def _path(self) -> str:
        return self.url.database or ""

    @contextmanager
    def _transaction(
        self, engine: sa.Engine, begin: str, **options: Any
    ) -> Iterator[sa.Connection]:
        wait = busy_seconds()
        if not self._places.acquire(timeout=wait):
            raise PoolTimeoutError("no connection is free")
        try:
            # Setting options of an engine takes as long as a statement.
            with engine.connect() as connection, connection.execution_options(**options).begin():
                if self.is_sqlite:  # a listener could do this, too, but would slow every statement
                    connection.exec_driver_sql(f"PRAGMA busy_timeout={1000 * wait:.0f}")
                    connection.exec_driver_sql(begin)
                elif not options and wait < BUSY_SECONDS:  # a writer in a turn with a time limit
                    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {1000 * wait:.0f}")
                try:
                    yield connection
                except BaseException:
                    with suppress(SQLAlchemyError, sqlite3.Error):
                        connection.rollback()
                        if not self._is_memory:
                            # While someone keeps a reference to the error, it may keep a cursor
                            # with unread rows, and the connection would keep its old snapshot.
                            connection.invalidate()
                    raise
        finally:
            self._places.release()

    @contextmanager
    def _only_writer(self, about: object) -> Iterator[None]:
        """Queue the writers of this process; SQLite itself would make them poll."""
        if not self.is_sqlite:
            yield
            return
        lock, wait_s = self._writers, busy_seconds()
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

    def _open(self, about: object) -> sa.Engine:
        with self._opening:
            if self._engine is None:
                self._engine = self._opened()
        self._check_file(about)
        return self._engine

    def _opened(self) -> sa.Engine:
        options: dict[str, Any] = {
            "poolclass": QueuePool,
            "pool_size": self._pool_size,
            "max_overflow": 0,
            "pool_use_lifo": True,  # the connection used last has its pages cached
        }
        if self.is_sqlite:
            options["connect_args"] = {"check_same_thread": False, "timeout": BUSY_SECONDS}
        else:
            options["pool_pre_ping"] = True
        try:
            engine = self._given or sa.create_engine(self.url, **options)
        except ImportError as error:
            raise ConfigurationError(
                f"The driver of {self.url.drivername} is not installed ({error}): "
                f"pip install 'langchain-tokenmem[postgres]'."
            ) from error
        if self.is_sqlite:
            sa.event.listen(engine, "connect", configured_for(read_only=self._is_read_only))
        elif self._given is None and engine.driver == "psycopg":
            sa.event.listen(engine, "connect", prepare_nothing_behind_a_pooler)
        try:
            begin = "BEGIN" if self._is_read_only else "BEGIN IMMEDIATE"
            with self._transaction(engine, begin) as connection:
                set_up(connection, self._path)
                self._file = _open_file(connection) if self.is_sqlite else None
        except BaseException:
            if self._given is None:
                engine.dispose()
            raise
        return engine

    def _check_file(self, about: object) -> None:
        """Raise if the file was deleted or replaced: writes to it would be lost."""
        if self._file is None:
            return
        path, *identity = self._file
        try:
            now = os.stat(path)  # noqa: PTH116  at each transaction, and Path takes 5 times as long
        except OSError:
            now = None
        if now is None or [now.st_dev, now.st_ino] != identity:
            what = "deleted" if now is None else "replaced by another one"
            raise StoreError(
                f"{about}: {path} was {what} while it was open, and nothing was stored. Call "
                f"close() on the store, put the file or a backup in its place, and go on: the next "
                f"use opens what is there then."
            )

    def renew(self) -> None:
        """Reopen everything in the child of a fork: the connections belong to the parent."""
        if self._engine is not None:
            self._engine.dispose(close=False)
        self._engine = None
        self._writers, self._opening = threading.Lock(), threading.Lock()
        # A pool has one time limit for all: with these places, nothing waits longer than its turn.
        self._places = threading.Semaphore(self._pool_size if self._given is None else 10_000)

    @contextmanager
    def _errors(self, about: object) -> Iterator[None]:
        """Convert database errors to errors of this package."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
            name = getattr(cause, "sqlite_errorname", None) or ""
            if name == "SQLITE_NOTADB":
                raise foreign_file(self._path) from error
            if is_damage(cause):
                raise CorruptStoreError(
                    f"{about}: the database is damaged ({cause}). Nothing was returned; restore a "
                    f"backup."
                ) from error
            fault = str(cause).partition("\n")[0]  # the lines after it quote the statement
            if name.startswith(_NO_WRITE):
                raise StoreError(f"{about}: {self._why_unwritable(cause)}") from error
            if isinstance(error, DBAPIError) and error.connection_invalidated:
                raise StoreError(
                    f"{about}: the connection to the database was lost ({fault}). Nothing of "
                    f"this call was stored, unless it was lost at the very end. Call again: the "
                    f"next call opens a new connection."
                ) from error
            if isinstance(error, PoolTimeoutError):
                raise StoreError(
                    f"{about}: every connection to the database is in use, and nothing was "
                    f"stored. Call again, or raise pool_size."
                ) from error
            code = getattr(cause, "sqlstate", None) or name
            if isinstance(error, DBAPIError) and not (error.statement or code):
                raise StoreError(
                    f"{about}: no connection to the database could be opened ({fault}), and "
                    f"nothing was stored. Check the server and the URL, then call again."
                ) from error
            advice = next((text for codes, text in _ADVICE.items() if code.startswith(codes)), "")
            said = f"{about}: the database reported an error ({fault}).{advice}"
            raise StoreError(said) from error

    def _why_unwritable(self, cause: BaseException) -> str:
        """Return why the file cannot be opened or written, and what to do."""
        file = Path(self._path.removeprefix("file:"))
        if os.path.isdir(file):  # noqa: PTH112 (no error for a name that is too long)
            return f"{self._path} is a folder, and nothing was stored. Name a file."
        if not file.parent.is_dir():
            return f"the folder of {self._path} does not exist, and nothing was stored. Create it."
        advice = f"To read it only, name it sqlite:///file:{file}?mode=ro&uri=true"
        if self._is_read_only:
            advice = "On a read-only disk, add &immutable=1 if no -wal file is beside it"
        return (
            f"{file} cannot be written ({cause}), and nothing was stored. Change the permissions "
            f"of the file and its folder. {advice}."
        )


def lock_threads(connection: sa.Connection, threads: Iterable[str]) -> None:
    """Lock threads until the transaction ends; in SQLite, a writer locks the whole database."""
    if connection.dialect.name == "postgresql":
        for name in sorted(set(threads)):
            lock = sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(name, 0))
            connection.execute(sa.select(lock))


def is_damage(error: BaseException) -> bool:
    """Return whether an error means that the database file is damaged."""
    if (getattr(error, "sqlite_errorname", "") or "").startswith(_DAMAGE_CODES):
        return True
    words = str(error).lower()
    return isinstance(error, UnicodeDecodeError) or any(word in words for word in _DAMAGE_WORDS)


def chunks(keys: Iterable[Key]) -> Iterator[list[Key]]:
    """Yield keys in batches small enough for one query."""
    found = list(keys)
    return (found[start : start + _AT_ONCE] for start in range(0, len(found), _AT_ONCE))


def rows_with(
    connection: sa.Connection,
    query: sa.Select[Any],
    column: Any,
    keys: Iterable[Any],
    **values: Any,
) -> list[Any]:
    """Return the rows of a query whose column has one of any number of keys.

    Args:
        connection: A connection.
        query: The query.
        column: The column.
        keys: The keys.
        values: Values of the query's own parameters.
    """
    found: list[Any] = []
    for some in chunks(keys):  # appending them one by one is slow
        found += connection.execute(query.where(column.in_(some)), values).all()
    return found


def in_pairs(
    connection: sa.Connection, one: Any, other: Any, pairs: Iterable[tuple[int, int]]
) -> tuple[sa.ColumnElement[bool], dict[str, Any]]:
    """Return the condition that two columns match one of some pairs of numbers.

    Both forms look up each pair in an index, in one statement for any number of pairs; with
    `VALUES` SQLite would read the whole table.

    Returns:
        The condition, and the parameters to execute its statement with.
    """
    wanted = sorted(set(pairs))
    if connection.dialect.name == "postgresql":
        numbers = ARRAY(sa.BigInteger)
        sides = [
            sa.func.unnest(sa.bindparam(side, type_=numbers)) for side in ("firsts", "seconds")
        ]
        firsts, seconds = [first for first, _ in wanted], [second for _, second in wanted]
        values: dict[str, Any] = {"firsts": firsts, "seconds": seconds}
    else:
        each = sa.func.json_each(sa.bindparam("pairs")).table_valued("value").c.value
        sides = [sa.func.json_extract(each, place) for place in ("$[0]", "$[1]")]
        values = {"pairs": json.dumps(wanted)}
    return sa.tuple_(one, other).in_(sa.select(*sides)), values


def change_with(
    connection: sa.Connection, statement: sa.Update | sa.Delete, column: Any, keys: Iterable[Any]
) -> int:
    """Update or delete the rows whose column has one of some keys; return how many."""
    return sum(
        connection.execute(statement.where(column.in_(some))).rowcount for some in chunks(keys)
    )


def _open_file(connection: sa.Connection) -> tuple[str, int, int] | None:
    path = connection.exec_driver_sql("PRAGMA database_list").all()[0].file
    if not path:
        return None
    found = os.stat(path)  # noqa: PTH116
    return path, found.st_dev, found.st_ino
