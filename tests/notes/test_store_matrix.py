"""The same rules on every store: LangGraph's own ones, and those of this package."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from langchain_core.messages import AIMessage
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from langchain_tokenmem import TokenMemoryMiddleware, TranscriptStore
from langchain_tokenmem.notes import JsonStore, SqlStore
from langchain_tokenmem.recall import HashingEmbeddings
from tests.adapters.integrations import agent_of, call, memory_of
from tests.notes.conftest import notebook_on

ANN = {"user_id": "ann", "session_id": "s1"}


@pytest.fixture(params=["memory", "memory with vectors", "sqlite", "sql", "json"])
def store(request, tmp_path) -> Iterator[BaseStore]:
    if request.param == "sqlite":
        with SqliteStore.from_conn_string(str(tmp_path / "store.db")) as store:
            store.setup()
            yield store
    elif request.param == "sql":
        with TranscriptStore("sqlite://") as transcripts:
            yield SqlStore(transcripts)
    elif request.param == "json":
        with JsonStore(tmp_path / "notes") as store:
            yield store
    elif request.param == "memory":
        yield InMemoryStore()
    else:
        yield InMemoryStore(index={"dims": 64, "embed": HashingEmbeddings(dim=64)})


def test_a_notebook_keeps_its_rules(store):
    notebook = notebook_on(store, limit=12)
    first = notebook.add("Use make.", key="build", **ANN)
    second = notebook.add("Use just.", key="build", **ANN)
    assert notebook.list(**ANN) == [second]
    assert second.created_at == first.created_at
    tabs = notebook.add("Use tabs.", level="global", kind="preference", **ANN)
    assert notebook.add("Use tabs.", level="global", **ANN) == tabs
    for number in range(14):
        notebook.add(f"Item {number} stands on shelf {number}.", **ANN)
    assert len(notebook.list(level="project", **ANN)) == 12
    assert notebook.get("build", **ANN) is None
    assert notebook.get(tabs.id, **ANN) == tabs
    assert notebook.search("tabs or spaces?", **ANN)[0] == tabs
    assert len(notebook.search("Which item stands on a shelf?", limit=50, **ANN)) == 12
    assert notebook.list(user_id="bob") == []
    assert notebook.remove(tabs.id, **ANN) == tabs
    assert notebook.remove(tabs.id, **ANN) is None


def test_erasing_is_checked_by_reading_back(store):
    notebook = notebook_on(store)
    for level in ("session", "project", "global"):
        for user in ("ann", "a.nn"):
            notebook.add("x", level=level, user_id=user, session_id=f"{user}-1")
    assert notebook.erase(session_id="ann-1") == 1
    assert notebook.erase(user_id="ann") == 2
    assert notebook.erase(user_id="ann") == 0
    assert len(notebook.list(user_id="a.nn", session_id="a.nn-1")) == 3


@pytest.mark.slow
def test_an_agent_keeps_and_is_shown_notes(store):
    memory = memory_of(8_000, notes=notebook_on(None))
    middleware = TokenMemoryMiddleware(memory, agent_tools={"memorize", "memory"})
    script = [
        call(0, "memorize", content="Ann wants short answers.", kind="preference"),
        AIMessage("Noted."),
        AIMessage("Short."),
    ]
    model, agent = agent_of(script, middleware, store=store)
    for thread, said in (("t1", "Remember it."), ("t2", "How short are answers?")):
        config = {"configurable": {"thread_id": thread, "user_id": "ann"}}
        agent.invoke({"messages": said}, config)
    assert "preference (global): Ann wants short answers. [mem_" in model.seen[-1][-1].text


def test_async_calls_do_the_same(store):
    if isinstance(store, SqliteStore):
        pytest.skip("LangGraph's SqliteStore is sync; AsyncSqliteStore is another class")
    notebook = notebook_on(store)

    async def use() -> None:
        note = await notebook.aadd("Use tabs.", **ANN)
        assert await notebook.asearch("tabs", **ANN) == [note]
        assert await notebook.aerase(user_id="ann") == 1

    asyncio.run(use())
