"""Modes: who chooses them, what they read later, and that their notes stay in their session."""

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.types import Command

from langchain_tokenmem import (
    MemoryMessagesState,
    Recall,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    memory_input,
)
from langchain_tokenmem.modes import ModeProfile
from langchain_tokenmem.tools import record_decision_tool, set_goal_tool
from tests.adapters.integrations import (
    agent_of,
    call,
    contents,
    graph_of,
    graph_with,
    state_of,
    texts,
    thread,
    turns,
)
from tests.fakes import called, memory_of
from tests.providers import StrictModel

FENCE = "<working_notes "
REASONING = '<working_notes mode="reasoning">'
DECISION = "We decided to use SQLite because it is simple."
TALK = (f"We must stay under 300 EUR. {DECISION}", "Please fix the login in src/app.py now.")


# Who chooses the mode


def test_a_command_switches_a_graph_and_is_one_event_of_the_stream():
    memory, seen = memory_of(8_000, mode="code"), []

    def model(state: MemoryMessagesState):
        seen.append(memory_input(state, memory))
        switch = {"memory_mode": "reasoning"} if len(seen) == 1 else {}
        return Command(update={"messages": [AIMessage("ok")], **switch})

    graph, events = graph_of(model, memory), []
    for text in (TALK[0], "And?", "So?"):
        stream = graph.stream({"messages": text}, thread(), stream_mode="custom")
        events += [event["mode"] for event in stream if event["event"] == "mode"]
    assert REASONING in contents(seen[1])
    assert "#1 use SQLite" in contents(seen[1])
    assert seen[2][: len(seen[1])] == seen[1]
    assert events == ["code", "reasoning"]


@pytest.mark.parametrize("by", ["update", "config"])
def test_a_run_that_is_resumed_has_the_mode_of_now(by):
    careful = ModeProfile("careful", window=5, sections=("decisions",), system_text="Take care.")
    model, graph = graph_with(memory_of(8_000, mode=careful))
    before = thread(memory_mode="reasoning")
    graph.invoke({"messages": DECISION}, before, interrupt_before=["model"])
    if by == "update":
        graph.update_state(thread(), {"memory_mode": "careful"})
    graph.invoke(None, thread() if by == "update" else thread(memory_mode="careful"))
    assert texts(model.requests[0]) == ["Take care.", DECISION]


# Agents


def test_an_agent_notes_decisions_and_its_goal_by_tools():
    script = [
        call(0, "set_goal", goal="Cut the bill by half"),
        call(1, "record_decision", decision="Use Redis", rationale="fast", rejected=["files"]),
        AIMessage("Done."),
        AIMessage("Yes."),
    ]
    middleware = TokenMemoryMiddleware(memory_of(8_000, mode="reasoning"), agent_tools=True)
    model, agent = agent_of(script, middleware)
    for text in ("Go.", "And?"):
        result = agent.invoke({"messages": text}, thread())
    notes = str(model.seen[3][-1].content)
    assert "Objective: Cut the bill by half" in notes
    assert "#1 Use Redis. Rationale: fast. Rejected: files" in notes
    assert FENCE not in contents(result["messages"])


def test_a_profile_names_the_tools_that_an_agent_is_offered():
    own = ModeProfile("plan", window=5, sections=("objective",), tools=("set_goal",))
    middleware = TokenMemoryMiddleware(memory_of(8_000, mode=own))
    tools = [record_decision_tool(), set_goal_tool()]
    model, agent = agent_of([AIMessage("Done.")] * 2, middleware, tools=tools)
    offered = []
    for config in (thread(), thread("u", memory_mode="code")):
        agent.invoke({"messages": "Go."}, config)
        offered.append(sorted(one.name for one in model.keywords[-1]["tools"]))
    assert offered == [["set_goal"], ["record_decision", "set_goal"]]


# Notes and recall


def test_notes_leak_to_no_other_session_of_a_user_and_search_never_finds_them(store):
    recall = Recall(store, scope="user")
    memory = memory_of(8_000, mode="reasoning", recall=recall)

    def asked(name, *words):
        history = TokenMemoryChatHistory(name, memory=memory, store=store, user_id="u1")
        for text in words:
            history.add_messages([HumanMessage(text)])
            shown = history.messages
            history.add_messages([AIMessage("Noted.")])
        history.add_messages(shown)  # a view that is handed back is no message
        return contents(shown)

    assert "Rationale: it is simple" in asked("s1", *TALK, "Which database did we decide on?")
    other = asked("s2", "Is SQLite what we decided to use?")
    assert "We decided to use SQLite" in other  # the words themselves are recalled
    assert FENCE not in other
    assert "Rationale" not in other
    for query in ("Rationale", "working_notes", "Kept from this conversation"):
        assert not recall.search(query, session_id="s1", user_id="u1", scope="user")


# Conversations that are older than their mode

OLD = [HumanMessage(f"{DECISION} Budget: $50k", id="first"), AIMessage("ok", id="reply")]


def test_a_client_that_sends_the_whole_list_again_keeps_its_notes(caplog):
    """No checkpointer, new ids with every call: what is covered is known by its words."""
    model = StrictModel(script=[])
    agent = create_agent(model, middleware=[TokenMemoryMiddleware(memory_of(mode="reasoning"))])
    said = [("user", OLD[0].text)]
    for number in range(12):
        result = agent.invoke({"messages": said})
        said.append(("assistant", result["messages"][-1].text or "ok"))
        said.append(("user", f"Question {number}? " * 50))
    request = contents(model.seen[-1])
    assert "conversation_summary" in request
    assert "Constraints: Budget: $50k" in request[request.index(FENCE) :]
    assert "A conversation without a name: The memory's state was not kept" in caplog.text


@pytest.mark.slow
def test_in_a_new_thread_a_user_has_the_entries_of_the_same_messages_as_written(store, caplog):
    caplog.set_level("INFO")
    model, saver = StrictModel(script=[]), TokenMemorySaver(store, on_remove="hide")
    middleware = [TokenMemoryMiddleware(memory_of())]
    agent = create_agent(model, middleware=middleware, checkpointer=saver)
    said = []
    for number in range(20):
        said.append(("user", f"Question {number}? " * 50))
        result = agent.invoke({"messages": said}, thread(f"t{number}", user_id="u"))
        said.append(("assistant", result["messages"][-1].text or "ok"))
    assert "conversation_summary" in contents(model.seen[-1])
    assert "entries were written again" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("is_late", [False, True])
def test_a_backlog_is_read_into_the_notes_however_short_a_call_may_wait(door, store, is_late):
    """Also by a mode that came after its messages were summarized."""
    plain, moded = memory_of(), memory_of(mode="reasoning", max_wait_s=0)
    _, before = door(plain if is_late else moded)
    before.invoke({"messages": [*OLD, *turns(60)]}, thread())
    moded.close()
    assert state_of(before)["summary"]["covered"] > 2
    model, after = door(moded, before.checkpointer)
    after.invoke({"messages": "And now?"}, thread())
    assert "Constraints: Budget: $50k" in contents(model.requests[-1])


# Turn memory: read with the messages, and stored nowhere


TEXT = "Tool memory:\n- Files changed: b.go, a.go\n- Failed bash: go test ./... (exit 1)"


TURN = [
    HumanMessage("Fix it.", id="h0"),
    *called("a", "edit_file", {"path": "b.go"}),
    *called("b", "edit_file", {"path": "./a.go"}),
    *called("c", "bash", {"command": "go test ./..."}, "FAIL\nExit code: 1"),
    AIMessage("Done.", id="a0"),
]


def history_with(store, name="s", **keywords):
    return TokenMemoryChatHistory(name, memory=memory_of(20_000, **keywords), store=store)


def test_what_a_model_echoes_and_a_view_that_comes_back_are_stored_without_it(store):
    history = history_with(store, turn_memory="always")
    history.add_messages([*TURN[:-1], AIMessage(f"Done.\n\n{TEXT}", id="a0")])
    assert TEXT in contents(history.messages)
    history_with(store).add_messages(history.messages)
    assert texts(store.messages("s")) == texts(TURN)


def test_in_a_graph_it_outlives_tool_messages_that_are_removed():
    model, graph = graph_with(memory_of(20_000))
    graph.invoke({"messages": [*TURN, HumanMessage("And?")]}, thread())
    assert TEXT not in contents(model.requests[-1])
    gone = [RemoveMessage(id=m.id) for m in TURN[1:-1]]
    graph.invoke({"messages": [*gone, HumanMessage("More?")]}, thread())
    assert [m.content for m in model.requests[-1] if m.id == "a0"] == [f"Done.\n\n{TEXT}"]
    assert TEXT not in contents(graph.get_state(thread()).values["messages"])
