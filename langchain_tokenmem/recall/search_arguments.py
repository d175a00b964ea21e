"""Checks of the arguments of a search: its scope, its times and its token counter."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime

from langchain_tokenmem.core.search_units import Scope
from langchain_tokenmem.errors import ConfigurationError, RecallError, ScopeError
from langchain_tokenmem.storage.message_json import moment_of


def checked_counter(count_tokens: Callable[[str], int]) -> Callable[[str], int]:
    """Wrap an application's counter, so that its errors are not mistaken for the store's."""

    def counted(text: str) -> int:
        try:
            return count_tokens(text)
        except Exception as error:
            raise RecallError(f"Recall could not search: count_tokens raised {error!r}.") from error

    return counted


def scope_of(session_id: str | None, user_id: str | None, scope: str) -> Scope:
    """Return whose texts may be found.

    Args:
        session_id: The session that asks.
        user_id: The user who asks.
        scope: `session` or `user`.

    Raises:
        ScopeError: When what the scope needs is not named.
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
    """Return a time in UTC; None for none.

    Raises:
        ConfigurationError: When it is no time; the error names the argument.
    """
    if given is None:
        return None
    if isinstance(given, date) and not isinstance(given, datetime):
        given = given.isoformat()
    found = moment_of(given) if isinstance(given, datetime | str) else None
    if found is None:
        raise ConfigurationError(
            f"{name} is {given!r}; give a datetime, a date, or either in ISO 8601 (2026-03-01)."
        )
    return found
