"""Tools for notes: `memory` and `memorize`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime

from langchain_tokenmem.adapters.tool_scope import BoundScope, ToolScope, as_tool, on_one_line
from langchain_tokenmem.notes.kept_notes import note_line
from langchain_tokenmem.notes.note import Note, NoteKind, NoteLevel
from langchain_tokenmem.notes.notebook import Notebook
from langchain_tokenmem.notes.scoped_notes import NoteAddition, ScopedNotes

_MOST = 100
"""Most notes of one answer."""

_LONGEST_ANSWER = 20_000
"""Most characters of one answer, about 5,000 tokens of English."""

Action = Literal["add", "get", "search", "list", "remove"]


def memory_tool(notebook: Notebook, bound: BoundScope) -> BaseTool:
    """Return the tool `memory`: notes are added, got, searched, listed and removed."""

    def memory(  # noqa: D417  # what is injected is not the model's to know
        action: Action,
        key: str | None = None,
        id: str | None = None,  # noqa: A002
        content: str | None = None,
        query: str | None = None,
        level: NoteLevel | None = None,
        tags: list[str] | None = None,
        limit: int = 20,
        runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # none in a chain
    ) -> str:
        """Keep short notes across conversations, and find them again.

        Args:
            action: add, get, search, list or remove.
            key: Name of the note; a new note of the same key takes the place of the old one.
            id: Id of the note, such as mem_1a2b3c4d, in the place of its key.
            content: What to keep, in one or two sentences, for add.
            query: What to look for, for search.
            level: session (this conversation), project (the default), or global (this user).
            tags: Words to find it by; for search and list the notes must have them.
            limit: Most notes of an answer.
        """
        notes = _notes_of(notebook, bound.of(runtime))
        if action == "add":
            wanted = level or "project"
            return _add(notes, content, level=wanted, key=key or id, tags=tags or ())
        if action in {"get", "remove"}:
            return _get_or_remove(notes, action, key or id, level)
        choice: dict[str, Any] = {
            "level": level,
            "tags": tags or (),
            "limit": max(1, min(limit, _MOST)),
        }
        if action == "list":
            return _listed(notes.listed(**choice), "There are no notes yet.")
        asked = query or content
        if not asked:
            return "Say what to look for: query is missing."
        return _listed(notes.search([asked], **choice), "No note matches.")

    return as_tool(memory)


def memorize_tool(notebook: Notebook, bound: BoundScope) -> BaseTool:
    """Return the tool `memorize`: a preference is kept for the user, all else for the project."""

    def memorize(  # noqa: D417  # what is injected is not the model's to know
        content: str,
        kind: NoteKind = "fact",
        key: str | None = None,
        runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # none in a chain
    ) -> str:
        """Remember something for later conversations, when the user asks for it or it will matter.

        Args:
            content: What to remember, in one or two sentences that stand alone.
            kind: fact, preference, convention or pattern; a preference holds in all projects.
            key: Name under which a newer note takes the place of this one.
        """
        level: NoteLevel = "global" if kind == "preference" else "project"
        notes = _notes_of(notebook, bound.of(runtime))
        return _add(notes, content, level=level, key=key, kind=kind)

    return as_tool(memorize)


def _notes_of(notebook: Notebook, scope: ToolScope) -> ScopedNotes:
    """Return the notes of a call's scope."""
    book = notebook if scope.store is None else notebook.with_store(scope.store)
    return book.scoped(scope.user_id, scope.session_id, by="tool")


def _add(notes: ScopedNotes, content: str | None, **options: Any) -> str:
    if not content:
        return "Say what to keep: content is missing."
    return _saved(notes.add(content, **options))


def _get_or_remove(
    notes: ScopedNotes, action: Action, name: str | None, level: NoteLevel | None
) -> str:
    operation = notes.get if action == "get" else notes.remove
    note = operation(name or "", level=level)
    if note is not None:
        return _whole(note) if action == "get" else f"Removed {note.id} ({note.type})."
    if not name:
        return "Name the note by its key or its id."
    return f'There is no note "{" ".join(name.split())[:80]}".'


def _saved(added: NoteAddition) -> str:
    """Return one line about a note that was added: `Saved mem_1a2b3c4d (project, key "build")."""
    note = added.note
    about: list[str] = [note.type]
    if note.key is not None:
        about.append(f'key "{note.key}"')
    if note.tags:
        about.append(f"tags: {', '.join(note.tags)}")
    line = f"{'Saved' if added.is_stored else 'Known already:'} {note.id} ({', '.join(about)})."
    if added.replaced is not None:
        line += f" It takes the place of {added.replaced.id}."
    if added.dropped:
        names = ", ".join(each.id for each in added.dropped)
        line += f" The level was full: the oldest went, {names}."
    return line


def _whole(note: Note) -> str:
    key = f' key "{note.key}"' if note.key is not None else ""
    about = f"{note.id} ({note.type}{key}, {note.updated_at:%Y-%m-%d})"
    return f"{about}: {on_one_line(note.content)}"[:_LONGEST_ANSWER]


def _listed(notes: Sequence[Note], nothing: str) -> str:
    lines = "\n".join(map(note_line, notes)) or nothing
    if len(lines) <= _LONGEST_ANSWER:
        return lines
    return f"{lines[:_LONGEST_ANSWER]} ...\n[{len(notes)} notes; ask for fewer with limit=.]"
