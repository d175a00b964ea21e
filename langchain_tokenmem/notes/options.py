"""Keyword arguments of a notebook's methods."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import TypedDict

from langchain_tokenmem.notes.note import NoteKind, NoteLevel


class NoteOwner(TypedDict, total=False):
    """User and session whose notes are meant.

    Attributes:
        user_id: The user; for notes of a session it may be missing.
        session_id: The session or thread.
    """

    user_id: str | None
    session_id: str | None


class NewNote(NoteOwner, total=False):
    """Options of a new note; each may be left out.

    Attributes:
        level: `session`, `project` (the default) or `global`.
        key: Its name: a note of the same key, level and scope is overwritten.
        kind: `fact`, `preference`, `convention` or `pattern`.
        tags: Words to find it by, in front of those that are found in its content.
        source: Number of the message that it was taken from.
    """

    level: NoteLevel
    key: str | None
    kind: NoteKind | None
    tags: Iterable[str]
    source: int | None


class NoteChoice(NoteOwner, total=False):
    """Options that choose a note; each may be left out.

    Attributes:
        level: Its level; default: the nearest one that has it, session before project before
            global.
    """

    level: NoteLevel | None


class NotesChoice(NoteChoice, total=False):
    """Options that choose notes; each may be left out.

    Attributes:
        tags: Tags that they all must have, capitals aside.
        limit: Most notes.
    """

    tags: Iterable[str]
    limit: int
