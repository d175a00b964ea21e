"""Tools for notes: `memory` and `memorize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime

from langchain_tokenmem.adapters.tool_scope import (
    BoundScope,
    ToolScope,
    asentences,
    on_one_line,
    said_of_arguments,
    sentences,
)
from langchain_tokenmem.notes.note import Note, NoteLevel
from langchain_tokenmem.notes.notebook import Notebook
from langchain_tokenmem.notes.operations import NoteAddition, NoteOperations
from langchain_tokenmem.notes.rendering import note_line
from langchain_tokenmem.notes.store_work import StoreWork

_MOST = 100
"""Most notes of one answer."""

_LONGEST_ANSWER = 20_000
"""Most characters of one answer, about 5,000 tokens of English."""

Action = Literal["add", "get", "search", "list", "remove"]
Kind = Literal["fact", "preference", "convention", "pattern"]


def memory_tool(notebook: Notebook, bound: BoundScope) -> BaseTool:
    """Return the tool `memory`: notes are added, got, searched, listed and removed."""
    caller = _Caller(notebook, bound)

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
        scope = bound.of(runtime)
        request = _Request(action, key or id, content, query, level, tags or (), limit)
        return caller.run(request.work(caller.notes(scope)), scope)

    async def amemory(
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
        scope = bound.of(runtime)
        request = _Request(action, key or id, content, query, level, tags or (), limit)
        return await caller.arun(request.work(caller.notes(scope)), scope)

    return as_tool(memory, amemory)


def memorize_tool(notebook: Notebook, bound: BoundScope) -> BaseTool:
    """Return the tool `memorize`: a preference is kept for the user, all else for the project."""
    caller = _Caller(notebook, bound)

    def kept(notes: NoteOperations, content: str, kind: Kind, key: str | None) -> StoreWork[str]:
        level: NoteLevel = "global" if kind == "preference" else "project"
        added = yield from notes.add(content, level=level, key=key, kind=kind)
        return _saved(added)

    def memorize(  # noqa: D417  # what is injected is not the model's to know
        content: str,
        kind: Kind = "fact",
        key: str | None = None,
        runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # none in a chain
    ) -> str:
        """Remember something for later conversations, when the user asks for it or it will matter.

        Args:
            content: What to remember, in one or two sentences that stand alone.
            kind: fact, preference, convention or pattern; a preference holds in all projects.
            key: Name under which a newer note takes the place of this one.
        """
        scope = bound.of(runtime)
        return caller.run(kept(caller.notes(scope), content, kind, key), scope)

    async def amemorize(
        content: str,
        kind: Kind = "fact",
        key: str | None = None,
        runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # none in a chain
    ) -> str:
        scope = bound.of(runtime)
        return await caller.arun(kept(caller.notes(scope), content, kind, key), scope)

    return as_tool(memorize, amemorize)


@dataclass(frozen=True)
class _Request:
    """A call of the tool `memory`."""

    action: Action
    name: str | None
    content: str | None
    query: str | None
    level: NoteLevel | None
    tags: Sequence[str]
    limit: int

    def work(self, notes: NoteOperations) -> StoreWork[str]:
        """Return what it asks for, as one answer."""
        actions: dict[Action, Callable[[NoteOperations], StoreWork[str]]] = {
            "add": self._add,
            "get": self._get,
            "remove": self._remove,
            "search": self._search,
            "list": self._list,
        }
        return actions[self.action](notes)

    @property
    def most(self) -> int:
        """Most notes that the answer has."""
        return max(1, min(self.limit, _MOST))

    def _add(self, notes: NoteOperations) -> StoreWork[str]:
        if not self.content:
            return "Say what to keep: content is missing."
        level = self.level or "project"
        added = yield from notes.add(self.content, level=level, key=self.name, tags=self.tags)
        return _saved(added)

    def _get(self, notes: NoteOperations) -> StoreWork[str]:
        found = yield from notes.get(self.name or "", level=self.level)
        return _whole(found) if found is not None else self._none()

    def _remove(self, notes: NoteOperations) -> StoreWork[str]:
        gone = yield from notes.remove(self.name or "", level=self.level)
        return f"Removed {gone.id} ({gone.type})." if gone is not None else self._none()

    def _none(self) -> str:
        if not self.name:
            return "Name the note by its key or its id."
        return f'There is no note "{" ".join(self.name.split())[:80]}".'

    def _search(self, notes: NoteOperations) -> StoreWork[str]:
        asked = self.query or self.content
        if not asked:
            return "Say what to look for: query is missing."
        found = yield from notes.search([asked], level=self.level, tags=self.tags, limit=self.most)
        return _listed(found, "No note matches.")

    def _list(self, notes: NoteOperations) -> StoreWork[str]:
        found = yield from notes.listed(level=self.level, tags=self.tags, limit=self.most)
        return _listed(found, "There are no notes yet.")


@dataclass(frozen=True)
class _Caller:
    """Does what a tool asks of a notebook, in the scope of the call."""

    notebook: Notebook
    bound: BoundScope

    def notes(self, scope: ToolScope) -> NoteOperations:
        return self.notebook.operations(scope.user_id, scope.session_id, store=scope.store)

    def run(self, work: StoreWork[str], scope: ToolScope) -> str:
        return self.notebook.run(work, scope.store)

    async def arun(self, work: StoreWork[str], scope: ToolScope) -> str:
        return await self.notebook.arun(work, scope.store)


def as_tool(call: Any, acall: Any) -> BaseTool:
    """Return a tool of a function and its async form; what goes wrong is an answer."""
    acall.__doc__ = call.__doc__
    return StructuredTool.from_function(
        func=sentences(call),
        coroutine=asentences(acall),
        name=call.__name__,
        parse_docstring=True,
        handle_validation_error=said_of_arguments,
    )


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
