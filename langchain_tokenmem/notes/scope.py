"""`NoteScope`: whose notes are meant, of which session and which project."""

from __future__ import annotations

from dataclasses import dataclass

from langchain_tokenmem.core.thread_names import (
    check_characters,
    namespace_label,
    notes_of_session,
    notes_of_user,
)
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.notes.note import LEVELS, NoteLevel, Project

Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoteScope:
    """User, session and project whose notes are meant; each level needs a part of them.

    Attributes:
        user_id: The user; None where the call names none: there are notes of the session alone.
        session_id: The session or thread.
        project: The project of the user.
    """

    user_id: str | None
    session_id: str | None
    project: Project

    def __post_init__(self) -> None:
        for name, what in ((self.user_id, "user_id"), (self.session_id, "session_id")):
            if name is None:
                continue
            if not isinstance(name, str) or not name.strip():
                raise ScopeError(f"{what} is {name!r}; it is a text that is not blank.")
            if what == "user_id":  # a sub-graph's session has a control character of ours
                check_characters(name, what)

    def namespace(self, level: NoteLevel) -> Namespace:
        """Return the namespace of a level.

        Raises:
            ScopeError: When the call names no session, or no user, which the level needs.
        """
        if level == "session":
            if self.session_id is None:
                raise ScopeError(
                    "A session note belongs to a session: name it with session_id, in a graph "
                    'with {"configurable": {"thread_id": "..."}}.'
                )
            return notes_of_session(self.user_id, self.session_id)
        if self.user_id is None:
            raise ScopeError(
                f"A {level} note belongs to a user: name them with user_id, in a graph with "
                '{"configurable": {"user_id": "..."}}. Where this process has one user only, '
                'declare them: Notebook(local_user="me").'
            )
        own = (*notes_of_user(self.user_id), level)
        return own if level == "global" else (*own, namespace_label(self.project.id))

    def levels(self, level: NoteLevel | None = None) -> tuple[NoteLevel, ...]:
        """Return the one level, or all that the call's user and session allow.

        Raises:
            ScopeError: When there is none.
        """
        if level is not None:
            self.namespace(level)
            return (level,)
        found = tuple(
            each
            for each in LEVELS
            if (self.session_id if each == "session" else self.user_id) is not None
        )
        if not found:
            self.namespace("global")
        return found
