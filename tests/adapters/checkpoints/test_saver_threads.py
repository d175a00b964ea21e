"""What deletes, copies and thins out threads takes all of a thread, and nothing of another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, TypedDict
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import text

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.core.thread_names import thread_session
from langchain_tokenmem.errors import ConfigurationError, ScopeError, StoreError
from langchain_tokenmem.storage import threads as retention


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/saver.db") as opened:
        yield opened


def thread(name="t", **more):
    return {"configurable": {"thread_id": name, **more}}


def answer(state):
    return {"messages": AIMessage("answer", id=str(uuid4()))}


def with_sub_graph(saver, *, from_size=0):
    """Return a graph that hands over to a sub-graph once its list is longer than `from_size`."""
    sub = StateGraph(MessagesState).add_node("model", answer).add_edge(START, "model")
    graph = StateGraph(MessagesState).add_node("sub", sub.compile(checkpointer=True))
    graph.add_node("model", answer)
    graph.add_conditional_edges(
        START, lambda state: "sub" if len(state["messages"]) > from_size else "model"
    )
    return graph.compile(checkpointer=saver)


def say(graph, words, name="t", **more):
    return graph.invoke({"messages": [HumanMessage(words, id=str(uuid4()))]}, thread(name, **more))


def count(store, table):
    with store.database.reading("test") as connection:
        return connection.execute(text(f"SELECT count(*) FROM tokenmem_{table}")).scalar()  # noqa: S608


def joined(old, writes):
    return [*(old or []), *(one for write in writes for one in write)]


class TwoDeltas(TypedDict):
    seldom: Annotated[list, DeltaChannel(joined, list, snapshot_frequency=7)]
    often: Annotated[list, DeltaChannel(joined, list, snapshot_frequency=3)]
    n: int


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning")  # delta channels announce that they are young
@pytest.mark.parametrize("keep", [10, 3, 1])
def test_what_is_kept_for_one_delta_channel_can_be_read_with_the_other(store, keep):
    def step(state):
        return {"seldom": [f"a{state['n']}"], "often": [f"b{state['n']}"]}

    saver = TokenMemorySaver(store)
    graph = StateGraph(TwoDeltas).add_node("x", step).add_edge(START, "x")
    chat = graph.compile(checkpointer=saver)
    for n in range(12):
        chat.invoke({"n": n}, thread())

    def history():
        found = chat.get_state_history(thread())
        return {one.config["configurable"]["checkpoint_id"]: one.values for one in found}

    before = history()
    saver.prune(["t"], keep_last=keep)
    left = history()
    assert len(left) >= keep
    assert left == {name: before[name] for name in left}


def test_a_sub_graph_belongs_to_whom_its_thread_belongs(store):
    graph = with_sub_graph(TokenMemorySaver(store), from_size=2)
    say(graph, "I am Ann", user_id="ann")
    say(graph, "I am Bob", user_id="bob")
    assert store.erase(user_id="bob")["sessions"] == 0
    assert len(say(graph, "still here", user_id="ann")["messages"]) == 6
    assert store.erase(user_id="ann")["sessions"] == 2
    assert store.sessions() == []
    assert count(store, "checkpoints") == 0


def test_the_session_of_a_sub_graph_is_not_erased_from_under_its_thread(store):
    graph = with_sub_graph(TokenMemorySaver(store))
    say(graph, "hello")
    with pytest.raises(StoreError, match="its thread, 't', and this one goes"):
        store.erase(session_id=thread_session("t", "sub"))
    assert len(say(graph, "again")["messages"]) == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["u/" + "x" * 420, "😀" * 60])
def test_a_thread_with_a_long_id_is_erased_with_its_sub_graphs(store, name):
    graph = with_sub_graph(TokenMemorySaver(store))
    say(graph, "hello", name)
    assert len(store.sessions()) == 2
    store.erase(session_id=name)
    assert store.sessions() == []


def test_erasing_minds_the_case_of_ids(store):
    graph = with_sub_graph(TokenMemorySaver(store))
    say(graph, "mine", "THREAD")
    say(graph, "hers", "thread")
    store.erase(session_id="thread")
    assert store.sessions() == sorted(["THREAD", thread_session("THREAD", "sub")])


def test_deleting_a_thread_takes_sub_graphs_without_checkpoints(store):
    saver = TokenMemorySaver(store)
    say(with_sub_graph(saver), "hello")
    store.add(thread_session("t", "helper"), [HumanMessage("archived")])
    store.add(thread_session("t2", "helper"), [HumanMessage("another's")])
    saver.delete_thread("t")
    assert store.sessions() == [thread_session("t2", "helper")]


@pytest.mark.slow
def test_a_copy_belongs_to_the_same_user(store):
    saver = TokenMemorySaver(store)
    say(with_sub_graph(saver), "I am Ann", user_id="ann")
    saver.copy_thread("t", "copy")
    with pytest.raises(ScopeError):
        store.messages("copy", user_id="bob")
    store.erase(user_id="ann")
    assert store.sessions() == []


def put(saver, number, messages, run, writes=()):
    checkpoint = {
        **empty_checkpoint(),
        "id": f"{number:08}",
        "channel_values": {"other": messages},
        "channel_versions": {"other": number},
    }
    place = {"thread_id": "t", "checkpoint_ns": ""}
    saver.put({"configurable": place}, checkpoint, {"run_id": run}, {"other": number})


def test_the_messages_of_deleted_runs_go_with_them(store):
    saver = TokenMemorySaver(store)
    runs = [uuid4(), uuid4()]
    for number, run in enumerate(runs, start=1):
        put(saver, number, [HumanMessage(f"message {number}", id=f"m{number}")], str(run))
    assert count(store, "messages WHERE seq IS NULL") == 2
    saver.delete_for_runs([runs[1]])
    assert count(store, "messages WHERE seq IS NULL") == 1
    place = thread("t", checkpoint_ns="")
    kept = saver.get_tuple(place).checkpoint["channel_values"]["other"]
    assert [one.content for one in kept] == ["message 1"]


def test_the_messages_of_stray_writes_go_with_them(store):
    saver = TokenMemorySaver(store)
    put(saver, 1, [], "run")
    place = thread("t", checkpoint_ns="", checkpoint_id="gone")
    saver.put_writes(place, [("other", HumanMessage("stray", id="s"))], "task")
    assert count(store, "messages WHERE seq IS NULL") == 1
    later = datetime.now(UTC) + timedelta(hours=2)
    retention.prune(saver._checkpoints, "t", retention.RetentionRule(1, None), now=later)
    assert count(store, "checkpoint_writes") == 0
    assert count(store, "messages WHERE seq IS NULL") == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"keep_last": 2.0},
        {"keep_last": "3"},
        {"keep_last": True},
        {"older_than": 30},
        {"older_than": timedelta.max},
        {"keep_last": 1, "prune_every": "x"},
    ],
)
def test_a_retention_that_cannot_be_is_refused(store, settings):
    with pytest.raises(ConfigurationError):
        TokenMemorySaver(store, **settings)


def test_one_id_is_not_taken_letter_by_letter(store):
    saver = TokenMemorySaver(store)
    say(with_sub_graph(saver), "hello")
    with pytest.raises(ConfigurationError, match="give a list"):
        saver.prune("t")
    with pytest.raises(ConfigurationError, match="give a list"):
        saver.delete_for_runs("t")
