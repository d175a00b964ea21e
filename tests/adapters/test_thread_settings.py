"""Settings of a session and of its user hold for threads of graphs and agents, too."""

from __future__ import annotations

import pytest
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from sqlalchemy import text

from langchain_tokenmem import (
    CompactNode,
    MemoryMessagesState,
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
    memory_input,
    memory_nodes,
)
from langchain_tokenmem.core.session_settings import SessionSettings
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from tests.fakes import CharCounter, ListSummarizer
from tests.summarize.models import Scripted

DECIDED = "We decided to use SQLite because it is simple."
LONG = [HumanMessage(f"{n}: " + "word " * 300) for n in range(12)]


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(tmp_path / "memory.db") as store:
        yield store


def memory_of(window=8_000, **keywords):
    budget = TokenBudget(window)
    return TokenMemory(budget, counter=CharCounter(), summarizer=ListSummarizer(), **keywords)


def agent_on(memory, saver, **keywords):
    model = Scripted(answer=lambda _: "Yes.")
    middleware = [TokenMemoryMiddleware(memory, **keywords)]
    return model, create_agent(model, middleware=middleware, checkpointer=saver)


def graph_on(memory, saver, **keywords):
    model = Scripted(answer=lambda _: "Yes.")
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("model", lambda state: {"messages": model.invoke(memory_input(state, memory))})
    builder.add_edge(START, memory_nodes(builder, memory, **keywords))
    return model, builder.compile(checkpointer=saver)


def split_graph_on(memory, saver, **keywords):
    return graph_on(memory, saver, split=True, **keywords)


ANN = {"configurable": {"thread_id": "t", "user_id": "ann"}}
KINDS = pytest.mark.parametrize("made", [agent_on, graph_on, split_graph_on])


def request_after(built, messages, config=ANN):
    """Return the messages that the model was called with at last."""
    model, app = built
    app.invoke({"messages": messages}, config)
    return model.requests[-1]


def tokens(request):
    return CharCounter().count(request).tokens


def limit_of(window):
    return TokenBudget(window).for_counts(exact=True).limit


def is_noted(request):
    return "#1 use SQLite" in str(request[-1].content)


def of_thread(name, **more):
    return {"configurable": {"thread_id": name, "user_id": "ann", **more}}


@pytest.mark.slow
@KINDS
def test_a_budget_of_the_session_beats_that_of_the_user_and_this_the_memorys(made, store):
    built = made(memory_of(trigger=None), TokenMemorySaver(store))  # as much as fits is shown
    assert tokens(request_after(built, LONG, of_thread("first"))) > 4_000
    store.set_settings(user_id="ann", budget=4_000)
    assert 2_000 < tokens(request_after(built, LONG, of_thread("second"))) <= limit_of(4_000)
    store.set_settings(session_id="second", user_id="ann", budget=2_000)
    assert tokens(request_after(built, "And?", of_thread("second"))) <= limit_of(2_000)
    of_bob = {"configurable": {"thread_id": "other", "user_id": "bob"}}
    assert tokens(request_after(built, LONG, of_bob)) > 4_000


@pytest.mark.slow
@KINDS
def test_a_mode_of_the_call_beats_that_of_the_thread_and_this_the_users(made, store):
    built = made(memory_of(), TokenMemorySaver(store))
    said = [HumanMessage(DECIDED), HumanMessage("Which database?")]
    assert not is_noted(request_after(built, said))
    store.set_settings(user_id="ann", mode="reasoning")
    assert is_noted(request_after(built, "Which database now?"))
    store.set_settings(session_id="off", user_id="ann", mode="")
    assert not is_noted(request_after(built, said, of_thread("off")))
    called = of_thread("off", memory_mode="reasoning")
    assert is_noted(request_after(built, "Which database now?", called))


@pytest.mark.slow
@KINDS
def test_a_thread_that_is_off_summarizes_recalls_and_notes_nothing(made, store):
    memory = memory_of(3_000, recall=Recall(store), mode="reasoning")
    store.set_settings(session_id="t", user_id="ann", enabled=False)
    built = made(memory, TokenMemorySaver(store))
    request = request_after(built, [HumanMessage(DECIDED), *LONG, HumanMessage("Which database?")])
    assert not is_noted(request)
    assert tokens(request) <= limit_of(3_000)
    assert memory.summarizer.requests == []
    store.set_settings(session_id="t", user_id="ann", enabled=True)
    request_after(built, [*LONG, HumanMessage("Which database?")])
    memory.close()
    assert memory.summarizer.requests


@pytest.mark.slow
@KINDS
def test_a_summarizer_by_name_writes_the_entries_of_the_thread(made, store):
    memory = memory_of(3_000)
    store.set_settings(session_id="t", user_id="ann", summarizer="extractive")
    request_after(made(memory, TokenMemorySaver(store)), [*LONG, HumanMessage("And?")])
    assert memory.summarizer.requests == []


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("knows", ["store", "recall"])
def test_a_store_may_be_given_or_be_that_of_the_recall(made, knows, store):
    store.set_settings(user_id="ann", budget=2_000)
    memory = memory_of(recall=Recall(store) if knows == "recall" else None)
    built = made(memory, InMemorySaver(), **({"store": store} if knows == "store" else {}))
    assert tokens(request_after(built, LONG)) <= limit_of(2_000)


def test_an_archive_of_a_split_graph_is_asked_for_settings(store):
    store.set_settings(user_id="ann", budget=2_000)
    built = split_graph_on(memory_of(), InMemorySaver(), archive=store)
    assert tokens(request_after(built, LONG)) <= limit_of(2_000)
    node = CompactNode(memory_of(), archive=store)
    view = node.invoke({"messages": LONG}, ANN)["llm_input_messages"]
    assert tokens(view) <= limit_of(2_000)


def test_a_run_that_knows_no_store_has_the_settings_of_the_memory(store):
    store.set_settings(user_id="ann", budget=2_000)
    assert tokens(request_after(agent_on(memory_of(), InMemorySaver()), LONG)) > 4_000


def test_a_budget_of_the_session_stays_within_the_window_of_the_called_model(store):
    store.set_settings(session_id="t", user_id="ann", budget=50_000)
    model, app = agent_on(memory_of(), TokenMemorySaver(store))
    model.profile = {"max_input_tokens": 2_000}
    assert tokens(request_after((model, app), LONG)) <= limit_of(2_000)


def test_a_memory_of_the_middlewares_own_takes_them_as_well(store):
    store.set_settings(user_id="ann", mode="reasoning")
    built = agent_on(None, TokenMemorySaver(store))
    assert is_noted(request_after(built, [HumanMessage(DECIDED), HumanMessage("Which?")]))


def test_a_sub_graph_has_the_settings_of_its_thread_but_for_the_mode(store):
    store.set_settings(session_id="t", user_id="ann", mode="reasoning", budget=2_000)
    model, inner = graph_on(memory_of(), None)
    builder = StateGraph(MemoryMessagesState)
    builder.add_node("inner", inner)
    builder.add_edge(START, "inner")
    outer = builder.compile(checkpointer=TokenMemorySaver(store))
    request = request_after((model, outer), [*LONG, HumanMessage(DECIDED), HumanMessage("Which?")])
    assert tokens(request) <= limit_of(2_000)
    assert not is_noted(request)


@pytest.mark.slow
@KINDS
def test_the_settings_of_a_thread_are_not_read_for_another_user(made, store):
    built = made(memory_of(), TokenMemorySaver(store))
    request_after(built, "Mine.")
    with pytest.raises(ScopeError):
        request_after(built, "And?", {"configurable": {"thread_id": "t", "user_id": "bob"}})


@pytest.mark.slow
@KINDS
def test_settings_that_cannot_be_read_are_told_and_the_memorys_hold(made, store, caplog):
    store.set_settings(user_id="ann", budget=2_000)
    with store.database.writing("test") as connection:
        connection.execute(text("UPDATE tokenmem_user_settings SET settings = '{'"))
    assert tokens(request_after(made(memory_of(), TokenMemorySaver(store)), LONG)) > 4_000
    assert "its own settings are not used" in caplog.text


@pytest.mark.slow
@KINDS
async def test_settings_are_read_off_the_event_loop(made, store):
    store.set_settings(user_id="ann", budget=2_000)
    model, app = made(memory_of(), TokenMemorySaver(store))
    with blockbuster_ctx():
        await app.ainvoke({"messages": LONG}, ANN)
    assert tokens(model.requests[-1]) <= limit_of(2_000)


def test_settings_of_a_thread_stay_beside_its_checkpoints(store):
    built = agent_on(memory_of(), TokenMemorySaver(store))
    request_after(built, "Hi.")
    store.set_settings(session_id="t", user_id="ann", budget=2_000)
    request_after(built, LONG)
    assert store.settings("t") == SessionSettings(budget=TokenBudget(2_000))
    assert built[1].get_state(ANN).values["messages"][0].content == "Hi."


@pytest.mark.parametrize("made", [agent_on, graph_on])
def test_what_is_no_store_is_refused(made):
    with pytest.raises(ConfigurationError, match="store"):
        made(memory_of(), InMemorySaver(), store="memory.db")


def test_settings_of_a_user_hold_before_their_thread_knows_its_owner(store):
    """A checkpointer writes what a task said before it writes the checkpoint that names a user."""
    store.set_settings(user_id="ann", budget=TokenBudget(600))
    at = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}}
    TokenMemorySaver(store).put_writes(at, [("messages", [HumanMessage("Hello.")])], "task")
    assert store.settings("t", user_id="ann").budget == TokenBudget(600)
    assert store.settings("t").budget is None
