"""Turn memory through the integrations: read with the messages, stored nowhere, found by no one."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage

from langchain_tokenmem import TokenMemoryChatHistory
from tests.adapters.integrations import contents, graph_with, texts, thread
from tests.fakes import memory_of

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
