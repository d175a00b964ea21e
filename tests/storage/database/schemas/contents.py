"""Fills a store, and reads all of it by public methods: equal before and after an upgrade.

Run with the package of an older commit on the path, it made the files of this folder: README.md.
"""

from __future__ import annotations

import hashlib
import json
import sys
from datetime import UTC, datetime
from typing import Any, TypedDict

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_tokenmem import TranscriptStore

NOISE = "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(150))
"""A text that stays large when it is compressed."""

MOMENT = datetime(2026, 1, 31, 12, tzinfo=UTC)
CONFIG = {"configurable": {"thread_id": "thread"}}
SESSIONS = {"chat": "ann", "plain": None, "thread": None, "lärm\ud83d": None, "cleared": None}


def fill(store: TranscriptStore, *, everything: bool) -> None:
    """Write of each kind of row some, with what the oldest version can already do."""
    call = {"name": "search", "args": {"query": "orders"}, "id": "call-1", "type": "tool_call"}
    said = [
        HumanMessage("Where is order 4711? Ünïcode \u0000 too.", id="h1"),
        AIMessage("", tool_calls=[call], id="a1"),
        ToolMessage("The order is in Lisbon.", tool_call_id="call-1", id="t1"),
        AIMessage([{"type": "text", "text": "In Lisbon."}], id="a2"),
    ]
    store.add("chat", said, user_id="ann", now=MOMENT)
    store.add("plain", [HumanMessage("yes"), AIMessage("ok"), HumanMessage("yes")], now=MOMENT)
    store.add("lärm\ud83d", [HumanMessage("x" * 5_000)], now=MOMENT)
    store.add("cleared", [HumanMessage("gone"), AIMessage("gone, too")], now=MOMENT)
    store.clear("cleared")
    store.save_state("chat", json.loads(json.dumps(STATE)), expected=0)
    if everything:
        _fill_recall(store)
        _fill_checkpoints(store)
        # Since version 5 this is an edit; before it was a resend.
        store.add("lärm\ud83d", [HumanMessage("before", id="e1")], now=MOMENT)
        store.add("lärm\ud83d", [HumanMessage("after", id="e1")], now=MOMENT)


STATE = {
    "version": 1,
    "summary": None,
    "cuts": {"t1": {"kind": "tool", "tokens": 3}},
    "kept": ["h1"],
    "first": "h1",
    "totals": {},
}


def _fill_recall(store: TranscriptStore) -> None:
    from langchain_tokenmem import Recall

    with Recall(store) as recall:
        store.add("chat", [HumanMessage("And the parcel of March?", id="h2")], now=MOMENT)
        page = Document("The parcel of March went to Porto.", metadata={"page": 7}, id="d1")
        recall.add_documents([page], session_id="chat", user_id="ann")
        recall.add_documents([Document("Ann likes green tea.", id="d2")], user_id="ann")


def graph_of(store: TranscriptStore) -> Any:
    """Make a graph with messages, a large value and a pause for a question in its second run."""
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.types import interrupt

    from langchain_tokenmem import TokenMemorySaver

    class State(MessagesState):
        large: str
        step: int

    def answer(state: State) -> dict[str, Any]:
        number = len(state["messages"])
        new = AIMessage(f"answer {number}", id=f"m{number}")
        return {"messages": [new], "large": NOISE, "step": number}

    def ask(state: State) -> dict[str, Any]:
        return {"step": interrupt("go on?")} if state["step"] > 2 else {}

    builder = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_node("ask", ask)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", "ask")
    return builder.compile(checkpointer=TokenMemorySaver(store))


def _fill_checkpoints(store: TranscriptStore) -> None:
    graph = graph_of(store)
    for number in range(2):
        question = HumanMessage(f"question {number} about Madrid", id=f"q{number}")
        graph.invoke({"messages": [question]}, CONFIG)


class Contents(TypedDict):
    """All that is read."""

    sessions: dict[str, Any]
    owned: list[str]
    documents: list[list[str]]
    checkpoints: list[Any]


def contents(store: TranscriptStore, *, everything: bool) -> Contents:
    """Read all rows of a store by its public methods."""
    found: Contents = {
        "sessions": {name: _session(store, name) for name in SESSIONS},
        "owned": store.sessions(user_id="ann"),
        "documents": [],
        "checkpoints": [],
    }
    if everything:
        from langchain_tokenmem import Recall, TokenMemorySaver

        with Recall(store) as recall:
            for query in ("parcel of March", "green tea", "order Lisbon"):
                hits = recall.search(query, session_id="chat", user_id="ann", scope="user")
                found["documents"].append(sorted(hit.text for hit in hits))
        found["checkpoints"] = [_plain(list(one)) for one in TokenMemorySaver(store).list(CONFIG)]
    return found


def _session(store: TranscriptStore, name: str) -> Any:
    rows = [[row.seq, row.created_at.isoformat(), row.message] for row in store.rows(name)]
    # As it is stored: this one was never a working state, and a later version refuses to use it.
    from langchain_tokenmem.storage.database.json_values import from_json
    from langchain_tokenmem.storage.transcripts.sessions import find

    with store.database.reading(name) as connection:
        session = find(connection, name, None)
    stored = from_json(session.state) if session is not None and session.state else {}
    state = {key: stored.get(key) for key in STATE}
    return _plain([rows, state, session.version if session is not None else 0])


def _plain(value: Any) -> Any:
    if isinstance(value, BaseMessage):
        return [value.type, value.id, _plain(value.content), getattr(value, "tool_calls", None)]
    if isinstance(value, str) and len(value) > 200:
        return f"{value[:20]}... {hashlib.sha256(value.encode()).hexdigest()}"
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def main(url: str, *, everything: bool) -> None:
    """Fill a new database, and print its contents."""
    with TranscriptStore(url) as store:
        fill(store, everything=everything)
        json.dump(contents(store, everything=everything), sys.stdout, indent=1)


if __name__ == "__main__":
    main(sys.argv[1], everything=sys.argv[2] == "everything")
