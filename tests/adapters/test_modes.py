"""Modes at the integrations: switches, restarts, forks, scopes, tools that note."""

from __future__ import annotations

from typing import Annotated

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from langchain_tokenmem import (
    MemoryMessagesState,
    Recall,
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_input,
    memory_nodes,
    with_token_memory,
)
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.modes import ModeProfile
from langchain_tokenmem.tools import record_decision_tool, set_goal_tool
from tests.adapters.agents.test_middleware import agent_of, call, memory_of, thread
from tests.providers import StrictModel

FENCE = "<working_notes "
TALK = (
    "We must stay under 300 EUR. We decided to use SQLite because it is simple.",
    "Please fix the login in src/app.py now.",
)


def text_of(messages):
    return "\n".join(str(message.content) for message in messages)


def history_of(store, session="s1", user=None, **keywords):
    memory = memory_of(8_000, **keywords)
    return TokenMemoryChatHistory(session, memory=memory, store=store, user_id=user)


def say(history, *texts):
    for text in texts:
        _ = history.messages
        history.add_messages([HumanMessage(text), AIMessage("Noted.")])


def ask(history, text):
    """Return the request for a question: as a chat history it stands in the transcript then."""
    history.add_messages([HumanMessage(text)])
    return text_of(history.messages)


def test_an_unknown_mode_is_refused_at_every_integration():
    store = TranscriptStore("sqlite://")
    with pytest.raises(ConfigurationError, match="'conversation', 'code', 'reasoning'"):
        history_of(store).set_mode("coding")
    chain = with_token_memory(FakeListChatModel(responses=["ok"]), memory_of(), store)
    with pytest.raises(ConfigurationError, match="no mode 'coding'"):
        chain.invoke("hi", {"configurable": {"session_id": "s1", "memory_mode": "coding"}})
    _, agent = agent_of([AIMessage("ok")], TokenMemoryMiddleware(memory_of()))
    config = {"configurable": {"thread_id": "t", "memory_mode": "coding"}}
    with pytest.raises(ConfigurationError, match="no mode 'coding'"):
        agent.invoke({"messages": "hi"}, config)


def test_a_chain_is_switched_by_its_config_and_goes_on_in_that_mode():
    store, model = TranscriptStore("sqlite://"), StrictModel(script=[])
    prompt = ChatPromptTemplate([("system", "Be brief."), MessagesPlaceholder("history"), "{q}"])
    research = ModeProfile("research", window=5, sections=("decisions",), system_text="Cite.")
    memory = memory_of(8_000, mode=research)
    keys = {"input_messages_key": "q", "history_messages_key": "history"}
    chain = with_token_memory(prompt | model, memory, store, **keys)
    session = {"session_id": "s1"}
    for text in TALK:
        chain.invoke({"q": text}, {"configurable": session})
    assert model.seen[1][0].content == "Be brief.\n\nCite."
    chain.invoke({"q": "And?"}, {"configurable": {**session, "memory_mode": "code"}})
    assert model.seen[2][0].content == "Be brief."
    assert '<working_notes mode="code">' in text_of(model.seen[2])
    chain.invoke({"q": "So?"}, {"configurable": session})
    assert text_of(model.seen[3]).startswith(text_of(model.seen[2]))
    assert FENCE not in text_of(store.messages("s1"))


def graph_of(memory, updates=()):
    """Return the requests of a graph's model, and the graph; its model's node may switch modes."""
    seen, left = [], list(updates)

    def model(state: MemoryMessagesState):
        seen.append(memory_input(state, memory))
        update = {"messages": [AIMessage(f"answer {len(seen)}")]}
        return Command(update=update | (left.pop(0) if left else {}))

    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, memory_nodes(builder, memory))
    return seen, builder


def test_a_command_switches_a_graph_and_tells_it_once_in_the_stream():
    seen, builder = graph_of(memory_of(8_000, mode="code"), [{"memory_mode": "reasoning"}])
    graph = builder.compile(checkpointer=InMemorySaver())
    events = []
    for text in (TALK[0], "And?", "So?"):
        events += [
            event["mode"]
            for event in graph.stream({"messages": text}, thread(), stream_mode="custom")
            if event["event"] == "mode"
        ]
    assert '<working_notes mode="reasoning">' in text_of(seen[1])
    assert "#1 use SQLite" in text_of(seen[1])
    assert seen[2][: len(seen[1])] == seen[1]
    assert events == ["code", "reasoning"]


def test_a_sub_agent_has_a_mode_of_its_own():
    inner_model, inner = agent_of(
        [AIMessage("inner")], TokenMemoryMiddleware(memory_of(8_000, mode="reasoning"), name="sub")
    )

    @tool
    def ask_helper(q: str) -> str:
        """Ask a helper."""
        said = [HumanMessage(TALK[0]), AIMessage("Yes."), HumanMessage(q)]
        return str(inner.invoke({"messages": said})["messages"][-1].content)

    middleware = TokenMemoryMiddleware(memory_of(8_000))
    script = [call(0, "ask_helper", q="Which?"), AIMessage("Done.")]
    model, outer = agent_of(script, middleware, tools=[ask_helper])
    config = {"configurable": {"thread_id": "t", "memory_mode": "code"}}
    outer.invoke({"messages": TALK[1]}, config)
    assert '<working_notes mode="reasoning">' in text_of(inner_model.seen[0])
    state = outer.get_state(config).values["token_memory"]["TokenMemoryMiddleware"]
    assert state["modes"]["mode"] == state["modes"]["chosen"] == "code"
    assert 'mode="reasoning"' not in text_of(model.seen[1])


def test_an_agent_notes_decisions_and_its_goal_by_tools():
    memory = memory_of(8_000, mode="reasoning")
    script = [
        call(0, "set_goal", goal="Cut the bill by half"),
        call(1, "record_decision", decision="Use Redis", rationale="fast", rejected=["files"]),
        AIMessage("Done."),
        AIMessage("Yes."),
    ]
    model, agent = agent_of(script, TokenMemoryMiddleware(memory, agent_tools=True))
    agent.invoke({"messages": "Go."}, thread())
    result = agent.invoke({"messages": "And?"}, thread())
    notes = str(model.seen[3][-1].content)
    assert "Objective: Cut the bill by half" in notes
    assert "#1 Use Redis. Rationale: fast. Rejected: files" in notes
    assert FENCE not in text_of(result["messages"])
    state = agent.get_state(thread()).values["token_memory"]["TokenMemoryMiddleware"]
    assert {i["by"] for i in state["modes"]["sections"]["decisions"]} == {"model"}


def test_a_profile_names_the_tools_that_an_agent_is_offered():
    own = ModeProfile("plan", window=5, sections=("objective",), tools=("set_goal",))
    model, agent = agent_of(
        [AIMessage("Done."), AIMessage("Yes.")],
        TokenMemoryMiddleware(memory_of(8_000, mode=own)),
        tools=[record_decision_tool(), set_goal_tool()],
    )
    offered = []
    for config in (thread(), {"configurable": {"thread_id": "u", "memory_mode": "code"}}):
        agent.invoke({"messages": "Go."}, config)
        offered.append(sorted(one.name for one in model.bound_tools))
    assert offered == [["set_goal"], ["record_decision", "set_goal"]]


def test_notes_leak_to_no_other_session_of_a_user_and_search_never_finds_them():
    store = TranscriptStore("sqlite://")
    recall = Recall(store)
    keywords = {"mode": "reasoning", "recall": recall, "recall_scope": "user"}
    first = history_of(store, "s1", "u1", **keywords)
    say(first, *TALK)
    assert "Rationale: it is simple" in ask(first, "Which database did we decide on?")
    other = ask(history_of(store, "s2", "u1", **keywords), "Is SQLite what we decided to use?")
    assert "We decided to use SQLite" in other  # the words themselves are recalled
    assert FENCE not in other
    assert "Rationale" not in other
    first.add_messages(first.messages)  # a view that is handed back is no message
    for query in ("Rationale", "working_notes", "Kept from this conversation"):
        assert not recall.search(query, session_id="s1", user_id="u1", scope="user")


def test_recall_brings_as_many_messages_as_the_mode_has():
    store = TranscriptStore("sqlite://")
    few = ModeProfile("few", window=5, sections=("facts",), recall_k=1)
    counts = []
    for mode in (None, few):
        history = history_of(
            store, "new", "u1", mode=mode, recall=Recall(store), recall_scope="user"
        )
        if mode is None:
            say(history_of(store, "old", "u1"), *(f"The parcel {n} is blue." for n in range(4)))
        counts.append(ask(history, "Which parcel is blue?").count("is blue."))
        history.clear()
    assert counts == [4, 1]


@pytest.mark.parametrize(("recall_k", "count"), [(None, 3), (2, 2), (0, 0)])
def test_recall_k_of_the_memory_beats_the_mode_and_0_switches_recall_off(recall_k, count):
    store = TranscriptStore("sqlite://")
    recall = Recall(store)
    say(history_of(store, "old", "u1"), *(f"The parcel {n} is blue." for n in range(4)))
    keywords = {"recall": recall, "recall_scope": "user", "recall_k": recall_k}
    history = history_of(store, "new", "u1", mode="code", **keywords)
    assert ask(history, "Which parcel is blue?").count("is blue.") == count


def test_erasing_a_session_erases_its_notes(tmp_path):
    path = tmp_path / "memory.db"
    with TranscriptStore(f"sqlite:///{path}") as store:
        history = history_of(store, mode="reasoning")
        say(history, "We decided to use Zanzibar because it is simple.")
        ask(history, "And?")
        assert "Zanzibar" in str(store.state("s1").state["modes"])
        store.erase("s1")
        assert store.state("s1").state is None
    assert b"Zanzibar" not in path.read_bytes()


def test_a_tool_switches_an_agent_by_a_command():
    @tool
    def think_hard(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """Switch the mode."""
        done = ToolMessage("Switched.", tool_call_id=tool_call_id)
        return Command(update={"memory_mode": "reasoning", "messages": [done]})

    memory = memory_of(8_000, mode="code")
    thinking = AIMessage("", tool_calls=[{"name": "think_hard", "args": {}, "id": "c9"}])
    script = [AIMessage("Yes."), thinking, AIMessage("ok"), AIMessage("fine")]
    model, agent = agent_of(script, TokenMemoryMiddleware(memory), tools=[think_hard])
    agent.invoke({"messages": TALK[0]}, thread())
    agent.invoke({"messages": "And?"}, thread())
    assert '<working_notes mode="reasoning">' not in text_of(model.seen[1])
    assert '<working_notes mode="reasoning">' in text_of(model.seen[2])
    agent.invoke({"messages": "So?"}, thread())
    assert model.seen[3][: len(model.seen[2])] == model.seen[2]


def test_a_session_that_was_switched_to_no_mode_at_its_first_call_stays_without():
    memory = memory_of(8_000, mode="code")
    said = [HumanMessage("Please fix the login in src/app.py now.", id="h1")]
    state, view = memory.compact_and_view(said, None, mode="")
    assert memory.mode_of(state) is None
    said += [AIMessage("Done.", id="a1"), HumanMessage("Now fix src/b.py.", id="h2")]
    state, view = memory.compact_and_view(said, state)
    assert FENCE not in text_of(view.messages)
