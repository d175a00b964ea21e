"""Chat histories of other memories: SQL tables, and the owners of their sessions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory

from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.imports.importing import ImportReport, Source
from langchain_tokenmem.storage.imports.sources import sessions_in, tables_in
from langchain_tokenmem.storage.transcript_store import TranscriptStore

MESSAGE_STORE = "message_store"
"""Name of the table unless an application has chosen another one."""

SessionOf = Callable[[str], str | tuple[str, str | None]]
"""Takes the name that a source has for a session; returns its id here, or also its user's."""


def sql_histories(
    engine: Any, table: str = MESSAGE_STORE, session_id: str | None = None
) -> Iterator[tuple[str, BaseChatMessageHistory]]:
    """Yield each session of a `SQLChatMessageHistory`'s table with its history.

    The database is only read: opening a history would make a table that is not there.

    Args:
        engine: SQLAlchemy's engine of the database, as `history_engine` gives it.
        table: The table.
        session_id: Only this session.

    Raises:
        ConfigurationError: When table or session is not there, or langchain-community is not
            installed.
    """
    there = tables_in(engine)
    if table not in there:
        raise ConfigurationError(
            f"The database has no table {table!r}; name the one of its histories with --table. "
            f"There are: {', '.join(sorted(there)) or 'none'}."
        )
    found = sessions_in(engine, table)
    if session_id is not None and session_id not in found:
        raise ConfigurationError(f"Table {table!r} has no session {session_id!r}.")
    history = _sql_history_class()
    names = found if session_id is None else [session_id]
    for name in names:
        yield name, history(name, table_name=table, connection=engine)


def import_histories(
    store: TranscriptStore,
    histories: Iterable[tuple[str, Source]],
    session_of: SessionOf | None = None,
) -> list[ImportReport]:
    """Import chat histories as sessions of a store, each with its owner.

    Args:
        store: The store.
        histories: Names of sessions with their histories, such as `sql_histories` yields.
        session_of: Takes such a name; returns the session's id, or a pair of it and the user's id.
            Default: the name is the id, and the session has no owner.

    Raises:
        ScopeError: When a session of that id belongs to another user.
        HistoryImportError: When a message cannot be imported; earlier sessions stay imported.

    Example:
        >>> from langchain_tokenmem import TranscriptStore
        >>> store = TranscriptStore("sqlite://")
        >>> histories = [("ann--1", [("human", "hi")])]
        >>> owner = lambda name: (name, name.partition("--")[0])
        >>> [report.session_id for report in import_histories(store, histories, owner)]
        ['ann--1']
        >>> store.sessions(user_id="ann")
        ['ann--1']
    """
    done = []
    for name, history in histories:
        session_id, user_id = session_and_owner(name, session_of)
        done.append(store.import_history(history, session_id, user_id=user_id))
    return done


def session_and_owner(name: str, session_of: SessionOf | None) -> tuple[str, str | None]:
    """Return the ids of a session and its user; the name itself and nobody without a function."""
    found = name if session_of is None else session_of(name)
    return (found, None) if isinstance(found, str) else found


def by_pattern(pattern: str) -> SessionOf:
    """Return a function that reads the user in a session's name.

    Args:
        pattern: A regular expression of whole names. Its group `user` is the user; its group
            `session`, if it has one, the session's id instead of the whole name.

    Raises:
        ConfigurationError: When it is no regular expression, or has no group `user`; the function
            raises it for a name that does not match, so that no session is left without an owner.

    Example:
        >>> by_pattern("(?P<user>.+?)--.+")("ann--chat-1")
        ('ann--chat-1', 'ann')
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"{pattern!r} is no regular expression: {error}.") from error
    if "user" not in compiled.groupindex:
        raise ConfigurationError(
            f"{pattern!r} has no group for the user; write it as (?P<user>.+?)--.+"
        )

    def session_of(name: str) -> tuple[str, str | None]:
        found = compiled.fullmatch(name)
        if found is None:
            raise ConfigurationError(
                f"Session {name!r} does not match {pattern!r}, so its owner is not known. Widen "
                f"the pattern, and run the import again: what is imported stays as it is."
            )
        own = found.groupdict()
        return own.get("session") or name, own["user"]

    return session_of


def _sql_history_class() -> Any:
    """Import langchain-community, which warns that nobody maintains it any more."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*langchain-community", DeprecationWarning)
            from langchain_community.chat_message_histories import (  # noqa: PLC0415
                SQLChatMessageHistory,
            )
    except ImportError as error:
        raise ConfigurationError(
            f"To read SQL histories langchain-community is needed ({error.name or error}): "
            f"pip install 'langchain-tokenmem[community]'."
        ) from error
    return SQLChatMessageHistory
