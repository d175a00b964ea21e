"""Statements that every turn runs: SQLAlchemy compiles them, and on SQLite its driver runs them.

To store a checkpoint takes a dozen small statements. SQLite needs about 5 microseconds for one,
and what SQLAlchemy does around it 30 more: with it a put at 2,000 messages takes 5.0 ms of CPU
time, without it 4.2. So the SQL is compiled once for each form, and the driver's connection, which
SQLAlchemy holds, runs it in the same transaction. On PostgreSQL, where the server is further away
than that, SQLAlchemy runs it as usual.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, UpdateBase, insert
from sqlalchemy.dialects.postgresql import insert as postgres_insert

from langchain_tokenmem.storage.database.database import sqlite_driver

Row = Mapping[Any, Any]


class _Sql(NamedTuple):
    """SQL for SQLite's driver.

    Attributes:
        text: With a question mark for each parameter.
        names: Of the parameters, in order.
        defaults: Values of those that the statement brings itself.
    """

    text: str
    names: Sequence[str]
    defaults: Mapping[str, Any]

    def positions(self, values: Mapping[str, Any]) -> list[Any]:
        """Return the values of the parameters in order; lists take a place for each value."""
        given = {**self.defaults, **values}
        found = [given[name] for name in self.names]
        if list not in map(type, found):
            return found
        return [one for value in found for one in (value if type(value) is list else (value,))]


class Statement:
    """A statement with named parameters.

    Args:
        clause: The statement, the same for every call. Its parameters are `bindparam`s, lists for
            those that expand, and the columns of an insert or update by name.
    """

    def __init__(self, clause: Select[Any] | UpdateBase) -> None:
        self._clause = clause
        self._columns = clause.selected_columns.keys() if isinstance(clause, Select) else []
        self._compiled: dict[tuple[str | int, ...], _Sql] = {}

    def all(self, connection: Connection, values: Mapping[str, Any]) -> Sequence[Row]:
        """Return the rows that it finds, by name of column."""
        driver = sqlite_driver(connection)
        if driver is None:
            return connection.execute(self._clause, values).mappings().all()
        rows = self._run(connection, driver, values).fetchall()
        return [dict(zip(self._columns, row, strict=True)) for row in rows]

    def first(self, connection: Connection, values: Mapping[str, Any]) -> Row | None:
        """Return the first row that it finds, None when it finds none."""
        return next(iter(self.all(connection, values)), None)

    def run(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """Run it, and return how many rows it changed."""
        driver = sqlite_driver(connection)
        if driver is None:
            return int(connection.execute(self._clause, values).rowcount)
        return self._run(connection, driver, values).rowcount

    def run_all(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run it for each of the rows; all have the same columns."""
        driver = sqlite_driver(connection)
        if driver is None:
            connection.execute(self._clause, rows)
        else:
            sql = self._sql(connection, rows[0])
            driver.executemany(sql.text, map(sql.positions, rows))

    def _run(
        self, connection: Connection, driver: sqlite3.Connection, values: Mapping[str, Any]
    ) -> sqlite3.Cursor:
        sql = self._sql(connection, values)
        return driver.execute(sql.text, sql.positions(values))

    def _sql(self, connection: Connection, values: Mapping[str, Any]) -> _Sql:
        """Return the SQL for these parameters; lists of another length need other SQL."""
        form: tuple[str | int, ...] = (*values,)
        if list in map(type, values.values()):
            form += tuple(len(value) for value in values.values() if type(value) is list)
        if form not in self._compiled:
            compiled: Any = self._clause.compile(
                dialect=connection.dialect, column_keys=list(values)
            )
            text = compiled.construct_expanded_state(values).statement
            self._compiled[form] = _Sql(text, compiled.positiontup, compiled.params)
        return self._compiled[form]


def insert_unless_there(connection: Connection, table: Any, row: dict[str, Any]) -> None:
    """Insert a row unless its key is there; on PostgreSQL without a race."""
    if connection.dialect.name == "postgresql":
        connection.execute(postgres_insert(table).values(row).on_conflict_do_nothing())
    else:
        connection.execute(insert(table).values(row))
