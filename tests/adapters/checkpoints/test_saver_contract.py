"""What `TokenMemorySaver` promises beyond the contract of a checkpointer."""

from __future__ import annotations

import logging
import operator
import os
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from sqlalchemy import text

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.core.thread_names import thread_session
from langchain_tokenmem.errors import (
    ConfigurationError,
    CorruptStoreError,
    ScopeError,
    StoreError,
    ThreadConflictError,
)


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/saver.db") as opened:
        yield opened


def thread(name="t", **more) -> dict[str, Any]:
    return {"configurable": {"thread_id": name, **more}}


def chat(saver, state=MessagesState):
    def answer(given):
        # With an id of its own: LangGraph gives it one while a pending write may be under way.
        size = len(given["messages"])
        return {"messages": AIMessage(f"answer {size}", id=f"answer-{uuid4()}")}

    builder = StateGraph(state).add_node("model", answer).add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def say(graph, words, name="t", **more):
    return graph.invoke({"messages": HumanMessage(words)}, thread(name, **more))


def words_of(messages):
    return [message.content for message in messages]


def rows(store, sql):
    with store.database.reading("A test") as connection:
        return connection.execute(text(sql)).all()


def change(store, sql):
    with store.database.writing("A test") as connection:
        connection.execute(text(sql))


# --- messages


def test_a_message_is_stored_once_and_the_thread_is_a_transcript(store):
    graph = chat(TokenMemorySaver(store))
    for turn in range(5):
        state = say(graph, f"question {turn}")
    assert words_of(store.messages("t")) == words_of(state["messages"])
    assert [m.id for m in store.messages("t")] == [m.id for m in state["messages"]]
    bodies = rows(store, "SELECT exact FROM tokenmem_messages WHERE exact IS NOT NULL")
    # The input as it came, without an id; what came by a pending write has moved.
    assert len(bodies) <= 5
    assert rows(store, "SELECT count(*) FROM tokenmem_messages WHERE seq > 0") == [(10,)]


def test_a_write_that_comes_after_its_message_is_no_second_copy(store):
    state = say(chat(TokenMemorySaver(store)), "question")
    later = TokenMemorySaver(store)  # as another process, or a thread that was slower
    config = later.get_tuple(thread()).config
    bodies = rows(store, "SELECT count(*) FROM tokenmem_messages")
    answer = state["messages"][-1]
    later.put_writes(config, [("messages", [answer.model_copy()])], "task")
    assert rows(store, "SELECT count(*) FROM tokenmem_messages") == bodies
    later.put_writes(config, [("messages", [answer.model_copy(update={"name": "x"})])], "other")
    assert rows(store, "SELECT count(*) FROM tokenmem_messages") != bodies
    writes = TokenMemorySaver(store).get_tuple(config).pending_writes
    assert {task: value for task, _, value in writes} == {
        "task": [answer],
        "other": [answer.model_copy(update={"name": "x"})],
    }


def test_an_edit_is_shown_in_the_transcript_and_a_removed_message_stays(store):
    saver = TokenMemorySaver(store)
    graph = chat(saver)
    first = say(graph, "one")["messages"]
    edited = HumanMessage("one, edited", id=first[0].id)
    graph.update_state(thread(), {"messages": [edited, RemoveMessage(id=first[1].id)]})
    assert words_of(graph.get_state(thread()).values["messages"]) == ["one, edited"]
    assert words_of(store.messages("t")) == ["one, edited", "answer 1"]
    first_words = store.messages("t", include_superseded=True)
    assert words_of(first_words) == ["one", "one, edited", "answer 1"]
    old = [s for s in graph.get_state_history(thread()) if len(s.values["messages"]) == 2]
    assert words_of(old[0].values["messages"]) == ["one", "answer 1"]


def test_an_edit_in_place_is_stored(store):
    class State(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]

    def edit(given):
        given["messages"][0].content = "changed in place"
        given["messages"][0].additional_kwargs["note"] = ["deep"]
        return {"messages": AIMessage("done")}

    builder = StateGraph(State).add_node("edit", edit).add_edge(START, "edit")
    saver = TokenMemorySaver(store)
    graph = builder.compile(checkpointer=saver)
    say(graph, "before")
    for reader in (graph, builder.compile(checkpointer=TokenMemorySaver(store))):
        message = reader.get_state(thread()).values["messages"][0]
        assert message.content == "changed in place"
        assert message.additional_kwargs == {"note": ["deep"]}


def test_what_is_read_is_nobody_elses(store):
    saver = TokenMemorySaver(store)
    say(chat(saver), "hello")
    one, two = (saver.get_tuple(thread()).checkpoint["channel_values"]["messages"] for _ in "ab")
    one[0].content = "mine"
    one[0].additional_kwargs["x"] = 1
    assert (two[0].content, two[0].additional_kwargs) == ("hello", {})
    again = saver.get_tuple(thread()).checkpoint["channel_values"]["messages"]
    assert (again[0].content, again[0].additional_kwargs) == ("hello", {})


def test_messages_that_json_cannot_hold_come_back_as_they_were(store):
    class State(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        others: Annotated[list[AnyMessage], operator.add]
        nested: dict[str, Any]

    tool = ToolMessage("t", tool_call_id="1", artifact=b"\x00\xff", id="tool")
    odd = AIMessage("nul \x00", id="odd", additional_kwargs={"at": timedelta(1)})

    def node(_given):
        call = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}], id="call")
        return {"messages": [call, tool], "others": [odd], "nested": {"deep": [odd, 1]}}

    saver = TokenMemorySaver(store)
    graph = StateGraph(State).add_node("n", node).add_edge(START, "n").compile(checkpointer=saver)
    say(graph, "go")
    for one in (saver, TokenMemorySaver(store)):
        values = one.get_tuple(thread()).checkpoint["channel_values"]
        assert values["messages"][-1] == tool
        assert values["others"] == [odd]
        assert values["nested"] == {"deep": [odd, 1]}
    assert len(store.messages("t")) == 3


# --- conflicts


def test_a_turn_from_an_old_head_is_refused_and_can_be_made_again(store):
    saver = TokenMemorySaver(store, on_conflict="raise")
    graph = chat(saver)
    say(graph, "one")
    stale = saver.get_tuple(thread())
    say(graph, "two")
    with pytest.raises(ThreadConflictError, match="'t'"):
        saver.put(stale.config, {**stale.checkpoint, "id": "9"}, {"source": "loop"}, {})
    assert len(say(graph, "three")["messages"]) == 6


def test_a_branch_is_logged_once_and_both_can_be_read(store, caplog):
    saver = TokenMemorySaver(store)
    graph = chat(saver)
    say(graph, "one")
    stale = saver.get_tuple(thread())
    say(graph, "two")
    with caplog.at_level(logging.WARNING, logger="langchain_tokenmem"):
        for name in ("8", "9"):
            saver.put(stale.config, {**stale.checkpoint, "id": name}, {"source": "loop"}, {})
    assert len(caplog.records) == 1
    read = saver.get_tuple(thread(checkpoint_id="8")).checkpoint["channel_values"]["messages"]
    assert words_of(read) == ["one", "answer 1"]


def test_named_checkpoints_are_gone_on_from_as_often_as_wished(store):
    graph = chat(TokenMemorySaver(store, on_conflict="raise"))
    say(graph, "one")
    say(graph, "two")
    states = list(graph.get_state_history(thread()))
    old = next(s for s in states if len(s.values["messages"]) == 2 and not s.next)
    for words in ("fork a", "fork b"):
        forked = graph.invoke({"messages": HumanMessage(words)}, old.config)
        assert words_of(forked["messages"]) == ["one", "answer 1", words, "answer 3"]
        named = graph.update_state(old.config, {"messages": HumanMessage(f"{words}, by hand")})
        assert len(graph.get_state(named).values["messages"]) == 3
    graph.update_state(old.config, None, as_node="__copy__")
    assert graph.invoke(None, states[-2].config)["messages"]


# --- strictness


class Mine(Decimal):
    """No type that states are made of."""


class WithMine(MessagesState):
    mine: Any  # LangGraph itself allows what a schema names when it is told to be strict


def test_a_type_that_is_not_allowed_is_refused_when_it_is_stored(store):
    builder = StateGraph(WithMine).add_node("n", lambda _: {"mine": Mine(7)})
    builder.add_edge(START, "n")
    strict = builder.compile(checkpointer=TokenMemorySaver(store))
    with pytest.raises(ConfigurationError, match=r"Mine.*allowed_types"):
        say(strict, "go")
    allowing = TokenMemorySaver(store, allowed_types=[Mine])
    graph = builder.compile(checkpointer=allowing)
    say(graph, "go", "t2")
    assert graph.get_state(thread("t2")).values["mine"] == Mine(7)
    with pytest.raises(CorruptStoreError, match=r"'t2'.*Mine"):
        TokenMemorySaver(store).get_tuple(thread("t2"))


def test_secrets_under_configurable_never_reach_the_metadata(store):
    saver = TokenMemorySaver(store, metadata_keys=["tenant"])
    more = {"api_key": "sk-1", "openai_api_key": "sk-2", "user_id": "u", "tenant": "acme"}
    say(chat(saver), "hi", **more)
    for found in saver.list(None):
        assert found.metadata["user_id"] == "u"
        assert found.metadata["tenant"] == "acme"
        assert "sk-" not in repr(found)


def test_an_encrypting_serializer_leaves_no_words_in_clear(tmp_path):
    pytest.importorskip("Crypto")
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    with TranscriptStore(f"sqlite:///{tmp_path}/e.db") as store:
        graph = chat(TokenMemorySaver(store, serde=serde))
        say(graph, "a very secret question")
        assert len(say(graph, "more")["messages"]) == 4
        assert store.messages("t") == []
    assert b"secret" not in (tmp_path / "e.db").read_bytes()


class Shift:
    """A cipher that refuses what another one wrote by an error of its own."""

    class RefusedError(Exception):
        pass

    def __init__(self, secret: bytes) -> None:
        self.secret = secret

    def encrypt(self, plain: bytes) -> tuple[str, bytes]:
        return "shift", self.secret + bytes(one ^ 1 for one in plain)

    def decrypt(self, _name: str, data: bytes) -> bytes:
        if not data.startswith(self.secret):
            raise self.RefusedError
        return bytes(one ^ 1 for one in data[len(self.secret) :])


def test_another_cipher_is_a_typed_error_that_says_so(store):
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

    mine, other = (EncryptedSerializer(Shift(secret)) for secret in (b"mine", b"other"))
    say(chat(TokenMemorySaver(store, serde=mine)), "hi")
    with pytest.raises(CorruptStoreError, match=r"Thread 't'.*RefusedError.*give the cipher"):
        TokenMemorySaver(store, serde=other).get_tuple(thread())
    assert TokenMemorySaver(store, serde=mine).get_tuple(thread()) is not None


@pytest.mark.parametrize(
    "given",
    [
        {"on_conflict": "ignore"},
        {"keep_last": 0},
        {"older_than": timedelta(0)},
        {"prune_every": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(store, given):
    with pytest.raises(ConfigurationError):
        TokenMemorySaver(store, **given)


@pytest.mark.parametrize("name", [1, "", "  ", None, "a\x1fb"])
def test_a_thread_is_a_text(store, name):
    with pytest.raises(ScopeError, match="thread_id"):
        TokenMemorySaver(store).get_tuple(thread(name))


def test_keys_of_a_filter_are_data(store):
    saver = TokenMemorySaver(store)
    say(chat(saver), "hi")
    for key in ("x') OR 1=1 --", "source' IS NOT NULL OR '1", "$.source", '"source"'):
        assert list(saver.list(None, filter={key: "loop"})) == []
    assert {t.metadata["source"] for t in saver.list(None, filter={"source": "loop"})} == {"loop"}


# --- damage


def test_damage_names_thread_and_checkpoint_and_spares_the_others(store):
    graph = chat(TokenMemorySaver(store))
    say(graph, "one", "a")
    say(graph, "two", "b")
    change(store, "UPDATE tokenmem_checkpoints SET body = zeroblob(9) WHERE thread_id = 'a'")
    fresh = TokenMemorySaver(store)
    with pytest.raises(CorruptStoreError, match=r"Thread 'a', checkpoint '.{36}'"):
        fresh.get_tuple(thread("a"))
    assert fresh.get_tuple(thread("b")) is not None
    fresh.delete_thread("a")
    assert fresh.get_tuple(thread("a")) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss",
    [
        "DELETE FROM tokenmem_messages WHERE seq = 2",
        "UPDATE tokenmem_messages SET message = replace(message, 'one', 'two')",
        "UPDATE tokenmem_checkpoints SET body = substr(body, 1, length(body) - 4)",
    ],
)
def test_what_is_missing_is_never_a_shorter_state(store, loss):
    graph = chat(TokenMemorySaver(store))
    say(graph, "one")
    change(store, loss)
    with pytest.raises(CorruptStoreError, match="'t'"):
        TokenMemorySaver(store).get_tuple(thread())


def test_retention_notices_a_large_value_that_is_hidden(store):
    saver, config = TokenMemorySaver(store), thread(checkpoint_ns="")
    for number in range(3):
        values = {"large": os.urandom(600).hex()}
        checkpoint = {**empty_checkpoint(), "channel_values": values}
        checkpoint["channel_versions"] = versions = {"large": f"{number}"}
        config = saver.put(config, checkpoint, {}, versions)
    change(store, "DELETE FROM tokenmem_checkpoint_values")
    with pytest.raises(CorruptStoreError, match="Thread 't': the value of a channel is missing"):
        saver.prune(["t"])
    assert len(rows(store, "SELECT 1 FROM tokenmem_checkpoints")) == 3


# --- retention, deletion, copies


@pytest.mark.slow
def test_keep_last_bounds_a_thread_and_leaves_the_transcript(store):
    saver = TokenMemorySaver(store, keep_last=4, prune_every=6)
    graph = chat(saver)
    for turn in range(10):
        say(graph, f"question {turn}")
        assert len(list(saver.list(thread()))) < 10
    assert len(store.messages("t")) == 20
    assert len(graph.get_state(thread()).values["messages"]) == 20
    assert len(rows(store, "SELECT 1 FROM tokenmem_messages WHERE seq IS NULL")) <= 10


@pytest.mark.slow
async def test_keep_last_works_behind_an_async_run(store):
    saver = TokenMemorySaver(store, keep_last=3, prune_every=3)
    graph = chat(saver)
    for turn in range(6):
        await graph.ainvoke({"messages": HumanMessage(f"q {turn}")}, thread())
    for task in list(saver._prune_tasks):
        await task
    assert len([one async for one in saver.alist(thread())]) <= 6


def test_older_than_keeps_the_head(store):
    saver = TokenMemorySaver(store)
    say(chat(saver), "old")
    head = saver.get_tuple(thread()).config
    saver.prune(["t"], older_than=timedelta(microseconds=1))
    assert [one.config for one in saver.list(thread())] == [head]


def test_the_memory_of_a_sub_graph_is_no_single_run(store):
    child = StateGraph(MessagesState).add_node("in", lambda s: {"messages": AIMessage("in")})
    lasting = child.add_edge(START, "in").compile(checkpointer=True)
    passing = child.compile()

    def route(given):
        return "lasting" if len(given["messages"]) == 1 else "passing"

    builder = StateGraph(MessagesState).add_node("lasting", lasting).add_node("passing", passing)
    builder.add_conditional_edges(START, route, ["lasting", "passing"])
    saver = TokenMemorySaver(store)
    graph = builder.compile(checkpointer=saver)
    for turn in range(3):
        say(graph, f"question {turn}")
    namespaces = {one.config["configurable"]["checkpoint_ns"] for one in saver.list(thread())}
    assert len(namespaces) == 4
    saver.prune(["t"])
    left = [one.config["configurable"]["checkpoint_ns"] for one in saver.list(thread())]
    assert sorted(left) == ["", "lasting"]


def test_an_unknown_strategy_deletes_nothing(store):
    saver = TokenMemorySaver(store)
    say(chat(saver), "hi")
    before = len(list(saver.list(thread())))
    with pytest.raises(ConfigurationError, match="keep_oldest"):
        saver.prune(["t"], strategy="keep_oldest")
    assert len(list(saver.list(thread()))) == before


def test_deleting_a_thread_takes_its_transcript_and_no_other(store, tmp_path):
    graph = chat(TokenMemorySaver(store))
    for name in ("t", "t2", "tt"):
        say(graph, f"the words of {name}", name)
    TokenMemorySaver(store).delete_thread("t")
    assert store.sessions() == ["t2", "tt"]
    for left in (
        "SELECT thread_id FROM tokenmem_checkpoints",
        "SELECT thread_id FROM tokenmem_sessions",
        "SELECT thread_id FROM tokenmem_checkpoint_writes",
        """SELECT thread_id FROM tokenmem_messages
        LEFT JOIN tokenmem_sessions ON id = session""",
    ):
        assert {name for (name,) in rows(store, left)} == {"t2", "tt"}
    say(graph, "anew", "t")
    assert words_of(store.messages("t")) == ["anew", "answer 1"]
    assert words_of(graph.get_state(thread()).values["messages"]) == ["anew", "answer 1"]
    assert b"the words of t\x22" not in (tmp_path / "saver.db").read_bytes()


def test_the_transcript_of_a_thread_cannot_be_cleared_from_under_it(store):
    say(chat(TokenMemorySaver(store)), "hi")
    with pytest.raises(StoreError, match="delete_thread"):
        store.clear("t")
    assert store.count("t") == 2


def test_a_copy_goes_its_own_way(store):
    saver = TokenMemorySaver(store)
    graph = chat(saver)
    say(graph, "one")
    say(graph, "two")
    saver.copy_thread("t", "copy")
    say(graph, "three", "copy")
    saver.prune(["t"], strategy="delete")
    said = ["one", "answer 1", "two", "answer 3", "three", "answer 5"]
    assert words_of(store.messages("copy")) == said
    assert words_of(graph.get_state(thread("copy")).values["messages"]) == said
    assert words_of(store.messages("t")) == said[:4]
    with pytest.raises(ConfigurationError, match="copy"):
        saver.copy_thread("copy", "copy")


def test_a_sub_graph_has_a_session_of_its_own(store):
    child = chat(None)
    builder = StateGraph(MessagesState).add_node("child", child).add_edge(START, "child")
    graph = builder.compile(checkpointer=TokenMemorySaver(store))
    say(graph, "one")
    say(graph, "two")
    inside = thread_session("t", "child:some-task")
    assert store.sessions() == ["t", inside]
    assert words_of(store.messages(inside)) == words_of(store.messages("t"))
    assert words_of(store.messages("t")) == ["one", "answer 1", "two", "answer 3"]


def test_a_node_with_two_interrupts_can_be_finished():
    class State(TypedDict):
        said: list[str]

    def ask(_state: State) -> State:
        return {"said": [interrupt("one"), interrupt("two")]}

    with TranscriptStore("sqlite://") as store:
        builder = StateGraph(State).add_node("ask", ask).add_edge(START, "ask")
        graph = builder.compile(checkpointer=TokenMemorySaver(store))
        config = {"configurable": {"thread_id": "t"}}
        graph.invoke({"said": []}, config)
        graph.invoke(Command(resume="first"), config)
        assert graph.invoke(Command(resume="second"), config) == {"said": ["first", "second"]}
