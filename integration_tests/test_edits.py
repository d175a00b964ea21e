"""Edited, hidden and erased words on PostgreSQL and on SQLite, for every reader and writer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import Text, cast, select

from langchain_tokenmem import (
    Recall,
    TokenMemorySaver,
    TranscriptStore,
)
from langchain_tokenmem.storage.tables import messages, metadata
from tests.storage.samples import texts

OLD, NEW = "The code of the door is QUOKKA.", "The code of the door is WOMBAT."
ASKED = "What is the code of the door?"
THREAD: Any = {"configurable": {"thread_id": "t", "user_id": "ann"}}


@pytest.fixture
def store(url: str) -> Iterator[TranscriptStore]:
    with TranscriptStore(url) as store:
        yield store


def fact(words: str) -> HumanMessage:
    return HumanMessage(words, id="fact")


def chat(store: TranscriptStore, **keywords: Any) -> Any:
    def answer(state: Any) -> Any:
        return {"messages": [AIMessage("Noted.", id=f"a{len(state['messages'])}")]}

    builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    return builder.compile(checkpointer=TokenMemorySaver(store, **keywords))


def found(recall: Recall, session: str = "t", **keywords: Any) -> list[str]:
    hits = recall.search(ASKED, session_id=session, user_id="ann", **keywords)
    return [hit.text for hit in hits if hit.message_id == "fact"]


def tables_with(store: TranscriptStore, words: str) -> list[str]:
    """Return the tables that hold the words in any column, compressed values aside."""
    holding = []
    with store.database.reading("every table") as connection:
        for table in metadata.sorted_tables:
            plain = [column for column in table.columns if isinstance(column.type, Text)]
            rows = connection.execute(select(*(cast(column, Text) for column in plain or [1])))
            if any(words.lower() in str(row).lower() for row in rows):
                holding.append(table.name)
    return holding


def count_edits(store: TranscriptStore) -> int:
    with store.database.reading("edits") as connection:
        hidden = select(messages.c.number).where(messages.c.is_shown == 0)
        return len(connection.execute(hidden).all())


@pytest.mark.parametrize("how", ["erase", "erase user", "delete thread", "clear"])
def test_no_table_keeps_edited_words_of_what_is_deleted(store, how):
    with Recall(store) as recall:
        if how == "clear":  # what a thread's checkpoints name cannot be cleared
            for words in (OLD, NEW):
                store.add("t", [fact(words)], user_id="ann")
        else:
            graph = chat(store)
            graph.invoke({"messages": [fact(OLD)]}, THREAD)
            graph.update_state(THREAD, {"messages": [fact(NEW)]})
        store.add("other", [fact("Of somebody else.")], user_id="bob")
        store.add("other", [fact("Of somebody else, edited.")], user_id="bob")
        assert found(recall) == [NEW]
        assert tables_with(store, "wombat")
        if how == "erase":
            assert store.erase(session_id="t")["messages"] == 3
        elif how == "erase user":
            assert store.erase(user_id="ann")["messages"] == 3
        elif how == "delete thread":
            graph.checkpointer.delete_thread("t")
        else:
            store.clear("t", user_id="ann")
        assert tables_with(store, "quokka") == tables_with(store, "wombat") == []
        assert found(recall) == []
        assert count_edits(store) == 1
        assert texts(store.messages("other", user_id="bob")) == ["Of somebody else, edited."]
