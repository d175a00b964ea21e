"""Ids, order, duplicates; and limits that keep groups whole."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.core.messages import groups
from langchain_tokenmem.errors import ConfigurationError
from tests.storage.samples import texts, turn
from tests.strategies import conversations

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def test_the_same_message_twice_in_one_batch_is_stored_once(store):
    message = HumanMessage("hi", id="m")
    assert store.add("s", [message, message, AIMessage("yo", id="n"), message]) == ["m", "n"]
    assert texts(store.messages("s")) == ["hi", "yo"]


def test_full_resends_by_id_are_stored_once(store):
    everything: list[BaseMessage] = []
    for number in range(5):
        everything += turn(number, results=2)
        store.add("s", everything)
    for _ in range(10):
        assert store.add("s", everything) == []
    assert store.messages("s") == everything


def test_full_resends_without_ids_are_stored_once(store):
    said: list[BaseMessage] = []
    for number in range(10):
        said += [HumanMessage(f"question {number % 2}"), AIMessage("yes")]
        assert len(store.add("s", said)) == 2
    for _ in range(10):
        assert store.add("s", said) == []
    assert texts(store.messages("s")) == texts(said)


def test_a_resent_window_is_recognised_by_one_id_in_it(store):
    first = [HumanMessage("a"), AIMessage("b", id="b"), HumanMessage("c"), AIMessage("d", id="d")]
    store.add("s", first)
    assert store.add("s", [HumanMessage("c"), AIMessage("d", id="d"), HumanMessage("e")])
    assert texts(store.messages("s")) == ["a", "b", "c", "d", "e"]


def test_messages_that_were_read_back_can_be_sent_again(store):
    store.add("s", [HumanMessage("a"), AIMessage("b")])
    for number in range(3):
        store.add("s", [*store.messages("s"), HumanMessage(f"next {number}")])
    assert texts(store.messages("s")) == ["a", "b", "next 0", "next 1", "next 2"]


def test_the_same_short_answer_said_again_is_stored_each_time(store):
    for _ in range(6):
        assert len(store.add("s", [HumanMessage("yes")])) == 1
    assert store.count("s") == 6


def test_a_turn_that_repeats_the_last_ones_words_is_stored(store):
    store.add("s", [HumanMessage("yes"), AIMessage("ok", id="1")])
    store.add("s", [HumanMessage("yes"), AIMessage("ok", id="2")])
    assert texts(store.messages("s")) == ["yes", "ok", "yes", "ok"]


@pytest.mark.slow
def test_resends_of_long_repetitive_lists_are_recognised(store):
    said = [HumanMessage("yes") for _ in range(1_500)]
    assert len(store.add("s", said)) == 1_500
    assert store.add("s", said) == []
    assert len(store.add("s", said[1:])) == 1_499


def test_after_a_clear_the_same_messages_are_stored_anew(store):
    said = [HumanMessage("a"), AIMessage("b", id="b")]
    store.add("s", said)
    assert store.clear("s") == 2
    assert len(store.add("s", said)) == 2
    assert [row.seq for row in store.rows("s")] == [3, 4]


@pytest.mark.slow
def test_a_thousand_messages_with_one_timestamp_come_back_in_order(store):
    for number in range(1_000):
        store.add("s", [HumanMessage(str(number))], now=NOW)
    rows = store.rows("s")
    assert texts([row.message for row in rows]) == [str(number) for number in range(1_000)]
    assert [row.seq for row in rows] == list(range(1, 1_001))
    assert {row.created_at for row in rows} == {NOW}


def test_a_batch_with_a_remove_message_is_refused_whole(store):
    with pytest.raises(ConfigurationError, match="clear"):
        store.add("s", [HumanMessage("a"), RemoveMessage("x")])
    assert store.count("s") == 0


def test_last_n_gives_the_newest_messages_in_order(store):
    store.add("s", [message for number in range(30) for message in turn(number)])
    assert texts(store.last("s", 3)) == ["answer 28", "question 29", "answer 29"]
    assert store.last("s", 0) == []
    assert store.last("s", -1) == []
    assert store.last("nobody", 5) == []
    assert len(store.last("s", 1_000)) == 60


def test_last_n_never_separates_a_call_from_its_results(store):
    store.add("s", [message for number in range(3) for message in turn(number, results=40)])
    found = store.last("s", 5)
    assert found == store.messages("s")[-42:]
    assert store.last("s", 1) == store.messages("s")[-1:]


def test_orphaned_results_do_not_make_last_n_return_everything(store):
    orphans = [ToolMessage("r", tool_call_id=f"c{i}", id=f"t{i}") for i in range(300)]
    store.add("s", orphans)
    assert store.last("s", 4) == orphans[-4:]


@pytest.mark.slow
@given(conversations(max_size=60), st.integers(1, 12))
def test_last_n_is_the_shortest_end_of_whole_groups(said, n):
    with TranscriptStore("sqlite://") as store:
        store.add("s", said)
        everything = store.messages("s")
        wanted: list[BaseMessage] = []
        for group in reversed(groups(everything)):
            if len(wanted) >= n:
                break
            wanted = [*group.messages, *wanted]
        assert store.last("s", n) == wanted
