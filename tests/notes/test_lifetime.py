"""Notes of a session expire by the notebook's setting or their store's; no expired one shows."""

from datetime import timedelta

import pytest
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from tests.notes.conftest import NOON, notebook_on

ANN = {"user_id": "ann", "session_id": "s1"}
LEVELS = ("session", "project", "global")
HOUR = timedelta(hours=1)


@pytest.fixture(params=["its own lifetime", "a default_ttl of the store"])
def place(request, tmp_path):
    """A store, and what its notebook is told of the lifetime of notes."""
    if request.param == "its own lifetime":
        yield InMemoryStore(), {"session_lifetime": HOUR}
    else:
        ttl = {"default_ttl": 60}
        with SqliteStore.from_conn_string(str(tmp_path / "store.db"), ttl=ttl) as store:
            store.setup()
            yield store, {}


def test_a_sessions_note_that_has_expired_is_not_shown(place):
    store, options = place
    clock = [NOON]
    notebook = notebook_on(store, now=lambda: clock[0], **options)
    notes = [notebook.add(f"{level} tabs", level=level, **ANN) for level in LEVELS]
    clock[0] += timedelta(minutes=59)
    assert len(notebook.list(**ANN)) == 3
    clock[0] += timedelta(minutes=1)
    for found in (notebook.list(**ANN), notebook.search("tabs", **ANN)):
        assert {note.type for note in found} == {"project", "global"}
    assert notebook.get(notes[0].id, **ANN) is None
    assert notebook.remove(notes[0].id, **ANN) is None
    again = notebook.add("session tabs", level="session", **ANN)
    assert again.created_at == clock[0]
    assert len(notebook.list(**ANN)) == 3


def test_a_new_note_deletes_the_expired_ones_of_its_level(place):
    store, options = place
    clock = [NOON]
    notebook = notebook_on(store, now=lambda: clock[0], **options)
    for text in ("one", "two"):
        notebook.add(text, level="session", **ANN)
    notebook.add("project", **ANN)
    clock[0] += HOUR
    notebook.add("three", level="session", **ANN)
    items = store.search(("tokenmem",))
    assert {item.value["content"] for item in items} == {"project", "three"}


def test_a_store_that_sweeps_may_sweep_notes_of_sessions_only(tmp_path, monkeypatch):
    puts, batch = [], SqliteStore.batch

    def recorded(self, ops):
        puts.extend(op for op in ops if isinstance(op, PutOp))
        return batch(self, ops)

    monkeypatch.setattr(SqliteStore, "batch", recorded)
    ttl = {"default_ttl": 60}
    with SqliteStore.from_conn_string(str(tmp_path / "store.db"), ttl=ttl) as store:
        store.setup()
        for level in LEVELS:
            notebook_on(store).add(level, level=level, **ANN)
    minutes = {op.namespace[3]: op.ttl for op in puts}
    assert minutes == {"session": 60, "project": None, "global": None}
