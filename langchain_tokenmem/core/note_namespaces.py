"""Namespaces of notes in a LangGraph `BaseStore`: one rule for who writes, finds and erases them.

`("tokenmem", "notes", owner, level, scope)`: the owner is the label of a user, the scope that of a
session or a project; global notes have none. A label never holds what `BaseStore` refuses.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

NOTES = ("tokenmem", "notes")
"""Begins the namespace of every note."""

NO_USER = "-"
"""Label of the owner where no user was named; no user has it."""

SESSION = "session"
"""The level of notes that are erased with their session."""

_OWNER, _LEVEL, _SCOPE = range(len(NOTES), len(NOTES) + 3)
_PLAIN = re.compile(r"[A-Za-z0-9_@:+/-]{1,100}")


def namespace_label(name: str) -> str:
    """Return a name as a label of a namespace: never the same for two names.

    Args:
        name: Any text, such as a user id.

    Returns:
        `=` and the name where it has letters, digits and `_@:+/-` only; else `#` and 32 hex digits
        of its SHA-256.

    Example:
        >>> namespace_label("ann")
        '=ann'
        >>> namespace_label("ann@example.com")
        '#71d4f55f72fa128dfb468a1a3901507c'
    """
    if _PLAIN.fullmatch(name):
        return f"={name}"
    return f"#{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def notes_of_user(user_id: str | None) -> tuple[str, ...]:
    """Return the beginning of the namespaces of all notes of a user, None for those of nobody."""
    return (*NOTES, NO_USER if user_id is None else namespace_label(user_id))


def notes_of_session(user_id: str | None, session_id: str) -> tuple[str, ...]:
    """Return the namespace of the notes of a session."""
    return (*notes_of_user(user_id), SESSION, namespace_label(session_id))


def owner_label(namespace: Sequence[str]) -> str | None:
    """Return the label of the user whose notes a namespace holds; None where it holds no notes."""
    is_notes = tuple(namespace[: len(NOTES)]) == NOTES
    return namespace[_OWNER] if is_notes and len(namespace) > _OWNER else None


def session_label(namespace: Sequence[str]) -> str | None:
    """Return the label of the session whose notes a namespace holds, None where there is none."""
    is_session = len(namespace) > _SCOPE and namespace[_LEVEL] == SESSION
    return namespace[_SCOPE] if is_session and owner_label(namespace) is not None else None
