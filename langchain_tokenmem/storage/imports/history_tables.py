"""Looks into a database for the tables of chat histories, and for the sessions in one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, column, create_engine, func, inspect, select, table
from sqlalchemy.exc import SQLAlchemyError

from langchain_tokenmem.errors import StoreError


@contextmanager
def history_engine(address: Any) -> Iterator[Engine]:
    """Give an engine for a database that is read only.

    Args:
        address: The database, as SQLAlchemy's URL.

    Raises:
        StoreError: When it cannot be opened or read.
    """
    engine = create_engine(address)
    try:
        yield engine
    except SQLAlchemyError as error:
        raise StoreError(f"The source cannot be read ({error!r:.300}).") from error
    finally:
        engine.dispose()


def tables_in(engine: Engine) -> set[str]:
    """Return the names of the tables of a database."""
    return set(inspect(engine).get_table_names())


def sessions_in(engine: Engine, name: str) -> list[str]:
    """Return the sessions of a table of chat histories, in the order in which they began."""
    rows = table(name, column("id"), column("session_id"))
    query = select(rows.c.session_id).group_by(rows.c.session_id).order_by(func.min(rows.c.id))
    with engine.connect() as connection:
        return [one for one in connection.execute(query).scalars() if one is not None]
