"""Turn memory through the integrations: read with the messages, stored nowhere, found by no one."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage

from langchain_tokenmem import TokenMemoryChatHistory
from tests.adapters.integrations import contents, graph_with, texts, thread
from tests.fakes import memory_of

MEMORY = {
    "files_changed": ["b.go", "a.go"],
    "failed_commands": [{"command": "go test ./...", "exit_code": 1}],
}
TEXT = "Tool memory:\n- Files changed: b.go, a.go\n- Failed bash: go test ./... (exit 1)"


def call(key, name, args, result="ok"):
    one = {"name": name, "args": args, "id": f"c{key}"}
    return [
        AIMessage("", id=f"call{key}", tool_calls=[one]),
        ToolMessage(result, id=f"result{key}", tool_call_id=f"c{key}"),
    ]


TURN = [
    HumanMessage("Fix it.", id="h0"),
    *call("a", "edit_file", {"path": "b.go"}),
    *call("b", "edit_file", {"path": "./a.go"}),
    *call("c", "bash", {"command": "go test ./..."}, "FAIL\nExit code: 1"),
    AIMessage("Done.", id="a0"),
]


def history_on(store, name="s", **keywords):
    return TokenMemoryChatHistory(name, memory=memory_of(20_000, **keywords), store=store)


def marked(messages):
    marks = {m.id: m.response_metadata.get("tokenmem", {}).get("turn_memory") for m in messages}
    return {key: memory for key, memory in marks.items() if memory}


def test_an_explicit_mark_is_stored_and_read_by_chains_that_store_text_only(store):
    marks = {"tokenmem": {"turn_memory": MEMORY}}
    said = [HumanMessage("Fix it."), AIMessage("Done.", id="a0", response_metadata=marks)]
    history_on(store).add_messages(said)
    assert marked(store.messages("s")) == {"a0": MEMORY}
    assert history_on(store).messages[-1].content == f"Done.\n\n{TEXT}"


def test_what_a_model_echoes_and_a_view_that_comes_back_are_stored_without_it(store):
    history = history_on(store, turn_memory="always")
    history.add_messages([*TURN[:-1], AIMessage(f"Done.\n\n{TEXT}", id="a0")])
    assert TEXT in contents(history.messages)
    history_on(store).add_messages(history.messages)
    assert texts(store.messages("s")) == texts(TURN)


def test_in_a_graph_it_outlives_tool_messages_that_are_removed():
    model, graph = graph_with(memory_of(20_000))
    graph.invoke({"messages": [*TURN, HumanMessage("And?")]}, thread())
    assert TEXT not in contents(model.requests[-1])
    gone = [RemoveMessage(id=m.id) for m in TURN[1:-1]]
    graph.invoke({"messages": [*gone, HumanMessage("More?")]}, thread())
    assert [m.content for m in model.requests[-1] if m.id == "a0"] == [f"Done.\n\n{TEXT}"]
    assert TEXT not in contents(graph.get_state(thread()).values["messages"])
