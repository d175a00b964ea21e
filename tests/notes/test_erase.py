"""Erasing of notes in any store, checked by reading back."""

import asyncio

import pytest
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem.errors import ScopeError, StoreError
from langchain_tokenmem.notes import JsonStore
from tests.notes.conftest import notebook_on


def fill(notebook):
    for user in ("ann", "a.nn", "bob"):
        for level in ("session", "project", "global"):
            notebook.add(f"{user} {level}", level=level, user_id=user, session_id=f"{user}-1")
    notebook.add("second", level="session", user_id="ann", session_id="ann-2")
    notebook.add("nobody", level="session", session_id="lonely")


def texts(store):
    return sorted(item.value["content"] for item in store.search(("tokenmem",), limit=100))


def test_erasing_reaches_all_of_a_session_or_a_user_and_nothing_else(notebook, store):
    fill(notebook)
    notebook_on(store, project="bakery").add("bread", user_id="ann")
    store.put(("memories", "ann"), "1", {"text": "of the application"})
    assert notebook.erase(session_id="ann-1", user_id="bob") == 0
    assert notebook.erase(session_id="ann-1") == notebook.erase(session_id="lonely") == 1
    assert {"ann project", "ann global", "second"} <= set(texts(store))
    assert notebook.erase(user_id="ann") == 4
    assert store.get(("memories", "ann"), "1")
    assert not [text for text in texts(store) if text.startswith(("ann", "bread", "second"))]
    assert len(texts(store)) == 6
    assert notebook.erase(user_id="ann") == 0


def test_erasing_needs_a_user_or_a_session(notebook):
    with pytest.raises(ScopeError, match="erased"):
        notebook.erase()
    with pytest.raises(ScopeError, match="blank"):
        notebook.erase(user_id=" ")


def test_a_store_that_keeps_what_it_was_told_to_delete_is_found_out():
    class Keeper(InMemoryStore):
        def batch(self, ops):
            kept = [op for op in ops if not (isinstance(op, PutOp) and op.value is None)]
            return super().batch(kept)

    notebook = notebook_on(Keeper())
    notebook.add("x", user_id="ann")
    with pytest.raises(StoreError, match="still holds 1 of 1"):
        notebook.erase(user_id="ann")


@pytest.mark.parametrize(
    "what", [{"user_id": "ann"}, {"session_id": "s"}, {"user_id": "ann", "session_id": "s"}]
)
def test_what_was_erased_is_not_on_the_disk_when_erase_returns(own_store, tmp_path, what):
    def on_disk():
        return b"".join(file.read_bytes() for file in tmp_path.rglob("*.*") if file.is_file())

    store = own_store
    notebook = notebook_on(store)
    owner = {"user_id": "ann", "session_id": "s"}
    notebook.add("the secret word", level="session", **owner)
    if "session_id" not in what:
        notebook.add("the secret word", key="k", **owner)
    if isinstance(store, JsonStore):
        store.flush()
    assert b"the secret word" in on_disk()
    assert notebook.erase(**what) == (1 if "session_id" in what else 2)
    assert b"the secret word" not in on_disk()
    assert notebook.list(**owner) == []
    assert asyncio.run(notebook.aerase(**what)) == 0
