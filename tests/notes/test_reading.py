"""What another process adds, changes or removes is seen at the next look."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.core.thread_names import notes_of_user
from langchain_tokenmem.notes import JsonStore, SqlStore
from tests.notes.conftest import NOON, notebook_on

GLOBAL = {"level": "global", "user_id": "ann"}


@pytest.fixture(params=["sql", "json"])
def opened(request, tmp_path):
    """Open the store of one place, as two processes would."""
    stores = []

    def open_store():
        if request.param == "sql":
            store = SqlStore(TranscriptStore(f"sqlite:///{tmp_path}/notes.db"))
        else:
            store = JsonStore(tmp_path / "notes")
        stores.append(store)
        return store

    yield open_store
    for store in stores:
        store.store.close() if isinstance(store, SqlStore) else store.close()


def contents(notebook):
    return sorted(note.content for note in notebook.list(**GLOBAL))


def flush(store):
    if isinstance(store, JsonStore):
        store.flush()


def test_what_another_process_adds_changes_removes_or_erases_is_seen_at_once(opened):
    mine, theirs = opened(), opened()
    notebook, other = notebook_on(mine), notebook_on(theirs)
    seen = []
    for change in (
        lambda: other.add("one", key="k", **GLOBAL),
        lambda: other.add("two", **GLOBAL),
        lambda: other.add("uno", key="k", **GLOBAL),
        lambda: other.remove("k", **GLOBAL),
        lambda: other.add("one", key="k", **GLOBAL),
        lambda: other.erase(user_id="ann"),
        lambda: other.add("two", **GLOBAL),
    ):
        change()
        flush(theirs)
        seen.append(contents(notebook))
    assert seen == [["one"], ["one", "two"], ["two", "uno"], ["two"], ["one", "two"], [], ["two"]]


def test_what_the_transcript_store_erases_is_not_known_any_more(tmp_path):
    with TranscriptStore(f"sqlite:///{tmp_path}/notes.db") as transcripts:
        notebook = notebook_on(SqlStore(transcripts))
        notebook.add("secret", **GLOBAL)
        assert contents(notebook) == ["secret"]
        assert transcripts.erase(user_id="ann")["items"] == 1
        assert contents(notebook) == []


def test_a_note_that_was_copied_with_its_end_expires(opened):
    store = opened()
    notebook = notebook_on(store)
    notebook.add("gone soon", **GLOBAL)
    (item,) = store.search((*notes_of_user("ann"), "global"))
    end = (NOON + timedelta(minutes=4)).isoformat()
    store.put(item.namespace, item.key, {**item.value, "expires_at": end})
    seen = [contents(notebook) for _ in range(5)]
    assert seen[0] == ["gone soon"]
    assert seen[-1] == []


def test_a_content_that_is_changed_by_hand_is_found_at_once(tmp_path):
    with JsonStore(tmp_path) as store:
        notebook = notebook_on(store)
        notebook.add("Use tabs.", key="indent", **GLOBAL)
        store.flush()
        (file,) = tmp_path.glob("*.json")
        file.write_text(file.read_text().replace("Use tabs.", "Use two spaces."))
        assert contents(notebook) == ["Use two spaces."]
        (found,) = notebook.search("How many spaces?", **GLOBAL)
        assert found.content == "Use two spaces."


def test_a_search_opens_no_file_of_another_level(tmp_path, monkeypatch):
    store = JsonStore(tmp_path)
    notebook = notebook_on(store)
    for number in range(5):
        notebook.add("x", level="session", user_id="ann", session_id=f"s{number}")
    notebook.add("y", **GLOBAL)
    store.flush()
    assert contents(notebook) == ["y"]
    opened = []
    parsed = store._folder._parsed
    monkeypatch.setattr(store._folder, "_parsed", lambda file: opened.append(file) or parsed(file))
    assert contents(notebook) == ["y"]
    assert len(opened) == 1


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "erase"]),
        st.integers(min_value=0, max_value=1),
        st.integers(min_value=0, max_value=3),
    ),
    max_size=12,
)


@pytest.mark.slow
@given(CHANGES)
def test_two_notebooks_on_one_database_never_differ(changes):
    with TranscriptStore("sqlite://") as transcripts:
        books = [notebook_on(SqlStore(transcripts)) for _ in range(2)]
        held = set()
        for action, who, number in changes:
            if action == "add":
                books[who].add(f"n{number}", **GLOBAL)
                held.add(f"n{number}")
            elif action == "remove":
                found = next((n for n in books[who].list(**GLOBAL) if n.content == f"n{number}"), 0)
                assert bool(found) == (f"n{number}" in held)
                books[who].remove(found.id if found else "no", **GLOBAL)
                held.discard(f"n{number}")
            else:
                books[who].erase(user_id="ann")
                held.clear()
            assert [contents(book) for book in books] == [sorted(held)] * 2
