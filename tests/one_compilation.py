"""SQLite's statements are compiled once for all databases of a test process.

SQLAlchemy compiles each statement for each engine, and the tests open a thousand databases with ten
tables: that took 15 of 40 ms of a test with three messages.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.base import SQLiteDDLCompiler
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from langchain_tokenmem.storage.tables import metadata

_QUERIES: dict[Any, Any] = {}
_DEFINITIONS: dict[Any, SQLiteDDLCompiler] = {}


def _definition(dialect: Any, statement: Any, **options: Any) -> SQLiteDDLCompiler:
    """Compile a statement that creates, alters or drops something; ours once."""
    if not isinstance(statement, CreateTable | CreateIndex):
        return SQLiteDDLCompiler(dialect, statement, **options)
    key = statement.element, statement.if_not_exists
    if (found := _DEFINITIONS.get(key)) is None:
        found = SQLiteDDLCompiler(dialect, statement, **options)
        if getattr(statement.element, "table", statement.element).metadata is metadata:
            _DEFINITIONS[key] = found
    return found


class OneCompilation(SQLiteDialect_pysqlite):
    """SQLite as SQLAlchemy speaks it; what one engine has compiled is there for the others."""

    supports_statement_cache = True
    ddl_compiler = staticmethod(_definition)

    @classmethod
    def engine_created(cls, engine: Any) -> None:
        engine.update_execution_options(compiled_cache=_QUERIES)

    # a part of the key of a compiled statement
    def __eq__(self, other: object) -> bool:
        return isinstance(other, OneCompilation)

    def __hash__(self) -> int:
        return hash(OneCompilation)


def install() -> None:
    """Let SQLAlchemy take this dialect for the URLs of SQLite."""
    for name in ("sqlite", "sqlite.pysqlite"):
        registry.register(name, __name__, OneCompilation.__name__)
