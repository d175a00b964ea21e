"""Reads any source of messages in pages: chat histories, their SQL tables, plain messages."""

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


PAGE = 500
"""Messages that are read and stored at a time."""

SUMMARY = "summary"
"""Position of the message that holds the summary of the source's memory."""

_SQL_PARTS = ("sql_model_class", "converter", "session_id_field_name", "async_mode", "session_id")
"""Attributes that only langchain-community's SQLChatMessageHistory has."""


@dataclass(frozen=True)
class SourceMessage:
    """One message of a source.

    Attributes:
        message: The message.
        position: Its place, which stays the same where the source grows: a made-up id is from it.
        where: The same place in words, for errors.
    """

    message: BaseMessage
    position: str
    where: str


def pages_of(source: Any) -> Iterator[list[SourceMessage]]:
    """Yield the messages of a source, oldest first, at most `PAGE` at a time.

    Args:
        source: A chat history, or messages in any form that LangChain takes. A
            `SQLChatMessageHistory` is read from its table, whose rows its `.messages` would load
            all at once.

    Raises:
        ConfigurationError: When it is no source of messages.
        HistoryImportError: When it cannot be read on; the error names the place.
    """
    if isinstance(source, BaseChatMessageHistory):
        yield from _pages_of_history(source)
    elif isinstance(source, Iterable) and not isinstance(source, str | bytes | dict | type):
        yield from _pages_of_messages(source, "message")
    else:
        raise ConfigurationError(
            f"The source is {described(source)}; it is a BaseChatMessageHistory, or messages."
        )


def _pages_of_history(history: BaseChatMessageHistory) -> Iterator[list[SourceMessage]]:
    if not all(hasattr(history, part) for part in _SQL_PARTS):
        yield from _pages_of_messages(_messages_of(history), "message")
        return
    table: Any = history
    if table.async_mode:
        raise ConfigurationError(
            "This SQLChatMessageHistory is in async mode; open one with a sync connection to "
            "import from it."
        )
    keys = inspect(table.sql_model_class).primary_key
    if [key.name for key in keys] != ["id"]:
        yield from _pages_of_messages(_messages_of(history), "message")
        return
    yield from _pages_of_table(table)


def _messages_of(history: BaseChatMessageHistory) -> list[BaseMessage]:
    try:
        return list(history.messages)
    except Exception as error:
        raise _unreadable(error, type(history).__name__) from error


def _pages_of_messages(given: Iterable[Any], what: str) -> Iterator[list[SourceMessage]]:
    waiting, number = iter(given), 0
    while some := _next_of(waiting, f"{what} {number + 1} and after it"):
        page = []
        for one in some:
            number += 1
            where = f"{what} {number}"
            page.append(_as_source(one, str(number - 1), where))
        yield page


def _next_of(waiting: Iterator[Any], where: str) -> list[Any]:
    try:
        return list(islice(waiting, PAGE))
    except TokenMemoryError:
        raise
    except Exception as error:
        raise _unreadable(error, where) from error


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


def _pages_of_table(history: Any) -> Iterator[list[SourceMessage]]:
    """Yield the rows of a SQLChatMessageHistory by their key, each page in a short transaction.

    A page is read before it is stored, so the table may stand in the database of the store.
    """
    model, last = history.sql_model_class, None
    of_session = getattr(model, history.session_id_field_name) == history.session_id
    first_rows = select(model).where(of_session).order_by(model.id.asc()).limit(PAGE)
    table = f"table {model.__tablename__}"
    while True:
        query = first_rows if last is None else first_rows.where(model.id > last)
        page: list[SourceMessage] = []
        where = table
        try:
            with Session(history.engine) as reading:
                for row in reading.scalars(query):
                    where = f"{table}, row {row.id}"
                    message = history.converter.from_sql_model(row)
                    page.append(_as_source(message, f"row {row.id}", where))
                    last = row.id
        except TokenMemoryError:
            raise
        except Exception as error:
            raise _unreadable(error, where) from error
        if page:
            yield page
        if len(page) < PAGE:
            return


def _unreadable(error: Exception, where: str) -> HistoryImportError:
    """Return the error for a source that failed; somebody else's history may raise anything."""
    return HistoryImportError(f"The source cannot be read ({error!r:.200}).", where)
