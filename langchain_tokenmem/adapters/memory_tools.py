"""`memory_tools`: tools by which an agent keeps notes, pins texts and searches its history."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command

from langchain_tokenmem.adapters.agent_tools import memory_state_in
from langchain_tokenmem.adapters.history_search import HistorySearch, SearchBy
from langchain_tokenmem.adapters.run_context import state_in_run
from langchain_tokenmem.adapters.tool_scope import (
    NO_SESSION_STORE,
    BoundScope,
    ToolScope,
    as_tool,
    on_one_line,
)
from langchain_tokenmem.core.argument_checks import checked, text_as_kept
from langchain_tokenmem.core.pins import PINS_CHANNEL, new_pin, pin_named, with_pins
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.notes.kept_notes import note_line
from langchain_tokenmem.notes.note import Note, NoteKind, NoteLevel
from langchain_tokenmem.notes.notebook import Notebook
from langchain_tokenmem.notes.scoped_notes import NoteAddition, ScopedNotes
from langchain_tokenmem.notes.sql_store import SqlStore
from langchain_tokenmem.recall.recall import Recall
from langchain_tokenmem.state import Pin, new_state
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.turns.stored_session import SessionPins

MemoryToolName = Literal["memory", "memorize", "pin_context", "history_search"]

MEMORY_TOOLS: frozenset[str] = frozenset(get_args(MemoryToolName))


def memory_tools(
    notebook: Notebook | None = None,
    *,
    include: Collection[MemoryToolName] = ("memory", "memorize", "pin_context", "history_search"),
    session_id: str | None = None,
    user_id: str | None = None,
    recall: Recall | None = None,
    store: TranscriptStore | None = None,
    name: str = "memory",
    messages_key: str = "messages",
) -> list[BaseTool]:
    """Return tools for notes, pins and the history of a conversation.

    In a graph or an agent a call's scope is that of the run: `thread_id` and `user_id` of its
    config. For chains, `session_id` and `user_id` bind it instead. No argument of a model reaches
    beyond it. Errors are returned as answers, never raised.

    Args:
        notebook: Keeps the notes; default: `Notebook()`, on the store of the running graph.
        include: Names of the tools.
        session_id: Session of a chain.
        user_id: User of a chain.
        recall: Searches the transcript of its store; without it the graph's own messages are
            searched.
        store: Has the transcript and the pins of a chain's session; default: that of `recall`, else
            the one whose database a `SqlStore` of the notebook uses.
        name: Name of the memory in a graph: the middleware's name, or the state key of nodes.
        messages_key: State key of the messages.

    Raises:
        ConfigurationError: When `include` names an unknown tool.

    Example:
        >>> from langgraph.store.memory import InMemoryStore
        >>> tools = memory_tools(Notebook(InMemoryStore()), user_id="ann", include={"memorize"})
        >>> tools[0].invoke({"content": "Use tabs.", "kind": "preference"})
        'Saved mem_3daa6bb3 (global).'
    """
    line = "memory_tools(Notebook(store))"
    notes = Notebook() if notebook is None else checked(notebook, Notebook, "notebook", line)
    unknown = sorted({*include} - MEMORY_TOOLS)
    if unknown or isinstance(include, str):
        raise ConfigurationError(
            f"include is {include!r}; it must be some of {', '.join(sorted(MEMORY_TOOLS))}."
        )
    bound = BoundScope(user_id, session_id)
    beside_notes = notes.store.store if isinstance(notes.store, SqlStore) else None
    kept = store or (recall.store if recall is not None else beside_notes)
    tools = _MemoryTools(notes, bound, HistorySearch(recall, kept, messages_key), kept, name)
    return [as_tool(getattr(tools, one)) for one in get_args(MemoryToolName) if one in include]


_MOST = 100
"""Maximum notes of one answer."""

_LONGEST_ANSWER = 20_000
"""Maximum characters of one answer, about 5,000 tokens of English."""

Action = Literal["add", "get", "search", "list", "remove"]
PinAction = Literal["pin", "unpin", "list"]


@dataclass(frozen=True)
class _MemoryTools:
    """The tools, one method each: a model reads its name, arguments and docstring.

    Attributes:
        notebook: Keeps the notes.
        bound: Scope that the application has bound.
        history: Searches the conversation.
        store: Store that keeps a session's pins in a chain; a graph keeps them in its state.
        name: Name of the memory: the middleware's name, or the state key of nodes.
    """

    notebook: Notebook
    bound: BoundScope
    history: HistorySearch
    store: TranscriptStore | None
    name: str

    def memory(  # noqa: D417  # the model does not know what is injected
        self,
        action: Action,
        key: str | None = None,
        id: str | None = None,
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
            key: Name of the note; a new note with the same key replaces the old one.
            id: Id of the note, such as mem_1a2b3c4d, instead of its key.
            content: What to keep, in one or two sentences, for add.
            query: What to look for, for search.
            level: session (this conversation), project (the default), or global (this user).
            tags: Words to find it by; for search and list the notes must have them.
            limit: Most notes of an answer.
        """
        notes = self._notes(runtime)
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

    def memorize(  # noqa: D417  # the model does not know what is injected
        self,
        content: str,
        kind: NoteKind = "fact",
        key: str | None = None,
        runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # none in a chain
    ) -> str:
        """Remember something for later conversations, when the user asks for it or it will matter.

        Args:
            content: What to remember, in one or two sentences that stand alone.
            kind: fact, preference, convention or pattern; a preference holds in all projects.
            key: Name of the note; a newer note with the same name replaces it.
        """
        level: NoteLevel = "global" if kind == "preference" else "project"
        notes = self._notes(runtime)
        return _add(notes, content, level=level, key=key, kind=kind)

    def pin_context(  # noqa: D417  # the model does not know what is injected
        self,
        text: str = "",
        action: PinAction = "pin",
        runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # none in a chain
    ) -> Any:
        """Keep a text in view for the rest of this conversation, also when the rest is summarized.

        Args:
            text: The text to pin. To unpin: its id, or the same text.
            action: pin, unpin or list.
        """
        scope = self.bound.of(runtime)
        if action != "list" and not text.strip():
            return "Say what to pin or unpin: text is empty."
        text = text_as_kept(self.notebook.before_store, text) if text else text
        if scope.call_id is not None and scope.state:
            return _in_state(scope, text, action, self.name)
        if scope.session_id is None:
            raise ScopeError("There is no session here to pin to.")
        if self.store is None:
            raise ConfigurationError(NO_SESSION_STORE)
        pins = SessionPins(self.store, scope.session_id, scope.user_id, by="tool")
        answer, change = _pin_change(pins.pins(), text, action)
        if change is not None:
            key, pin = change
            _ = pins.unpin(key) if pin is None else pins.pin(text)
        return answer

    def history_search(  # noqa: D417  # the model does not know what is injected
        self,
        pattern: str,
        by: SearchBy = "regex",
        limit: int = 20,
        runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # none in a chain
    ) -> str:
        """Search everything in this conversation, including what is no longer shown.

        Args:
            pattern: A case-insensitive regular expression; or words, with by="words".
            by: regex for the newest messages that match, words for the best ones.
            limit: Maximum number of messages.
        """
        return self.history.answer(self.bound.of(runtime), pattern, by, limit)

    def _notes(self, runtime: ToolRuntime[Any, Any] | None) -> ScopedNotes:
        """Return the notes of a call's scope."""
        scope = self.bound.of(runtime)
        user_id, session_id = scope.user_id, scope.session_id
        return self.notebook.scoped(user_id, session_id, by="tool", store=scope.store)


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
    line = f"{'Saved' if added.is_stored else 'Already known:'} {note.id} ({', '.join(about)})."
    if added.replaced is not None:
        line += f" It replaces {added.replaced.id}."
    if added.dropped:
        names = ", ".join(each.id for each in added.dropped)
        line += f" The level was full, so the oldest was removed: {names}."
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


def _in_state(scope: ToolScope, text: str, action: PinAction, name: str) -> Command[Any] | str:
    """Pin in the state of the running graph, which forks with it."""
    memory = memory_state_in(dict(scope.state), name) or new_state()
    channel = scope.state.get(PINS_CHANNEL) or state_in_run(PINS_CHANNEL)
    answer, change = _pin_change(with_pins(memory, channel).get("pins", []), text, action)
    if change is None:
        return answer
    message = ToolMessage(answer, tool_call_id=scope.call_id or "")
    return Command(update={PINS_CHANNEL: dict([change]), "messages": [message]})


def _pin_change(
    held: Sequence[Pin], text: str, action: PinAction
) -> tuple[str, tuple[str, Pin | None] | None]:
    """Return the answer, and the change: a pin by its id, None to unpin; None for no change."""
    if action == "list":
        return _listed_pins(held), None
    if action == "pin":
        pin = new_pin(text, by="tool")
        known = pin_named(held, pin["id"])
        answer = f"Pinned {pin['id']}: {on_one_line((known or pin)['text'])}"
        return answer, None if known else (pin["id"], pin)
    found = pin_named(held, text)
    if found is None:
        return f'There is no pin "{" ".join(text.split())[:80]}".', None
    if found["by"] != "tool":
        return f"{found['id']} was pinned by the application; it stays.", None
    return f"Unpinned {found['id']}.", (found["id"], None)


def _listed_pins(pins: Sequence[Pin]) -> str:
    lines = (f"- {on_one_line(pin['text'])} [{pin['id']}]" for pin in pins)
    return "\n".join(lines) or "Nothing is pinned."
