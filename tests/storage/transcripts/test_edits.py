"""Other words under a known id supersede; resends do not; damage of edits is noticed."""

from __future__ import annotations

import logging

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import text

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import CorruptStoreError
from tests.storage.samples import texts


def human(words: str, name: str = "m") -> HumanMessage:
    return HumanMessage(words, id=name)


def test_other_words_under_a_known_id_supersede_at_the_same_place(store):
    store.add("s", [human("first"), AIMessage("ok", id="a")])
    assert store.add("s", [human("second"), human("more", "n")]) == ["n"]
    assert texts(store.messages("s")) == ["second", "ok", "more"]
    assert [row.seq for row in store.rows("s")] == [1, 2, 3]
    assert texts(store.last("s", 3)) == ["second", "ok", "more"]
    assert texts([row.message for row in store.conversation("s")[1]]) == ["second", "ok", "more"]
    assert store.get("s", "m").content == "second"
    assert store.get("s", "m", include_superseded=True).content == "first"
    everything = store.messages("s", include_superseded=True)
    assert texts(everything) == ["first", "second", "ok", "more"]
    marks = [m.response_metadata.get("tokenmem") for m in everything]
    assert marks == [{"superseded": 0}, None, None, None]


def test_words_that_a_message_had_before_are_a_resend_and_change_nothing(store):
    for words in ("first", "second", "third"):
        store.add("s", [human(words)])
    for resent in ("first", "second", "third"):
        store.add("s", [human(resent), AIMessage("ok", id="a")])
        assert texts(store.messages("s")) == ["third", "ok"]
    store.add("s", store.messages("s", include_superseded=True))
    assert texts(store.messages("s")) == ["third", "ok"]
    assert len(store.messages("s", include_superseded=True)) == 4


def test_in_one_batch_the_last_words_of_an_id_count(store):
    assert store.add("s", [human("one"), human("two"), human("three")]) == ["m"]
    assert texts(store.messages("s")) == ["three"]


def test_an_answer_under_the_id_of_another_is_told_and_a_redaction_is_not(store, caplog):
    store.add("s", [human("raw"), AIMessage("one", id="always")])
    with caplog.at_level(logging.WARNING):
        store.add("s", [human("redacted")])
        assert caplog.text == ""
        store.add("s", [AIMessage("two", id="always")])
    assert "always was there with other words" in caplog.text


def test_sessions_share_no_edits(store):
    for name in ("s", "t"):
        store.add(name, [human("first")])
    store.add("s", [human("second")])
    assert texts(store.messages("t", include_superseded=True)) == ["first"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE tokenmem_messages SET message = replace(message, 'redacted', 'raw')",
        "UPDATE tokenmem_messages SET message = NULL WHERE is_shown",
        "DELETE FROM tokenmem_messages WHERE seq = 1",
    ],
)
def test_a_damaged_or_missing_edit_is_an_error_and_never_the_superseded_words(store, damage):
    store.add("s", [human("raw"), AIMessage("ok", id="a")])
    store.add("s", [human("redacted")])
    with store.database.writing("damage") as connection:
        connection.execute(text(damage))
    for read in (
        lambda: store.messages("s"),
        lambda: store.messages("s", include_superseded=True),
    ):
        with pytest.raises(CorruptStoreError):
            read()


def test_a_hidden_pointer_message_leaves_the_conversation_behind_it(store):
    graph = (
        StateGraph(MessagesState)
        .add_node("answer", lambda _state: {"messages": [AIMessage("ok", id="a")]})
        .add_edge(START, "answer")
        .compile(checkpointer=TokenMemorySaver(store, on_remove="hide"))
    )
    config = {"configurable": {"thread_id": "s"}}
    graph.invoke({"messages": [human("one", "m1"), human("two", "m2")]}, config)
    graph.update_state(config, {"messages": [RemoveMessage(id="m2")]})
    assert texts(store.messages("s")) == ["one", "ok"]
    assert texts(store.last("s", 2)) == ["one", "ok"]
    assert store.named("s", ["m2"]) == []
    assert store.count("s") == 3


@pytest.mark.slow
def test_a_process_without_recall_takes_superseded_words_out_of_the_index(tmp_path):
    from langchain_tokenmem import Recall

    url = f"sqlite:///{tmp_path}/memory.db"
    with TranscriptStore(url) as store, Recall(store):
        store.add("s", [human("The code is QUOKKA."), human("The key is here.", "n")])
    with TranscriptStore(url) as store:
        store.add("s", [human("The code is WOMBAT.")])
        with store.database.reading("terms") as connection:
            count = text("SELECT count(*) FROM tokenmem_terms WHERE term = 'quokka'")
            assert connection.execute(count).scalar() == 0
    with TranscriptStore(url) as store, Recall(store) as recall:
        found = recall.search("code WOMBAT", session_id="s", k=1)
        assert [hit.text for hit in found] == ["The code is WOMBAT."]
        assert [hit.message_id for hit in recall.search("key", session_id="s", k=1)] == ["n"]
        with store.database.reading("totals") as connection:
            totals = connection.execute(
                text("SELECT unit_count, term_count FROM tokenmem_sessions")
            ).all()
        recall.rebuild()
        with store.database.reading("totals") as connection:
            assert (
                totals
                == connection.execute(
                    text("SELECT unit_count, term_count FROM tokenmem_sessions")
                ).all()
            )


@pytest.mark.slow
def test_vectors_of_words_that_were_edited_while_they_were_embedded_are_not_stored(store):
    store.add("s", [human("first")])
    read = store.index.session(1)
    store.add("s", [human("second")])
    with store.index.reading_vectors() as reader:
        assert reader.count_vectors("model") == 0
    unit = (1 << 36) | (1 << 12)
    store.index.put_vectors("model", {unit: b"12345678"}, unless_edited=(1, read.edits))
    assert store.index.acknowledge_vectors(1, 1, start=1, edits=read.edits) == 1
    with store.index.reading_vectors() as reader:
        assert reader.count_vectors("model") == 0
    assert store.index.pending("vectors")
    now = store.index.session(1).edits
    store.index.put_vectors("model", {unit: b"12345678"}, unless_edited=(1, now))
    assert store.index.acknowledge_vectors(1, 1, start=1, edits=now) == 2
    assert store.index.pending("vectors") == []
