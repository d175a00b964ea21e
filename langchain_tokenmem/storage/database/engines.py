"""SQLAlchemy's engines: of a database that is written, and of a SQLite file that is only read."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from langchain_tokenmem.storage.database.schema import configure_reader, configure_sqlite
from langchain_tokenmem.storage.database.sqlite_file import read_only_connector

BUSY_SECONDS = 30
"""Seconds that a writer waits for another one before it gives up."""


def create_database_engine(url: URL, pool_size: int, *, is_read_only: bool) -> Engine:
    """Return the engine of a database.

    Args:
        url: Its address.
        pool_size: Most connections at a time.
        is_read_only: Whether it is a SQLite file that cannot be written.

    Raises:
        StoreError: When such a file cannot be read either.
    """
    options: dict[str, Any] = {
        "poolclass": QueuePool,
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_use_lifo": True,  # the one used last has its pages and statements at hand
    }
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True, **options)
    connect = read_only_connector(url, BUSY_SECONDS) if is_read_only else None
    if connect is None:
        arguments = {"check_same_thread": False, "timeout": BUSY_SECONDS}
        engine = create_engine(url, connect_args=arguments, **options)
    else:
        engine = create_engine("sqlite://", creator=connect, **options)
    event.listen(engine, "connect", configure_reader if is_read_only else configure_sqlite)
    return engine
