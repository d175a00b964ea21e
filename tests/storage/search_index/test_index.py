"""The search index of a store: outbox, partitions, vectors; derived, never the truth."""

from __future__ import annotations

import sqlite3

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage, SystemMessage

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.core.search_units import (
    MOST_PARTS,
    Change,
    Entry,
    Scope,
    pack_unit,
    unpack_unit,
)
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.storage.transcripts.encoded_message import key_of
from tests.storage.samples import turn


class Words:
    """An analyser that knows words by their spaces."""

    version = "words-1"

    def entries(self, source):
        terms = dict.fromkeys(source.text.split(), 1)
        return [Entry(0, len(terms), terms)] if terms else []


def rows_of(path, table):
    with sqlite3.connect(path) as connection:
        found = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608  our tables
    connection.close()
    return found


def counted(store, scope, *terms):
    store.index.index_lexical(scope)
    with store.index.reading(scope) as reader:
        return (0, {}) if reader is None else (reader.totals()[0], reader.counts(terms))


def test_units_are_packed_and_unpacked():
    top = (2**27 - 1, 2**24 - 1, MOST_PARTS - 1)
    assert unpack_unit(pack_unit(*top)) == top
    assert pack_unit(*top) < 2**63
    assert pack_unit(1, 2, 3) < pack_unit(1, 3) < pack_unit(2, 0)


def test_a_store_without_recall_writes_notes_only(file_store, path):
    for number in range(5):
        file_store.add("s", turn(number))
    assert rows_of(path, "tokenmem_terms") == []
    assert sorted(rows_of(path, "tokenmem_outbox")) == [
        ("lexical", "=s", 1),
        ("vectors", "=s", 1),
    ]
    assert file_store.index.index_lexical() == 0
    assert file_store.index.backlog() == {"lexical": 1, "vectors": 1}


def test_entries_are_part_of_the_append(store):
    store.index.attach(Words())
    store.add("s", turn(1))
    assert store.index.backlog() == {"lexical": 0, "vectors": 1}
    with pytest.raises(ConfigurationError):
        store.add("s", [HumanMessage("lost words"), RemoveMessage("q1")])
    assert counted(store, Scope("s"), "question", "lost") == (2, {"question": 1})


def test_what_is_sent_again_is_indexed_once(store):
    store.index.attach(Words())
    for end in (1, 2, 3):
        store.add("s", [message for number in range(end) for message in turn(number)])
    assert counted(store, Scope("s"), "question") == (6, {"question": 3})


def test_the_backlog_of_a_scope_is_taken_in_when_it_is_read(store):
    for user in ("ann", "bob"):
        store.add(f"{user}-1", turn(1), user_id=user)
        store.add(f"{user}-2", turn(2), user_id=user)
    store.index.attach(Words())
    assert counted(store, Scope("ann-1"), "question") == (2, {"question": 1})
    assert store.index.backlog()["lexical"] == 3
    assert counted(store, Scope("ann-1", "ann", whole_user=True), "question")[0] == 4
    assert store.index.backlog()["lexical"] == 2


@pytest.mark.slow
def test_more_than_one_batch_is_taken_in(store):
    store.add("s", [HumanMessage(f"word {n}", id=str(n)) for n in range(450)])
    store.index.attach(Words())
    assert store.index.index_lexical() == 450
    store.add("s", [HumanMessage("word last", id="last")])
    assert counted(store, Scope("s"), "word", "last") == (451, {"word": 451, "last": 1})


def test_listeners_hear_of_every_commit_and_never_fail_it(store, caplog):
    heard = []

    def fail(_change):
        raise RuntimeError("deaf")

    store.index.listen(fail)
    stop = store.index.listen(heard.append)
    store.add("s", turn(1))
    store.clear("s")
    store.erase(session_id="s")
    stop()
    stop()
    store.add("s", turn(1))
    assert [change.kind for change in heard] == ["added", "cleared", "erased"]
    assert all(isinstance(change, Change) for change in heard)
    assert "A listener of the store failed" in caplog.text


def test_a_claimed_session_moves_with_its_entries(store):
    store.index.attach(Words())
    store.add("s", turn(1))
    store.add("t", turn(2), user_id="u")
    store.add("s", turn(3), user_id="u")
    assert counted(store, Scope("s", "u", whole_user=True), "question") == (6, {"question": 3})
    assert counted(store, Scope("s"), "question") == (4, {"question": 2})


def test_a_session_claimed_without_new_messages_moves_as_well(store):
    store.index.attach(Words())
    store.add("s", turn(1))
    assert store.add("s", turn(1), user_id="u") == []
    assert counted(store, Scope("x", "u", whole_user=True), "question") == (2, {"question": 1})


def test_clear_empties_the_index_and_numbers_go_on(store):
    store.index.attach(Words())
    store.add("s", turn(1))
    store.clear("s")
    assert counted(store, Scope("s"), "question") == (0, {})
    assert store.index.backlog() == {"lexical": 0, "vectors": 0}
    store.add("s", turn(2))
    assert counted(store, Scope("s"), "question") == (2, {"question": 1})
    with store.index.reading(Scope("s")) as reader:
        assert {
            unpack_unit(unit)[1] for unit, *_ in reader.postings(["question"], 9)["question"]
        } == {3}


def test_numbers_of_erased_shelves_are_not_used_again(store):
    store.index.attach(Words())
    numbers = set()
    for _ in range(4):
        store.add("s", turn(1))
        numbers.add(store.index.partition("=s").number)
        store.erase(session_id="s")
    assert len(numbers) == 4


def test_history_is_read_from_its_end(store):
    store.add("s", [HumanMessage(str(n), id=f"m{n}") for n in range(10)], user_id="u")
    page = store.index.history(Scope("s"), None, 4)
    assert [source.text for source in page] == ["6", "7", "8", "9"]
    assert [source.text for source in store.index.history(Scope("s"), page[0].seq, 100)] == [
        str(n) for n in range(6)
    ]
    assert store.index.history(Scope("s"), 1, 4) == []
    assert store.index.history(Scope("nobody"), None, 4) == []
    with pytest.raises(ScopeError):
        store.index.history(Scope("s", "v"), None, 4)


def test_what_stands_on_a_shelf_is_told_with_role_and_time(store):
    store.add("s", [SystemMessage("be nice", id="x"), *turn(1)], user_id="u")
    found, last = store.index.sources_from(key_of("s"), 1, 2)
    assert [(source.seq, source.role, source.user_id) for source in found] == [
        (1, "system", "u"),
        (2, "human", "u"),
    ]
    assert last == 3


def test_a_damaged_vector_is_as_good_as_none(file_store, path):
    file_store.index.attach(Words())
    file_store.add("s", turn(1))
    partition = file_store.index.partition("=s").number
    one, two = pack_unit(partition, 1), pack_unit(partition, 2)
    file_store.index.put_vectors("model", {one: b"12345678", two: b"abcdefgh"})
    file_store.close()
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE tokenmem_vectors SET vector = ? WHERE unit = ?", (b"12345679", one)
        )
    connection.close()
    with file_store.index.reading_vectors() as reader:
        assert reader.vectors("model", [one, two]) == {two: b"abcdefgh"}


def test_a_damaged_index_is_made_anew(file_store, path):
    recall = Recall(file_store)
    file_store.add("s", turn(1))
    before = recall.search("question", session_id="s")
    file_store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM tokenmem_terms WHERE term = 'question'")
        connection.execute("UPDATE tokenmem_index_partitions SET unit_count = 0, owner_id = 77")
    connection.close()
    assert recall.search("question", session_id="s") == []
    recall.rebuild()
    assert recall.search("question", session_id="s") == before


def test_properties_are_kept_and_replaced(store):
    with store.index.reading_vectors() as reader:
        assert reader.get_property("x") is None
    store.index.set_property("x", {"a": [1, "ü"]})
    store.index.set_property("x", {"a": [2, "ü"]})
    with store.index.reading_vectors() as reader:
        assert reader.get_property("x") == {"a": [2, "ü"]}


def test_the_mark_of_what_the_memory_added_is_kept():
    with TranscriptStore("sqlite://") as store:
        added = HumanMessage("block", id="b", response_metadata={"tokenmem": {"added": True}})
        store.add("s", [added])
        found, _ = store.index.sources_from(key_of("s"), 1, 5)
        assert found[0].is_added
        assert store.messages("s") == [added]
