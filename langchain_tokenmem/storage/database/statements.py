"""Statements that every turn runs: SQLAlchemy writes them, and on SQLite its driver runs them.

To store a checkpoint takes a dozen small statements. SQLite needs about 5 microseconds for one,
and what SQLAlchemy does around it 30 more; so the SQL is written once for each form, and the
driver's connection, which SQLAlchemy holds, runs it in the same transaction. On PostgreSQL, where
the server is further away than that, SQLAlchemy runs it as usual.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Connection, Select, UpdateBase
from sqlalchemy.sql.visitors import iterate

from langchain_tokenmem.storage.database.database import sqlite_driver

Row = Mapping[Any, Any]


class _Form(NamedTuple):
    """SQL for parameters of one shape, and how the driver takes them."""

    sql: str
    positions: Callable[[Mapping[str, Any]], Sequence[Any]]


class Statement:
    """A statement with named parameters.

    Args:
        clause: The statement, the same for every call. Its parameters are `bindparam`s, lists for
            those that expand, and the columns of an insert or update by name.
    """

    def __init__(self, clause: Select[Any] | UpdateBase) -> None:
        self._clause = clause
        parameters = (one for one in iterate(clause) if isinstance(one, BindParameter))
        self._expands = any(one.expanding for one in parameters)
        self._columns = clause.selected_columns.keys() if isinstance(clause, Select) else []
        self._forms: dict[tuple[str | int, ...], _Form] = {}

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
            form = self._form(connection, rows[0])
            driver.executemany(form.sql, map(form.positions, rows))

    def _run(
        self, connection: Connection, driver: sqlite3.Connection, values: Mapping[str, Any]
    ) -> sqlite3.Cursor:
        form = self._form(connection, values)
        return driver.execute(form.sql, form.positions(values))

    def _form(self, connection: Connection, values: Mapping[str, Any]) -> _Form:
        shape: tuple[str | int, ...] = tuple(values)
        if self._expands:
            shape += tuple(len(one) for one in values.values() if type(one) is list)
        form = self._forms.get(shape)
        if form is None:
            form = self._forms[shape] = self._written(connection, values)
        return form

    def _written(self, connection: Connection, values: Mapping[str, Any]) -> _Form:
        compiled: Any = self._clause.compile(dialect=connection.dialect, column_keys=list(values))
        sql = compiled.construct_expanded_state(values).statement
        names = compiled.positiontup
        if not self._expands and len(names) > 1 and values.keys() >= set(names):
            return _Form(sql, itemgetter(*names))
        return _Form(sql, partial(_flat, names, compiled.params))


def _flat(names: Sequence[str], own: Mapping[str, Any], values: Mapping[str, Any]) -> list[Any]:
    """Return parameters in the order of their names; what is not given is the statement's own."""
    flat: list[Any] = []
    for name in names:
        value = values[name] if name in values else own[name]
        if type(value) is list:
            flat += value
        else:
            flat.append(value)
    return flat
