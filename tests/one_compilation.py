"""SQLite's statements are compiled once for all databases of a test process.

SQLAlchemy compiles each statement for each engine, and the tests open a thousand databases with ten
tables: that took 15 of 40 ms of a test with three messages.
"""

from functools import cache
from typing import Any

from sqlalchemy import Connection, MetaData, create_mock_engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from langchain_tokenmem.storage.tables import metadata

_QUERIES: dict[Any, Any] = {}


class OneCompilation(SQLiteDialect_pysqlite):
    """SQLite as SQLAlchemy speaks it; what one engine has compiled is there for the others."""

    supports_statement_cache = True

    @classmethod
    def engine_created(cls, engine: Any) -> None:
        engine.update_execution_options(compiled_cache=_QUERIES)

    # a part of the key of a compiled statement
    def __eq__(self, other: object) -> bool:
        return isinstance(other, OneCompilation)

    def __hash__(self) -> int:
        return hash(OneCompilation)


@cache
def _definitions() -> list[str]:
    """Return the statements that create the tables and indexes of the package."""
    found: list[str] = []
    engine = create_mock_engine(
        "sqlite://", lambda one, *_: found.append(str(one.compile(dialect=engine.dialect)))
    )
    MetaData.create_all(metadata, engine, checkfirst=False)
    return found


def _create_all(bind: Any, **options: Any) -> None:
    if isinstance(bind, Connection) and isinstance(bind.dialect, OneCompilation):
        cursor = bind.connection.cursor()
        for statement in _definitions():
            cursor.execute(statement)
        cursor.close()
    else:
        MetaData.create_all(metadata, bind, **options)


def install() -> None:
    """Let SQLAlchemy take this dialect for the URLs of SQLite."""
    for name in ("sqlite", "sqlite.pysqlite"):
        registry.register(name, __name__, OneCompilation.__name__)
    metadata.create_all = _create_all
