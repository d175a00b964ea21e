"""Session ids of LangGraph threads and sub-graphs, and namespaces of notes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from langchain_tokenmem.errors import ScopeError

NAMESPACE_SEPARATOR = "\x1f"
"""Separates a thread's id from the names of a sub-graph; no id contains it."""

LONGEST_ID = 500
"""Maximum characters of an id."""

_MOST_BYTES = 1_000
"""Maximum UTF-8 bytes of an id: PostgreSQL limits index entries, of up to two ids, to 2.7 kB."""

_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters, line breaks, and halves of surrogate pairs, which are invalid in UTF-8."""


def thread_session(thread_id: Any, checkpoint_ns: Any = "") -> str:
    r"""Return the session of the transcript store with the messages of a thread.

    Task ids are removed from the namespace, so that each run of a sub-graph finds its session.

    Args:
        thread_id: The thread.
        checkpoint_ns: Namespace of the checkpoint, such as `"child:1f0..."`; empty for the graph
            itself.

    Returns:
        The thread's id; for a sub-graph followed by its names.

    Raises:
        ScopeError: When the thread or the namespace is not a usable name.

    Example:
        >>> thread_session("t1")
        't1'
        >>> thread_session("t1", "child:1f0-22")
        't1\x1fchild'
    """
    thread = check_thread_id(thread_id)
    if not isinstance(checkpoint_ns, str):
        raise ScopeError(f"checkpoint_ns is {checkpoint_ns!r}; it must be a string.")
    if not checkpoint_ns:
        return thread
    names = [part.split(":", 1)[0] for part in checkpoint_ns.split("|")]
    return f"{thread}{NAMESPACE_SEPARATOR}{'|'.join(names)}"


def is_subgraph_session(session_id: str) -> bool:
    """Return whether a session is that of a sub-graph."""
    return NAMESPACE_SEPARATOR in session_id


def check_thread_id(thread_id: Any) -> str:
    """Return the id of a thread as a text, as LangGraph does, after checking it.

    Raises:
        ScopeError: When it is missing or blank, or contains a control character, such as the one
            that separates a thread from its sub-graphs.
    """
    if thread_id is None or not str(thread_id).strip():
        raise ScopeError(
            f"thread_id is {thread_id!r}; every thread needs a name, such as "
            f'{{"configurable": {{"thread_id": "user-7/chat-1"}}}}.'
        )
    return check_characters(str(thread_id), "thread_id")


def check_characters(name: str, what: str) -> str:
    r"""Return the id of a thread, session or user from an application after checking it.

    The store itself also accepts the ids of sub-graphs, so that they can be read.

    Raises:
        ScopeError: When it contains a control character (`\x1f` separates sub-graphs) or a line
            break, is not valid UTF-8, or is too long.

    Example:
        >>> check_characters("user-7", "user_id")
        'user-7'
    """
    if not is_id(name):
        raise ScopeError(
            f"{what} is {name!r:.100}; an id has at most {LONGEST_ID} characters "
            f"({_MOST_BYTES:,} bytes), and no control character, line break or half of a "
            f"surrogate pair."
        )
    return name


def thread_of(session_id: str) -> str:
    r"""Return the thread of a session: the session itself, or the thread of its sub-graph.

    Example:
        >>> thread_of("t1\x1fchild")
        't1'
    """
    return session_id.partition(NAMESPACE_SEPARATOR)[0]


def is_id(name: Any) -> bool:
    """Return whether a value can be an id; a blank text is not rejected here."""
    if not isinstance(name, str) or _REFUSED.search(name) or len(name) > LONGEST_ID:
        return False
    return len(name.encode()) <= _MOST_BYTES


NOTES = ("tokenmem", "notes")
"""Prefix of the namespace of every note."""

NO_USER = "-"
"""Label of the owner if no user was named; no user has it."""

SESSION = "session"
"""The level of notes that are erased with their session."""

_OWNER, _LEVEL, _SCOPE = range(len(NOTES), len(NOTES) + 3)
_PLAIN = re.compile(r"[A-Za-z0-9_@:+/-]{1,100}")


def namespace_label(name: str) -> str:
    """Return a label for a name in a namespace, different for each name.

    Args:
        name: Any text, such as a user id.

    Returns:
        `=` and the name if it has only letters, digits and `_@:+/-`; else `#` and 32 hex digits
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
    """Return the common prefix of the namespaces of a user's notes, None for no user."""
    return (*NOTES, NO_USER if user_id is None else namespace_label(user_id))


def notes_of_session(user_id: str | None, session_id: str) -> tuple[str, ...]:
    """Return the namespace of the notes of a session."""
    return (*notes_of_user(user_id), SESSION, namespace_label(session_id))


def owner_label(namespace: Sequence[str]) -> str | None:
    """Return the label of the user whose notes are in a namespace; None if it is not for notes."""
    is_notes = tuple(namespace[: len(NOTES)]) == NOTES
    return namespace[_OWNER] if is_notes and len(namespace) > _OWNER else None


def session_label(namespace: Sequence[str]) -> str | None:
    """Return the label of the session whose notes are in a namespace, or None."""
    is_session = len(namespace) > _SCOPE and namespace[_LEVEL] == SESSION
    return namespace[_SCOPE] if is_session and owner_label(namespace) is not None else None
