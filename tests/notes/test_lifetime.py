"""Notes of a session expire by the settings of their store; an expired one never shows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from langchain_tokenmem import JsonStore, SqlStore, TranscriptStore
from tests.notes.conftest import NOON, notebook_on

ANN = {"user_id": "ann", "session_id": "s1"}
LEVELS = ("session", "project", "global")


@pytest.fixture(params=["sql", "json", "sqlite", "sqlite that omits"])
def store(request, tmp_path):
    ttl = {"default_ttl": 60}
    if request.param.startswith("sqlite"):
        ttl["omit_expired"] = request.param == "sqlite that omits"  # which it does not
        with SqliteStore.from_conn_string(str(tmp_path / "store.db"), ttl=ttl) as store:
            store.setup()
            yield store
    elif request.param == "sql":
        with TranscriptStore("sqlite://") as transcripts:
            yield SqlStore(transcripts, ttl=ttl)
    else:
        with JsonStore(tmp_path / "notes", ttl=ttl) as store:
            yield store


def test_a_sessions_note_that_has_expired_is_not_shown_before_it_is_swept(store):
    clock = [NOON]
    notebook = notebook_on(store, now=lambda: clock[0])
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


def test_a_sweep_deletes_notes_of_sessions_only(store):
    notebook = notebook_on(store)
    for level in LEVELS:
        notebook.add(level, level=level, **ANN)
    limits = {}
    store.batch = _recording(store.batch, limits)
    for level in LEVELS:
        notebook.add(f"{level} again", level=level, **ANN)
    assert limits == {"session": 60, "project": None, "global": None}


def _recording(batch, limits):
    def recorded(ops):
        ops = [*ops]
        limits.update({op.namespace[3]: op.ttl for op in ops if hasattr(op, "ttl") and op.value})
        return batch(ops)

    return recorded


def test_where_the_store_omits_what_expired_each_look_begins_its_time_anew(tmp_path):
    ttl = {"default_ttl": 60, "omit_expired": True}
    store = JsonStore(tmp_path, ttl=ttl, debounce_s=60, max_delay_s=60)
    notebook = notebook_on(store)
    notebook.add("tabs", level="session", **ANN)
    store.flush()
    (before,) = store._folder.items_under(("tokenmem",)).values()
    assert notebook.search("tabs", **ANN)
    store.flush()
    (after,) = store._folder.items_under(("tokenmem",)).values()
    assert after.expires_at > before.expires_at
    store.close()


def test_a_note_that_the_store_omits_is_not_shown():
    with TranscriptStore("sqlite://") as transcripts:
        store = SqlStore(transcripts, ttl={"default_ttl": -1, "omit_expired": True})
        notebook = notebook_on(store)
        for level in LEVELS:
            notebook.add(level, level=level, **ANN)
        assert {note.type for note in notebook.list(**ANN)} == {"project", "global"}
        assert store.sweep_ttl() == 1


@pytest.mark.parametrize("end", ["soon", "2026-11-22T12:00:00"])
def test_an_end_that_nobody_can_read_is_no_note_and_no_error(end):
    store = InMemoryStore()
    notebook = notebook_on(store)
    notebook.add("tabs", level="session", **ANN)
    (item,) = store.search(("tokenmem",))
    store.put(item.namespace, item.key, {**item.value, "expires_at": end})
    assert notebook.list(**ANN) == []


def test_without_settings_notes_of_a_session_stay_until_it_is_erased():
    clock = [NOON]
    notebook = notebook_on(InMemoryStore(), now=lambda: clock[0])
    notebook.add("tabs", level="session", **ANN)
    clock[0] += timedelta(days=4_000)
    assert len(notebook.list(**ANN)) == 1
    assert notebook.erase(session_id="s1") == 1
