"""States, turns and graphs that the tests of the store share, and changes of its file by SQL."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.state import MemoryState, SummaryEntry, new_state


def entry(covers_to: str, **fields: Any) -> SummaryEntry:
    """Return an entry of a summary of one message."""
    text: Any = {"id": "e1", "text": "So far.", "model": "extractive", "prompt_version": "1"}
    message = {"first": "743116", "last": 1, "covered": 1, "last_ids": [covers_to], "tokens": 2}
    times = {"since": None, "until": None, "created_at": "2026-11-21T12:00:00+00:00"}
    return {**text, **message, **times, "reason": "limit", "failures": [], **fields}


def state(covers_to: str, *kept: str, text: str = "So far.") -> MemoryState:
    """Return a state with a summary of everything up to one message."""
    entries = [entry(covers_to, text=text)]
    return {
        **new_state(),
        "summary": {"entries": entries, "covers_to": covers_to, "covered": 1},
        "kept": list(kept),
        "blocks": {"h1": {"text": "", "ids": []}},
        "cuts": {"x": {"head": 1, "tail": 2}},
    }


def save_state(store: TranscriptStore, session: str, new: MemoryState) -> None:
    """Store a state on top of the one that a session has."""
    assert store.save_state(session, new, expected=store.state(session).version)


def turn(number: int | str, results: int = 0) -> list[BaseMessage]:
    """A turn whose messages have ids: a question, a call with its results, an answer."""
    keys = [f"{number}-{i}" for i in range(results)]
    calls: list[Any] = [
        {"name": "look", "args": {"n": i}, "id": f"c{key}", "type": "tool_call"}
        for i, key in enumerate(keys)
    ]
    return [
        HumanMessage(f"question {number}", id=f"h{number}"),
        *([AIMessage("", tool_calls=calls, id=f"k{number}")] if calls else []),
        *(ToolMessage(f"r{key[-1]}", tool_call_id=f"c{key}", id=f"t{key}") for key in keys),
        AIMessage(f"answer {number}", id=f"a{number}"),
    ]


def texts(messages: list[BaseMessage]) -> list[object]:
    return [message.content for message in messages]


def graph_on(
    store: TranscriptStore,
    answer: Callable[..., Any] = lambda _: {},
    schema: Any = MessagesState,
    **options: Any,
) -> Any:
    """Return a graph of one node that keeps its checkpoints in a store."""
    builder = StateGraph(schema).add_node("answer", answer).add_edge(START, "answer")
    return builder.compile(checkpointer=TokenMemorySaver(store, **options))


def sql(path: Path, *statements: str) -> None:
    """Change a database file without the package, as damage does."""
    with closing(sqlite3.connect(path)) as raw, raw:
        for statement in statements:
            raw.execute(statement)
