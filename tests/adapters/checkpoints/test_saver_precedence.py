"""Pending writes give way to the checkpoint that takes them up."""

from __future__ import annotations

import threading

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import func, select

from langchain_tokenmem import ThreadConflictError, TokenMemorySaver, TranscriptStore
from langchain_tokenmem.storage.checkpoints import precedence
from langchain_tokenmem.storage.checkpoints.precedence import Precedence
from langchain_tokenmem.storage.checkpoints.tables import contents
from tests.adapters.checkpoints.test_saver_field_failures import at, put

SECONDS = 10
ANSWER = AIMessage("42", id="a1")


@pytest.fixture
def store(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path / 'chat.db'}") as made:
        yield made


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(precedence, "_PATIENCE", SECONDS)


def contents_in(store):
    with store.database.reading("contents") as connection:
        return connection.execute(select(func.count()).select_from(contents)).scalar()


def test_a_message_of_a_write_is_stored_where_the_checkpoint_has_stored_it(store):
    saver = TokenMemorySaver(store)
    first = put(saver, at("t1"), {"messages": [HumanMessage("?", id="h1")]})
    other = put(saver, at("t2"), {})
    stored, may_go_on = threading.Event(), threading.Event()

    def told(_change):
        stored.set()
        assert may_go_on.wait(SECONDS)

    stop = store.index.listen(told)
    said = {"messages": [HumanMessage("?", id="h1"), ANSWER]}
    checkpoint = threading.Thread(target=put, args=(saver, first, said, "2.0"))
    checkpoint.start()
    assert stored.wait(SECONDS)
    writes = threading.Thread(
        target=saver.put_writes, args=(first, [("messages", [ANSWER])], "task")
    )
    writes.start()
    writes.join(0.2)
    assert writes.is_alive()
    saver.put_writes(other, [("messages", [HumanMessage("!", id="h2")])], "task")  # does not wait
    before = contents_in(store)
    may_go_on.set()
    stop()
    for thread in (checkpoint, writes):
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert saver.get_tuple(first).pending_writes == [("task", "messages", [ANSWER])]
    assert contents_in(store) == before


def test_writes_wait_for_no_checkpoint_that_was_refused(store):
    saver = TokenMemorySaver(store, on_conflict="raise")
    first = put(saver, at("t1"), {"messages": [HumanMessage("?", id="h1")]})
    put(saver, first, {"messages": [HumanMessage("?", id="h1"), ANSWER]}, "2.0")
    with pytest.raises(ThreadConflictError):
        put(saver, first, {"messages": []}, "2.0")
    assert not saver._checkpoints._precedence._storing
    saver.put_writes(first, [("messages", [ANSWER])], "task")
    assert saver.get_tuple(first).pending_writes == [("task", "messages", [ANSWER])]


def test_of_two_checkpoints_the_first_to_end_does_not_end_the_wait_for_the_other():
    rule = Precedence()
    older = rule.storing("t1")
    older.__enter__()
    with rule.storing("t1"):
        older.__exit__(None, None, None)
        waiting = threading.Thread(target=rule.give_way, args=("t1",))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
    waiting.join(SECONDS)
    assert not waiting.is_alive()


def test_writes_wait_only_for_so_long(monkeypatch):
    monkeypatch.setattr(precedence, "_PATIENCE", 0.01)
    rule = Precedence()
    with rule.storing("t1"):
        rule.give_way("t1")  # as in a child of a process that was storing one
        assert rule._storing
    assert not rule._storing
