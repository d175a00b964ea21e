"""Items in the database of a transcript store: erased with their user or session, checked."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage
from sqlalchemy import text

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.core.thread_names import notes_of_session, notes_of_user
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.notes import SqlStore

ANN = (*notes_of_user("ann@example.com"), "global")


@pytest.fixture
def transcripts():
    with TranscriptStore("sqlite://", shared=True) as store:
        yield store


@pytest.fixture
def store(transcripts) -> SqlStore:
    return SqlStore(transcripts)


def left(store: SqlStore) -> set[tuple[str, ...]]:
    return {item.namespace for item in store.search((), limit=100)}


def test_erase_is_one_transaction(store, transcripts, monkeypatch):
    transcripts.add("s", [HumanMessage("hi")], user_id="ann")
    store.put(notes_of_session("ann", "s"), "k", {"x": 1})

    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("langchain_tokenmem.storage.lifecycle.delete_threads", fail)
    with pytest.raises(ZeroDivisionError):
        transcripts.erase(user_id="ann")
    assert left(store) == {notes_of_session("ann", "s")}
    assert transcripts.count("s") == 1


def test_a_damaged_item_is_an_error_until_it_is_put_anew_or_deleted(store, transcripts):
    for key in "ab":
        store.put(ANN, key, {"x": 1})
    with transcripts.database.writing("test") as connection:
        connection.execute(text("UPDATE tokenmem_items SET value = '{'"))
    for read in (lambda: store.get(ANN, "a"), lambda: store.search(ANN)):
        with pytest.raises(CorruptStoreError, match="cannot be read"):
            read()
    store.put(ANN, "a", {"x": 2})
    store.delete(ANN, "b")
    assert [item.value for item in store.search(ANN)] == [{"x": 2}]
