"""Kept notes in requests: which ones, where, how often, and what becomes of removed ones."""

from __future__ import annotations

from langchain_core.messages import AIMessage
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem import (
    TokenMemoryChatHistory,
    TokenMemoryMiddleware,
    TranscriptStore,
)
from tests.adapters.integrations import agent_of, call
from tests.fakes import memory_of
from tests.notes.conftest import notebook_on

TABS = "- 2026-11-22 preference (global): Use tabs in code. [mem_"
ANN = {"configurable": {"thread_id": "t1", "user_id": "ann"}}


def filled(store=None, **options):
    notebook = notebook_on(store or InMemoryStore(), **options)
    notebook.add("Use tabs in code.", level="global", kind="preference", user_id="ann")
    notebook.add("The staging cluster is called Berta.", user_id="ann")
    return notebook


def history_on(notebook, store=None, **options):
    memory = memory_of(options.pop("window", 8_000), notes=notebook, **options)
    store = store or TranscriptStore("sqlite://")
    return TokenMemoryChatHistory("s1", memory=memory, store=store, user_id="ann")


def ask(history, text, answer="ok"):
    """Return the last message of the view for a question."""
    history.add_user_message(text)
    shown = history.messages[-1]
    history.add_ai_message(answer)
    return shown.content if isinstance(shown.content, str) else shown.text


def test_notes_are_counted_in_parts_and_within_their_share():
    notebook = filled()
    for number in range(60):
        notebook.add(f"Use tabs in code of module number {number}.", user_id="ann")
    history = history_on(notebook, window=4_000)
    history.add_user_message("Do I use tabs in code?")
    usage = history.usage()
    assert 0 < usage.parts["notes"] <= history.view().usage.max_tokens * 0.05 + 5
    assert usage.parts["memory_block"] >= usage.parts["notes"]
    assert usage.parts["recalled"] == usage.parts["memory_block"] - usage.parts["notes"]


def test_a_note_in_a_live_block_is_not_shown_again_unless_it_changed():
    notebook = filled()
    notebook.add("Deploy to Berta on Fridays.", key="deploy", user_id="ann")
    history = history_on(notebook)
    assert "Fridays" in ask(history, "When do we deploy?")
    assert "kept_notes" not in ask(history, "And when do we deploy again?")
    notebook.add("Deploy to Berta on Mondays.", key="deploy", user_id="ann")
    assert "Mondays" in ask(history, "Say again when we deploy?")


def test_a_removed_note_that_is_added_again_is_shown_again():
    notebook = filled()
    history = history_on(notebook, window=3_000)
    assert TABS in ask(history, "Do I use tabs in code?")
    note = notebook.list(level="global", user_id="ann")[0]
    notebook.remove(note.id, user_id="ann")
    assert f"void now: [{note.id}]" in ask(history, "What else is there to say?")
    notebook.add(note.content, level="global", kind="preference", user_id="ann")
    assert TABS in ask(history, "Say again: do I use tabs in code?")
    assert "kept_notes" not in ask(history, "Tabs in code, really?")
    notebook.remove(note.id, user_id="ann")
    assert f"void now: [{note.id}]" in ask(history, "What else is there to say?")


def test_nothing_is_shown_where_it_is_switched_off():
    assert "kept_notes" not in ask(history_on(filled(in_requests=False)), "Tabs in code?")


def test_a_store_that_fails_costs_the_notes_and_not_the_call(caplog):
    class Broken(InMemoryStore):
        def batch(self, ops):
            raise OSError("disk full")

    history = history_on(notebook_on(Broken()))
    assert ask(history, "Do I use tabs?") == "Do I use tabs?"
    assert "no notes are shown, disk full" in caplog.text


def test_an_agent_shows_notes_of_the_graphs_own_store():
    store = InMemoryStore()
    filled(store)
    middleware = TokenMemoryMiddleware(memory_of(8_000, notes=notebook_on(None)))
    model, agent = agent_of([call(0), AIMessage("Done.")], middleware, store=store)
    agent.invoke({"messages": "Do I use tabs in code?"}, ANN)
    assert TABS in model.seen[0][-1].text
    assert model.seen[1][0] == model.seen[0][0]
