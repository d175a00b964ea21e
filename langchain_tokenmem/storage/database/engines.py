"""SQLAlchemy's engines: of a database that is written, and of a SQLite file that is only read."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from langchain_tokenmem.storage.database.schema import configure_reader, configure_sqlite
from langchain_tokenmem.storage.database.sqlite_file import read_only_connector

BUSY_SECONDS = 30
"""Seconds that a writer waits for another one before it gives up."""


def create_writing_engine(url: URL, pool_size: int) -> Engine:
    """Return the engine of a database.

    Args:
        url: Its address.
        pool_size: Most connections at a time.
    """
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True, **_pool(pool_size))
    engine = create_engine(url, connect_args=_sqlite_arguments(), **_pool(pool_size))
    event.listen(engine, "connect", configure_sqlite)
    return engine


def create_reading_engine(url: URL, pool_size: int) -> Engine:
    """Return the engine of a SQLite file that cannot be written.

    Raises:
        StoreError: When the file cannot be read either.
    """
    options = _pool(pool_size)
    connect = read_only_connector(url, BUSY_SECONDS)
    if connect is None:
        engine = create_engine(url, connect_args=_sqlite_arguments(), **options)
    else:
        engine = create_engine("sqlite://", creator=connect, **options)
    event.listen(engine, "connect", configure_reader)
    return engine


def _sqlite_arguments() -> dict[str, Any]:
    return {"check_same_thread": False, "timeout": BUSY_SECONDS}


def _pool(size: int) -> dict[str, Any]:
    return {
        "poolclass": QueuePool,
        "pool_size": size,
        "max_overflow": 0,
        "pool_use_lifo": True,  # the one used last has its pages and statements at hand
    }
