"""Notes, pins and their tools."""

from __future__ import annotations

from typing import assert_type

from langchain_core.tools import BaseTool
from langgraph.store.base import BaseStore
from langgraph.types import Command

from langchain_tokenmem import (
    Notebook,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    memory_tools,
)
from langchain_tokenmem.graphs import pin_update
from langchain_tokenmem.notes import Note


def notes(store: BaseStore) -> TokenMemory:
    """Keep notes, find them, and let a memory show them."""
    notebook = Notebook(store, project="shop", limit=100, local_user="me")
    note = notebook.add("Use tabs.", level="global", kind="preference", tags=["style"])
    assert_type(note, Note)
    assert_type(note.key, str | None)
    assert_type(note.tags, tuple[str, ...])
    assert_type(notebook.get(note.id), Note | None)
    assert_type(notebook.search("tabs?", limit=3), list[Note])
    assert_type(notebook.list(level="project", tags=["style"]), list[Note])
    assert_type(notebook.remove("build", user_id="ann"), Note | None)
    assert_type(notebook.erase(user_id="ann"), int)
    return TokenMemory(notes=notebook)


async def later(notebook: Notebook) -> None:
    """Do the same from an event loop."""
    assert_type(await notebook.aadd("x", session_id="s1", level="session"), Note)
    assert_type(await notebook.asearch(["x", "y"], session_id="s1"), list[Note])
    assert_type(await notebook.alist(user_id="ann"), list[Note])


def pins(history: TokenMemoryChatHistory) -> None:
    """Pin and unpin."""
    pin = history.pin("Answer in French.")
    assert_type(pin["id"], str)
    assert_type(history.unpin(pin["id"]), bool)
    assert_type([each["text"] for each in history.pins()], list[str])
    Command(update=pin_update("Answer in French.", unpin=True))


def tools(notebook: Notebook) -> None:
    """Give an agent its tools."""
    made = memory_tools(notebook, include={"memory", "memorize"}, user_id="ann", session_id="s1")
    assert_type(made, list[BaseTool])
    TokenMemoryMiddleware(agent_tools={"memory", "read_message"})
