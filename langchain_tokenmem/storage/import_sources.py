"""Sources of messages: chat histories, their SQL tables, and plain messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage
from sqlalchemy import Engine, column, create_engine, func, inspect, select, table
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from langchain_tokenmem.core.argument_checks import as_messages, described
from langchain_tokenmem.errors import (
    ConfigurationError,
    HistoryImportError,
    StoreError,
    TokenMemoryError,
)


@contextmanager
def history_engine(address: Any) -> Iterator[Engine]:
    """Yield an engine for a database that is only read.

    Args:
        address: The database, as SQLAlchemy's URL.

    Raises:
        StoreError: When it cannot be opened or read.
    """
    engine = create_engine(address)
    try:
        yield engine
    except SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or error).partition("\n")[0]
        raise StoreError(f"The source cannot be read ({cause:.300}).") from error
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


PAGE = 500
"""Messages per page."""

_SQL_PARTS = ("sql_model_class", "converter", "session_id_field_name", "async_mode", "session_id")
"""Attributes that only langchain-community's SQLChatMessageHistory has."""


@dataclass(frozen=True)
class SourceMessage:
    """One message of a source.

    Attributes:
        message: The message.
        position: Its place, which stays the same when the source grows; generated ids use it.
        where: The same place as text, for errors.
    """

    message: BaseMessage
    position: str
    where: str


def messages_of(source: Any) -> Iterator[SourceMessage]:
    """Yield the messages of a source, oldest first; at most `PAGE` are read at a time.

    Args:
        source: A chat history, or messages in any form that LangChain accepts. A
            `SQLChatMessageHistory` is read from its table: its `.messages` would load all rows at
            once.

    Raises:
        ConfigurationError: When it is not a source of messages.
        HistoryImportError: When it cannot be read any further; the error names the place.
    """
    if isinstance(source, BaseChatMessageHistory):
        source = _history_messages(source)
    elif not isinstance(source, Iterable) or isinstance(source, str | bytes | dict | type):
        raise ConfigurationError(
            f"The source is {described(source)}; it is a BaseChatMessageHistory, or messages."
        )
    waiting, number = iter(source), 0
    while True:
        with _reading(f"message {number + 1} and after it"):
            some = list(islice(waiting, PAGE))
        if not some:
            return
        for n, one in enumerate(some, number):
            yield _as_source(one, str(n), f"message {n + 1}")
        number += len(some)


def _history_messages(history: Any) -> Iterable[Any]:
    is_sql = all(hasattr(history, part) for part in _SQL_PARTS)
    if is_sql and history.async_mode:
        raise ConfigurationError(
            "This SQLChatMessageHistory is in async mode; open one with a sync connection to "
            "import from it."
        )
    if is_sql and [key.name for key in inspect(history.sql_model_class).primary_key] == ["id"]:
        return _rows_of(history)
    with _reading(type(history).__name__):
        return list(history.messages)


def _rows_of(history: Any) -> Iterator[SourceMessage]:
    """Yield the rows of a SQLChatMessageHistory by key, each page in a short transaction.

    Each page is read completely before it is stored, so the table may be in the store's own
    database.
    """
    model = history.sql_model_class
    of_session = getattr(model, history.session_id_field_name) == history.session_id
    query = select(model).where(of_session).order_by(model.id.asc()).limit(PAGE)
    table, page = f"table {model.__tablename__}", query
    while True:
        found: list[SourceMessage] = []
        with _reading(table), Session(history.engine) as reading:
            for row in reading.scalars(page):
                where, last = f"{table}, row {row.id}", row.id
                with _reading(where):
                    message = history.converter.from_sql_model(row)
                found.append(_as_source(message, f"row {last}", where))
        yield from found
        if len(found) < PAGE:
            return
        page = query.where(model.id > last)


def _as_source(one: Any, position: str, where: str) -> SourceMessage:
    if isinstance(one, SourceMessage):
        return one
    if isinstance(one, BaseMessage):
        return SourceMessage(one, position, where)
    try:
        (message,) = as_messages([one])
    except ConfigurationError as error:
        raise HistoryImportError(str(error), where) from error
    return SourceMessage(message, position, where)


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Raise errors that name the place; a third-party history may raise anything."""
    try:
        yield
    except TokenMemoryError:
        raise
    except Exception as error:
        raise HistoryImportError(f"The source cannot be read ({error!r:.200}).", where) from error
