"""Whose sessions are imported: names such as `ann--chat-1` hold the user."""

from __future__ import annotations

import re
from collections.abc import Callable

from langchain_tokenmem.errors import ConfigurationError

SessionOf = Callable[[str], str | tuple[str, str | None]]
"""Takes the name that a source has for a session; returns its id here, or also its user's."""


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
