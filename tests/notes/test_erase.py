"""Notes go: erased in any store, checked by reading back, or expired with their session."""

import asyncio
from datetime import timedelta

import pytest
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from langchain_tokenmem.errors import ScopeError, StoreError
from langchain_tokenmem.notes import JsonStore
from tests.contract.chats import bytes_of
from tests.notes.conftest import NOON, notebook_on, opened

ANN = {"user_id": "ann", "session_id": "s1"}
LEVELS = ("session", "project", "global")
HOUR = timedelta(hours=1)


def texts(store):
    return sorted(item.value["content"] for item in store.search(("tokenmem",), limit=100))


def test_erasing_reaches_all_of_a_session_or_a_user_and_nothing_else(notebook, store):
    for user in ("ann", "a.nn", "bob"):
        for level in LEVELS:
            notebook.add(f"{user} {level}", level=level, user_id=user, session_id=f"{user}-1")
    notebook.add("second", level="session", user_id="ann", session_id="ann-2")
    notebook.add("without a user", level="session", session_id="alone")
    notebook_on(store, project="bakery").add("bread", user_id="ann")
    store.put(("memories", "ann"), "1", {"text": "of the application"})
    assert notebook.erase(session_id="ann-1", user_id="bob") == 0
    assert notebook.erase(session_id="ann-1") == notebook.erase(session_id="alone") == 1
    assert {"ann project", "ann global", "second"} <= set(texts(store))
    assert notebook.erase(user_id="ann") == 4
    assert store.get(("memories", "ann"), "1")
    assert not [text for text in texts(store) if text.startswith(("ann", "bread", "second"))]
    assert len(texts(store)) == 6
    assert notebook.erase(user_id="ann") == 0


def test_erasing_needs_a_user_or_a_session(notebook):
    for owner, error in (({}, "erased"), ({"user_id": " "}, "blank")):
        with pytest.raises(ScopeError, match=error):
            notebook.erase(**owner)


@pytest.mark.parametrize("what", [{"user_id": "ann"}, {"session_id": "s1"}, ANN])
def test_what_was_erased_is_not_on_the_disk_when_erase_returns(own_store, tmp_path, what):
    notebook = notebook_on(own_store)
    notebook.add("the secret word", level="session", **ANN)
    if isinstance(own_store, JsonStore):
        own_store.flush()
    assert b"the secret word" in bytes_of(tmp_path)
    assert notebook.erase(**what) == 1
    assert b"the secret word" not in bytes_of(tmp_path)
    assert asyncio.run(notebook.aerase(**what)) == 0


def test_a_store_that_keeps_what_it_was_told_to_delete_is_found_out():
    class Keeper(InMemoryStore):
        def batch(self, ops):
            kept = [op for op in ops if not (isinstance(op, PutOp) and op.value is None)]
            return super().batch(kept)

    notebook = notebook_on(Keeper())
    notebook.add("x", user_id="ann")
    with pytest.raises(StoreError, match="still holds 1 of 1"):
        notebook.erase(user_id="ann")


# Lifetimes: the setting of the notebook, or that of its store


@pytest.fixture(params=["its own lifetime", "a default_ttl of the store"])
def place(request, tmp_path):
    """A store, and the options of its notebook for the lifetime of notes."""
    if request.param == "its own lifetime":
        yield InMemoryStore(), {"session_lifetime": HOUR}
    else:
        with opened("sqlite", tmp_path, ttl={"default_ttl": 60}) as store:
            yield store, {}


def test_a_sessions_note_that_has_expired_is_not_shown_and_a_new_one_deletes_it(place):
    store, options = place
    clock = [NOON]
    notebook = notebook_on(store, now=lambda: clock[0], **options)
    notes = [notebook.add(f"{level} tabs", level=level, **ANN) for level in LEVELS]
    notebook.add("another", level="session", **ANN)
    clock[0] += timedelta(minutes=59)
    assert len(notebook.list(**ANN)) == 4
    clock[0] += timedelta(minutes=1)
    for found in (notebook.list(**ANN), notebook.search("tabs", **ANN)):
        assert {note.type for note in found} == {"project", "global"}
    assert notebook.get(notes[0].id, **ANN) is None
    assert notebook.remove(notes[0].id, **ANN) is None
    again = notebook.add("session tabs", level="session", **ANN)
    assert again.created_at == clock[0]
    assert len(notebook.list(**ANN)) == len(store.search(("tokenmem",))) == 3


def test_a_store_that_sweeps_may_sweep_notes_of_sessions_only(tmp_path, monkeypatch):
    puts, batch = [], SqliteStore.batch

    def recorded(self, ops):
        puts.extend(op for op in ops if isinstance(op, PutOp))
        return batch(self, ops)

    monkeypatch.setattr(SqliteStore, "batch", recorded)
    with opened("sqlite", tmp_path, ttl={"default_ttl": 60}) as store:
        for level in LEVELS:
            notebook_on(store).add(level, level=level, **ANN)
    minutes = {op.namespace[3]: op.ttl for op in puts}
    assert minutes == {"session": 60, "project": None, "global": None}
