"""To-do lists of agents: the newest one stays in view after its call is folded.

A tool call is recognized by its shape, not its name: an argument that is a list of items with a
text and a status, as in `write_todos`. Until the call is folded, the model sees the call itself;
then the list follows the running summary, whose entry keeps it, and changes only with the next
fold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langchain_tokenmem.core.inserted_text import TODOS_FENCE, fenced

TODOS_KEY = "todos"
"""State key of `TodoListMiddleware`, and the argument of its tool."""

DONE = frozenset({"completed", "complete", "done", "finished", "cancelled", "canceled", "skipped"})
"""Statuses of items that need no more work, in lower case."""

_IN_PROGRESS = frozenset({"in_progress", "in progress", "doing", "active", "started"})

_ABOUT = "The to-do list as it was last written; a later one replaces it."
_TEXTS = ("content", "text", "title", "step", "task")
_MOST_ITEMS = 25
_MOST_CHARACTERS = 120


def todos_in(value: Any) -> list[tuple[str, str]] | None:
    """Return text and status of each item of a to-do list; None if a value is not one."""
    items = value if isinstance(value, list) else [None]
    found = []
    for item in items:
        given = item if isinstance(item, Mapping) else {}
        text = next((given[key] for key in _TEXTS if isinstance(given.get(key), str)), None)
        if text is None or not isinstance(given.get("status"), str):
            return None
        found.append((" ".join(text.split()), given["status"].casefold()))
    return found


def todos_text(todos: Sequence[tuple[str, str]]) -> str:
    """Return a to-do list as text for a request, open items first; empty if all are done."""
    done = [status in DONE for _, status in todos]
    if all(done):
        return ""
    lines = [
        f"- [{_mark(status)}] {text[:_MOST_CHARACTERS]}"
        for _, (text, status) in sorted(zip(done, todos, strict=True), key=lambda pair: pair[0])
    ]
    more = [f"- (+{len(lines) - _MOST_ITEMS} more)"] if len(lines) > _MOST_ITEMS else []
    return fenced("\n".join([*lines[:_MOST_ITEMS], *more]), TODOS_FENCE, _ABOUT)


def _mark(status: str) -> str:
    return "x" if status in DONE else "~" if status in _IN_PROGRESS else " "


def todo_lists(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """Yield the texts of the to-do lists that calls have written, the newest first."""
    outcomes: dict[str | None, str] = {}  # of the calls before; some models use their ids again
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            outcomes[message.tool_call_id] = message.status
        for call in reversed(message.tool_calls if isinstance(message, AIMessage) else ()):
            has_failed = outcomes.pop(call["id"], "") == "error"
            for name, value in call["args"].items():
                todos = None if has_failed else todos_in(value)
                if todos or (todos is not None and name == TODOS_KEY):  # an empty one clears it
                    yield todos_text(todos)
