"""`edit` and `hide`: what a session, and the next request of a thread, hold afterwards."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import StoreError
from tests.storage.samples import texts

THREAD = {"configurable": {"thread_id": "t"}}


def test_an_edit_reaches_the_threads_next_request_and_no_older_checkpoint(store: TranscriptStore):
    seen = []

    def answer(state: MessagesState) -> dict[str, list[AIMessage]]:
        seen.append(texts(state["messages"]))
        return {"messages": [AIMessage("ok")]}

    builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    graph = builder.compile(checkpointer=TokenMemorySaver(store))
    graph.invoke({"messages": [HumanMessage("In Rome.", id="m")]}, THREAD)
    store.edit("t", "m", HumanMessage("In Oslo."))
    assert texts(store.messages("t")) == ["In Oslo.", "ok"]
    graph.invoke({"messages": [HumanMessage("And?")]}, THREAD)
    assert seen[-1] == ["In Oslo.", "ok", "And?"]
    assert texts(store.messages("t")) == ["In Oslo.", "ok", "And?", "ok"]
    store.edit("t", "m", HumanMessage("In Rome."))
    assert texts(graph.get_state(THREAD).values["messages"])[0] == "In Rome."
    assert texts([*graph.get_state_history(THREAD)][-2].values["messages"]) == ["In Rome."]
    with pytest.raises(StoreError, match="RemoveMessage"):
        store.hide("t", ["m"])
    with pytest.raises(StoreError, match="no message"):
        store.edit("t", "n", HumanMessage("x"))
