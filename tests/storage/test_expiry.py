"""Sessions that nobody uses expire: whole, in batches, never one that is active, pinned, marked."""

import operator
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tokenmem import (
    Notebook,
    Recall,
    TokenMemoryChatHistory,
    TokenMemorySaver,
    TranscriptStore,
)
from langchain_tokenmem.errors import ConfigurationError, ScopeError, StoreError
from langchain_tokenmem.graphs import pin_update
from langchain_tokenmem.notes import SqlStore
from langchain_tokenmem.storage import lifecycle as expiring
from langchain_tokenmem.storage.tables import metadata
from tests.adapters.integrations import thread
from tests.storage.samples import save_state, state

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
LATER = datetime.now(UTC) + timedelta(days=100)
"""Checkpoints, documents and notes have the time of the clock."""
MONTH = timedelta(days=30)


def said(store, session_id, days, *, user_id=None, text="hi"):
    """Let a session have had its last message so many days before `NOW`."""
    at = NOW - timedelta(days=days)
    store.add(session_id, [HumanMessage(text), AIMessage("yes")], user_id=user_id, now=at)


class Pinned(MessagesState):
    token_memory_pins: Annotated[dict, operator.or_]


def graph_of(store, schema=MessagesState, **options):
    builder = StateGraph(schema).add_node("answer", lambda _: {"messages": [AIMessage("42")]})
    return builder.add_edge(START, "answer").compile(
        checkpointer=TokenMemorySaver(store, **options)
    )


def rows(store):
    """Return how many rows of every table there are, but for the facts of the database."""
    found = {}
    with store.database.reading("Test") as connection:
        for table in metadata.tables.values():
            count = len(connection.execute(table.select()).all())
            if count and table.name != "tokenmem_facts":
                found[table.name] = count
    return found


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 90), st.sampled_from("-pk")), max_size=5))
@settings(max_examples=10)
def test_only_what_is_inactive_and_neither_pinned_nor_marked_expires(sessions):
    with TranscriptStore("sqlite://") as store:
        for number, (days, staying) in enumerate(sessions):
            said(store, f"s{number}", days)
            if staying == "p":
                TokenMemoryChatHistory(f"s{number}", store=store).pin("Answer in French.")
            if staying == "k":
                store.keep_session(f"s{number}")
        going = {f"s{n}" for n, (days, why) in enumerate(sessions) if days > 30 and why == "-"}
        dry = store.expire(MONTH, dry_run=True, now=NOW)
        assert len(store.sessions()) == len(sessions)
        report = store.expire(MONTH, now=NOW)
        assert set(report.expired) == set(dry.expired) == going
        assert report.pinned == sum(days > 30 and why == "p" for days, why in sessions)
        assert report.kept == sum(days > 30 and why == "k" for days, why in sessions)
        assert set(store.sessions()) == {f"s{n}" for n in range(len(sessions))} - going
        assert report.counts.get("messages", 0) == 2 * len(going) == dry.counts.get("messages", 0)


def test_a_session_expires_whole_and_nothing_of_it_is_left(store):
    recall, notes = Recall(store), Notebook(SqlStore(store))
    graph = graph_of(store)
    graph.invoke({"messages": [HumanMessage("hi", id="h")]}, thread("t"))
    before = rows(store).keys()
    store.add("s", [HumanMessage("Where is the lamp?")], user_id="ann")
    recall.add_documents([Document("The lamp is on the desk.")], session_id="s")
    notes.add("The lamp is green.", session_id="s", level="session")
    save_state(store, "s", state("x"))
    store.lease("s", "me", 60)
    assert rows(store).keys() > before
    report = store.expire(MONTH, now=LATER)
    assert set(report.expired) == {"s", "t"}
    assert rows(store) == {}
    assert report.counts["checkpoints"] == 3
    assert report.counts["documents"] == report.counts["items"] == 1


@pytest.mark.parametrize("what", ["message", "edit", "document", "note", "checkpoint"])
def test_every_kind_of_use_counts_as_activity(store, what):
    long_ago = datetime(2020, 1, 31, tzinfo=UTC)
    store.add("s", [HumanMessage("hi", id="h")], now=long_ago)
    if what == "message":
        store.add("s", [AIMessage("yes")])
    elif what == "edit":
        store.add("s", [HumanMessage("hello", id="h")])
    elif what == "document":
        Recall(store).add_documents([Document("text")], session_id="s")
    elif what == "note":
        Notebook(SqlStore(store)).add("A note.", session_id="s", level="session")
    else:
        graph_of(store, dict).invoke({}, thread("s"))
    assert store.expire(MONTH).expired == ()
    assert store.expire(MONTH, now=LATER).expired == ("s",)


def test_a_pin_in_the_state_of_a_graph_keeps_its_thread_and_one_that_is_gone_does_not(store):
    graph = graph_of(store, Pinned)
    for name, text in (("short", "Answer in French."), ("long", "Answer in French. " * 40)):
        graph.invoke({"messages": ["hi"]}, thread(name))
        graph.update_state(thread(name), pin_update(text))
    graph.invoke({"messages": ["hi"]}, thread("none"))
    report = store.expire(MONTH, now=LATER)
    assert (report.expired, report.pinned) == (("none",), 2)
    graph.update_state(thread("short"), pin_update("Answer in French.", unpin=True))
    assert store.expire(MONTH, now=LATER).expired == ("short",)


def test_a_mark_is_of_its_owner_is_listed_taken_back_and_erased(store):
    said(store, "s", 40, user_id="ann")
    with pytest.raises(ScopeError):
        store.keep_session("s", user_id="bob")
    store.keep_session("s", user_id="ann")
    store.keep_session("later")
    assert store.kept_sessions() == ["later", "s"]
    assert store.expire(MONTH, now=NOW).kept == 1
    store.keep_session("s", keep=False)
    assert store.expire(MONTH, now=NOW).expired == ("s",)
    store.erase("later")
    assert store.kept_sessions() == []


def test_without_a_time_that_can_be_nothing_is_deleted(store):
    said(store, "s", 4_000)
    for wrong in (timedelta(0), timedelta(days=-1), 30, timedelta.max):
        with pytest.raises(ConfigurationError, match="inactive_for is"):
            store.expire(wrong)
        with pytest.raises(ConfigurationError, match="expire_every is"):
            TranscriptStore("sqlite://", inactive_for=MONTH, expire_every=wrong)
    with pytest.raises(ConfigurationError, match="expire\\(inactive_for="):
        store.expire()
    assert store.sessions() == ["s"]


def test_an_automatic_run_that_fails_is_logged_and_fails_no_turn(path, monkeypatch, caplog):
    def fail(*_args, **_kwargs):
        raise StoreError("the database is away")

    monkeypatch.setattr(expiring, "expire_inactive", fail)
    policy = {"inactive_for": MONTH, "expire_every": timedelta(hours=1)}
    with TranscriptStore(path, **policy) as store:
        assert store.add("s", [HumanMessage("hi", id="h")]) == ["h"]
        job = store._expiry._runner.job("expiry")
        if job is not None:
            job.future.result(10)
    assert "the database is away" in caplog.text
