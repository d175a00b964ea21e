"""Threads move between savers whole, or it is said what does not."""

import pickle
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.adapters.migration import migrate_checkpoints
from langchain_tokenmem.errors import ConfigurationError, ScopeError, StoreError
from tests.adapters.integrations import at, put

TIME = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass
class Plan:
    """A type of the application's own."""

    step: int


@pytest.fixture
def other():
    with TranscriptStore("sqlite://", shared=True) as store:
        yield store


def test_a_type_that_is_not_allowed_is_refused_and_not_made_a_dict(store):
    source = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=[]))
    put(source, at(), "1", {"plan": Plan(1)})
    with pytest.raises(ConfigurationError, match=rf"'t'.*--allow {__name__}:Plan"):
        migrate_checkpoints(source, TokenMemorySaver(store), threads=["t"])
    assert list(TokenMemorySaver(store).list(None)) == []
    source.serde = JsonPlusSerializer(allowed_msgpack_modules=[Plan])
    target = TokenMemorySaver(store, allowed_types=[Plan])
    assert migrate_checkpoints(source, target).copied == 1
    assert target.get_tuple(at()).checkpoint["channel_values"] == {"plan": Plan(1)}


def test_the_transcript_comes_along_with_what_no_checkpoint_has(store, other):
    source, target = TokenMemorySaver(store), TokenMemorySaver(other)
    first = [HumanMessage("hi", id="q"), AIMessage("yes"), AIMessage("yes")]
    store.add("t", first, user_id="ann", now=TIME)
    store.add("t\x1fchild", [HumanMessage("aside", id="a")], now=TIME)
    put(source, at(), "1", {"messages": [*first, HumanMessage("on", id="o")]})
    put(source, at(ns="child:1"), "2", {"n": 1})
    for _ in range(2):
        migrate_checkpoints(source, target)
        assert other.rows("t") == store.rows("t")
        assert [row.was_named for row in other.rows("t")] == [True, False, False, True]
        assert other.rows("t\x1fchild") == store.rows("t\x1fchild")
        assert other.sessions(user_id="ann") == ["t", "t\x1fchild"]
    other.erase(session_id="t")
    other.add("t", first[:1], user_id="bob")
    with pytest.raises(ScopeError, match="another user"):
        migrate_checkpoints(source, target)


def test_the_user_of_the_metadata_owns_the_thread(store):
    source, target = InMemorySaver(), TokenMemorySaver(store)
    put(source, at(), "1", {"messages": [HumanMessage("hi", id="q")]}, user_id="ann")
    put(source, at("u"), "1", {"messages": [HumanMessage("hi", id="q")]}, user_id=7)
    assert migrate_checkpoints(source, target).copied == 2
    assert store.sessions(user_id="ann") == ["t"]
    assert store.sessions() == ["t", "u"]


def test_a_target_that_went_on_is_left_as_it_is(store):
    source, target = InMemorySaver(), TokenMemorySaver(store)
    asked = put(source, at(), "1")
    source.put_writes(asked, [("__interrupt__", "name?")], "task")
    migrate_checkpoints(source, target)
    copy = target.get_tuple(at()).config
    target.put_writes(copy, [("__resume__", "bob")], "task")
    target.put_writes(copy, [("n", 1)], "task")
    put(target, copy, "2")
    before = target.get_tuple(at(checkpoint_id="1"))
    report = migrate_checkpoints(source, target)
    assert (report.copied, report.known) == (0, 1)
    assert target.get_tuple(at(checkpoint_id="1")) == before

    source.put_writes(asked, [("n", 2)], "task")
    with pytest.raises(StoreError, match="the target has continued from it"):
        migrate_checkpoints(source, target)
    assert target.get_tuple(at(checkpoint_id="1")) == before


def test_what_the_source_cannot_read_is_an_error(store):
    class Pickling(JsonPlusSerializer):
        def dumps_typed(self, value):
            return "pickle", pickle.dumps(value)

    source = InMemorySaver(serde=Pickling())
    put(source, at(), "1", {"n": 1})
    with pytest.raises(StoreError, match=r"'t'.*a saver that reads it"):
        migrate_checkpoints(source, TokenMemorySaver(store), threads=["t"])


def test_an_id_that_no_thread_can_have_is_left_out_and_named(store):
    source, target = InMemorySaver(), TokenMemorySaver(store)
    for thread in ("t", " ", 7):
        put(source, at(thread), "1")
    report = migrate_checkpoints(source, target)
    assert (report.threads, report.skipped) == (2, (" ",))
    assert store.sessions() == ["7", "t"]
    with pytest.raises(ScopeError, match="thread_id is ' '"):
        migrate_checkpoints(source, target, threads=[" "])
