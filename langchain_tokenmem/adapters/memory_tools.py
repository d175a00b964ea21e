"""`memory_tools`: tools by which an agent keeps notes, pins texts and searches its history."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal, get_args

from langchain_core.tools import BaseTool

from langchain_tokenmem.adapters.history_tool import history_search_tool
from langchain_tokenmem.adapters.note_tools import memorize_tool, memory_tool
from langchain_tokenmem.adapters.pin_tool import pin_context_tool
from langchain_tokenmem.adapters.tool_scope import BoundScope
from langchain_tokenmem.core.argument_checks import checked
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.notes.notebook import Notebook
from langchain_tokenmem.notes.sql_store import SqlStore
from langchain_tokenmem.recall.recall import Recall
from langchain_tokenmem.storage.transcript_store import TranscriptStore

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
    beyond it. What goes wrong is an answer, never an exception.

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
        ConfigurationError: When `include` names a tool that there is not.

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
            f"include is {include!r}; it holds some of {', '.join(sorted(MEMORY_TOOLS))}."
        )
    bound = BoundScope(user_id, session_id)
    kept = store or (recall.store if recall is not None else _transcripts_of(notes))
    makers: dict[str, Callable[[], Any]] = {
        "memory": lambda: memory_tool(notes, bound),
        "memorize": lambda: memorize_tool(notes, bound),
        "pin_context": lambda: pin_context_tool(bound, kept, name, notes.before_store),
        "history_search": lambda: history_search_tool(bound, recall, messages_key, kept),
    }
    return [make() for tool_name, make in makers.items() if tool_name in include]


def _transcripts_of(notes: Notebook) -> TranscriptStore | None:
    """Return the store of transcripts beside the notes, in one database."""
    return notes.store.store if isinstance(notes.store, SqlStore) else None
