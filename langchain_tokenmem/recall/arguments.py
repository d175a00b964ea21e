"""Checks the arguments of a recall: scopes, times, token counters and documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import Any

from langchain_core.documents import Document

from langchain_tokenmem.core.message_times import moment_of
from langchain_tokenmem.core.messages import text_digest
from langchain_tokenmem.core.search_units import IndexSource, Scope
from langchain_tokenmem.errors import ConfigurationError, RecallError, ScopeError


def checked_counter(count_tokens: Callable[[str], int]) -> Callable[[str], int]:
    """Wrap an application's counter, so that its errors are not mistaken for the store's."""

    def counted(text: str) -> int:
        try:
            return count_tokens(text)
        except Exception as error:
            raise RecallError(f"Recall could not search: count_tokens raised {error!r}.") from error

    return counted


def scope_of(session_id: str | None, user_id: str | None, scope: str) -> Scope:
    """Return the scope whose texts may be found.

    Args:
        session_id: The session that asks.
        user_id: The user who asks.
        scope: `session` or `user`.

    Raises:
        ScopeError: When an id that the scope needs is missing.
    """
    if scope not in {"session", "user"}:
        raise ScopeError(f'scope is {scope!r}; it is "session" or "user".')
    if scope == "user" and not (isinstance(user_id, str) and user_id.strip()):
        raise ScopeError('scope="user" searches all sessions of a user: name user_id=, too.')
    is_named = isinstance(session_id, str) and session_id.strip()
    if not is_named and (scope == "session" or session_id is not None):
        raise ScopeError(
            f"session_id is {session_id!r}; nothing is searched without a scope: name the session, "
            f'or scope="user" and the user.'
        )
    return Scope(session_id or "", user_id, scope == "user")


def time_of(given: datetime | date | str | None, name: str) -> datetime | None:
    """Return a time in UTC, or None if none is given.

    Raises:
        ConfigurationError: When it is not a time; the error names the argument.
    """
    if given is None:
        return None
    found = _moment_of(given) if isinstance(given, date | str) else None
    if found is None:
        raise ConfigurationError(
            f"{name} is {given!r}; give a datetime, a date, or either in ISO 8601 (2026-03-01)."
        )
    return found


def check_document_ids(sources: Iterable[IndexSource]) -> None:
    """Check that no document would replace another one of the same call, as in Chroma and FAISS.

    Raises:
        ConfigurationError: When two different texts have one id.
    """
    texts: dict[str, str] = {}
    for source in sources:
        if texts.setdefault(source.source_id, source.text) != source.text:
            raise ConfigurationError(
                f"Two documents have the id {source.source_id!r}, and nothing was added. Give each "
                f'its own id; parts of one document share metadata["document_id"].'
            )


def document_source(
    document: Document, session_id: str | None, user_id: str | None, now: datetime
) -> IndexSource:
    """Return a document in the form in which it is stored.

    Args:
        document: The document; without an id it gets one derived from its content and from the
            document that it is part of.
        session_id: The session that it belongs to.
        user_id: Its user.
        now: Its time, if its metadata has no `created_at`.

    Raises:
        ConfigurationError: When it is not a document, or its `created_at` is not a time.
    """
    if not isinstance(document, Document):
        raise ConfigurationError(
            f"{type(document).__name__} is not a document; create one with "
            f"langchain_core.documents.Document(page_content=..., id=...)."
        )
    whole = document.metadata.get("document_id")
    text = f"{whole}\n{document.page_content}" if whole else document.page_content
    return IndexSource(
        seq=0,
        text=document.page_content,
        role="document",
        created_at=_created_at(document, now),
        source_id=document.id or f"doc-{text_digest(text)}",
        session_id=session_id,
        user_id=user_id,
        metadata=document.metadata,
    )


def _created_at(document: Document, now: datetime) -> datetime:
    given = document.metadata.get("created_at")
    if given is None:
        return now
    found = _moment_of(given)
    if found is None:
        raise ConfigurationError(
            f'metadata["created_at"] of document {document.id!r} is {given!r}; give a datetime, '
            f"ISO 8601 or seconds since 1970."
        )
    return found


def _moment_of(given: Any) -> datetime | None:
    """Return a time in UTC, of a date its first moment; None if it is not a time."""
    is_day = isinstance(given, date) and not isinstance(given, datetime)
    return moment_of(given.isoformat() if is_day else given)
