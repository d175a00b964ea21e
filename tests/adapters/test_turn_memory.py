"""Turn memory through the integrations: read with the messages, stored nowhere, found by nobody."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph

from langchain_tokenmem import (
    MemoryMessagesState,
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.core.messages import marks_of
from tests.fakes import CharCounter, ListSummarizer

MEMORY = {
    "files_changed": ["b.go", "a.go"],
    "failed_commands": [{"command": "go test ./...", "exit_code": 1}],
}
TEXT = "Tool memory:\n- Files changed: b.go, a.go\n- Failed bash: go test ./... (exit 1)"


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/memory.db") as store:
        yield store


def memory_of(window=20_000, **options):
    return TokenMemory(
        TokenBudget(context_window=window),
        counter=CharCounter(),
        summarizer=ListSummarizer(),
        **options,
    )


def call(key, name, args, result="ok"):
    one = {"name": name, "args": args, "id": f"c{key}"}
    return [
        AIMessage("", id=f"call{key}", tool_calls=[one]),
        ToolMessage(result, id=f"result{key}", tool_call_id=f"c{key}"),
    ]


def turn(n=0, size=1):
    return [
        HumanMessage("Fix it.", id=f"h{n}"),
        *call(f"{n}a", "edit_file", {"path": "b.go"}, "ok " * size),
        *call(f"{n}b", "edit_file", {"path": "./a.go"}, "ok " * size),
        *call(f"{n}c", "bash", {"command": "go test ./..."}, "FAIL\nExit code: 1"),
        AIMessage("Done.", id=f"a{n}"),
    ]


def told(messages):
    marks = {m.id: marks_of(m).get("turn_memory") for m in messages}
    return {key: memory for key, memory in marks.items() if memory}


def test_messages_of_a_history_tell_it_and_their_rows_do_not(store):
    history = TokenMemoryChatHistory("s1", memory=memory_of(), store=store)
    history.add_messages(turn())
    assert told(history.messages) == {"a0": MEMORY}
    assert told(history.full_history()) == {"a0": MEMORY}
    assert told(store.messages("s1")) == {}
    assert store.messages("s1")[-1].content == "Done."


def test_an_explicit_mark_is_stored_and_read_by_chains_that_store_text_only(store):
    history = TokenMemoryChatHistory("s1", memory=memory_of(), store=store)
    marks = {"tokenmem": {"turn_memory": MEMORY}}
    history.add_messages([HumanMessage("Fix it."), AIMessage("Done.", response_metadata=marks)])
    assert [marks_of(m)["turn_memory"] for m in store.messages("s1")[1:]] == [MEMORY]
    again = TokenMemoryChatHistory("s1", memory=memory_of(), store=store)
    assert again.messages[-1].content == f"Done.\n\n{TEXT}"


def test_an_echo_is_left_out_of_what_is_stored(store):
    history = TokenMemoryChatHistory("s1", memory=memory_of(), store=store)
    history.add_messages([*turn()[:-1], AIMessage(f"Done.\n\n{TEXT}", id="a0")])
    assert store.messages("s1")[-1].content == "Done."


def test_a_message_of_the_view_that_comes_back_is_no_edit(store):
    history = TokenMemoryChatHistory("s1", memory=memory_of(turn_memory="always"), store=store)
    history.add_messages(turn())
    fresh = TokenMemoryChatHistory("s1", memory=memory_of(), store=store)
    fresh.add_messages(history.messages)
    assert [m.content for m in store.messages("s1")] == [m.content for m in turn()]


def test_search_never_finds_it(store):
    recall = Recall(store)
    memory = memory_of(recall=recall, turn_memory="always")
    history = TokenMemoryChatHistory("s1", memory=memory, store=store)
    history.add_messages([*turn(), HumanMessage("Next?")])
    assert f"Done.\n\n{TEXT}" in [m.content for m in history.messages]
    assert list(recall.search("Tool memory Files changed", session_id="s1")) == []


def test_a_chain_sends_it_and_stores_the_plain_words(store):
    sent = []

    def model(prompt):
        sent.append(prompt.to_messages())
        return AIMessage("Yes.")

    prompt = ChatPromptTemplate([MessagesPlaceholder("history"), ("human", "{input}")])
    chain = with_token_memory(
        prompt | model,
        memory_of(turn_memory="always"),
        store,
        input_messages_key="input",
        history_messages_key="history",
    )
    store.add("s1", turn())
    chain.invoke({"input": "Next?"}, {"configurable": {"session_id": "s1"}})
    assert f"Done.\n\n{TEXT}" in [m.content for m in sent[0]]
    assert TEXT not in json.dumps([m.content for m in store.messages("s1")])


def test_in_a_graph_it_outlives_tool_messages_that_are_removed():
    seen, memory = [], memory_of()

    def call_model(state):
        seen.append(memory_input(state, memory))
        return {"messages": [AIMessage("Yes.")]}

    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", call_model)
    builder.set_entry_point(memory_nodes(builder, memory, before="model"))
    graph = builder.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t1"}}
    graph.invoke({"messages": [*turn(), HumanMessage("And?")]}, config)
    assert TEXT not in str(seen[-1])
    gone = [RemoveMessage(id=m.id) for m in turn()[1:-1]]
    graph.invoke({"messages": [*gone, HumanMessage("More?")]}, config)
    assert [m.content for m in seen[-1] if m.id == "a0"] == [f"Done.\n\n{TEXT}"]
    assert [m.content for m in graph.get_state(config).values["messages"] if m.id == "a0"] == [
        "Done."
    ]
