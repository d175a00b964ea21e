"""Sessions that nobody uses expire: whole, in batches, never one that is active, pinned, marked."""

import operator
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import MessagesState

from langchain_tokenmem import (
    Notebook,
    Recall,
    TokenMemoryChatHistory,
    TranscriptStore,
)
from langchain_tokenmem.errors import ConfigurationError, ScopeError, StoreError
from langchain_tokenmem.graphs import pin_update
from langchain_tokenmem.notes import SqlStore
from langchain_tokenmem.storage import lifecycle as expiring
from langchain_tokenmem.storage.tables import metadata
from tests.adapters.integrations import thread
from tests.storage.samples import graph_on, save_state, state

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


def answering(_state):
    return {"messages": [AIMessage("42")]}


def tables_in_use(store):
    """Return the names of the tables that have rows, but for the facts of the database."""
    with store.database.reading("Test") as connection:
        tables = [t for t in metadata.tables.values() if connection.execute(t.select()).first()]
    return {table.name for table in tables} - {"tokenmem_facts"}


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
    graph = graph_on(store, answering)
    graph.invoke({"messages": [HumanMessage("hi", id="h")]}, thread("t"))
    before = tables_in_use(store)
    store.add("s", [HumanMessage("Where is the lamp?")], user_id="ann")
    recall.add_documents([Document("The lamp is on the desk.")], session_id="s")
    notes.add("The lamp is green.", session_id="s", level="session")
    save_state(store, "s", state("x"))
    store.lease("s", "me", 60)
    assert tables_in_use(store) > before
    report = store.expire(MONTH, now=LATER)
    assert set(report.expired) == {"s", "t"}
    assert tables_in_use(store) == set()
    assert report.counts["checkpoints"] == 3
    assert report.counts["documents"] == report.counts["items"] == 1


USES = {
    "message": lambda store: store.add("s", [AIMessage("yes")]),
    "edit": lambda store: store.add("s", [HumanMessage("hello", id="h")]),
    "document": lambda store: Recall(store).add_documents([Document("text")], session_id="s"),
    "note": lambda store: Notebook(SqlStore(store)).add("Hi.", session_id="s", level="session"),
    "checkpoint": lambda store: graph_on(store, answering, dict).invoke({}, thread("s")),
}


@pytest.mark.parametrize("what", USES)
def test_every_kind_of_use_counts_as_activity(store, what):
    store.add("s", [HumanMessage("hi", id="h")], now=datetime(2020, 1, 31, tzinfo=UTC))
    USES[what](store)
    assert store.expire(MONTH).expired == ()
    assert store.expire(MONTH, now=LATER).expired == ("s",)


def test_a_pin_in_the_state_of_a_graph_keeps_its_thread_and_one_that_is_gone_does_not(store):
    graph = graph_on(store, answering, Pinned)
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
        if job := store._expiry._runner.job("expiry"):
            job.future.result(10)
    assert "the database is away" in caplog.text
