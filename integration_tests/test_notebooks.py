"""Notebooks of several processes, and agents with tools on both databases."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import note_worker
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from langgraph.store.sqlite import SqliteStore

import langchain_tokenmem
from langchain_tokenmem import (
    Notebook,
    Recall,
    TokenMemoryMiddleware,
    TranscriptStore,
    memory_tools,
)
from langchain_tokenmem.notes import JsonStore, SqlStore
from tests.adapters.integrations import agent_of, call, memory_of
from tests.adapters.test_memory_tools import SCRIPT, answers, check

WRITERS, EACH, SHARED = 8, 200, 20


@pytest.fixture(params=["json", "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A JSON folder, or an empty database of either kind."""
    if request.param == "json":
        return str(tmp_path / "notes")
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/memory.db"
    return str(request.getfixturevalue("postgres"))


def test_eight_processes_add_200_notes_each_and_identical_ones_once(
    place: str, request: pytest.FixtureRequest
) -> None:
    if "://" in place:
        with TranscriptStore(place) as transcripts:
            transcripts.count("s")  # makes the tables
    package = Path(langchain_tokenmem.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    workers = [
        subprocess.Popen(
            [sys.executable, note_worker.__file__, place, str(number), str(EACH), str(SHARED)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for number in range(WRITERS)
    ]
    said: set[str] = set()
    for worker in workers:
        out, err = worker.communicate(timeout=500)
        assert (worker.returncode, err) == (0, "")
        said |= {*out.splitlines()}
    if "://" in place:
        transcripts = TranscriptStore(place)
        request.addfinalizer(transcripts.close)
        items: BaseStore = SqlStore(transcripts)
    else:
        items = JsonStore(place)
    notebook = Notebook(items, project="shop", limit=10_000)
    found = Counter(note.content for note in notebook.list(**note_worker.OWNER))
    assert len(said) == WRITERS * EACH + SHARED
    assert found == Counter(said)  # none lost, none doubled
    ids = [note.id for note in notebook.list(**note_worker.OWNER)]
    assert len(set(ids)) == len(ids)
    assert notebook.erase(user_id="ann") == len(said)
    assert notebook.list(**note_worker.OWNER) == []


@pytest.fixture(
    params=["InMemoryStore", "JsonStore", "SqliteStore", "SQLite", "PostgreSQL", "PostgresStore"]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStore]:
    """Each store that notes can live in."""
    with ExitStack() as stack:
        if request.param == "InMemoryStore":
            yield InMemoryStore()
        elif request.param == "JsonStore":
            yield stack.enter_context(JsonStore(tmp_path / "notes"))
        elif request.param == "SqliteStore":
            path = str(tmp_path / "store.db")
            found = stack.enter_context(SqliteStore.from_conn_string(path))
            found.setup()
            yield found
        elif request.param == "PostgresStore":
            url = str(request.getfixturevalue("postgres")).replace("+psycopg", "")
            postgres = stack.enter_context(PostgresStore.from_conn_string(url))
            postgres.setup()
            yield postgres
        else:
            is_sqlite = request.param == "SQLite"
            url = f"sqlite:///{tmp_path}/m.db" if is_sqlite else request.getfixturevalue("postgres")
            yield SqlStore(stack.enter_context(TranscriptStore(url)))


ANN = {"configurable": {"thread_id": "t1", "user_id": "ann"}}


@pytest.mark.parametrize("is_async", [False, True])
def test_scripted_agents_run_the_tools_on_every_store(
    store: BaseStore,
    *,
    is_async: bool,
) -> None:
    if is_async and isinstance(store, SqliteStore | PostgresStore):
        pytest.skip("LangGraph's SqliteStore is sync; so is this PostgresStore")
    _, agent = agent_of(list(SCRIPT), tools=memory_tools(), store=store)
    given = {"messages": "Go on."}
    result = asyncio.run(agent.ainvoke(given, ANN)) if is_async else agent.invoke(given, ANN)
    check(answers(result))
    notebook = Notebook(store)
    assert [n.content for n in notebook.list(user_id="ann")] == ["Ann wants short answers."]
    assert notebook.list(user_id="bob") == []
    assert notebook.erase(user_id="ann") == 1


def test_what_one_agent_keeps_the_next_one_is_shown_and_pins(store: BaseStore) -> None:
    names = {"memory", "memorize", "pin_context", "history_search"}
    middleware = TokenMemoryMiddleware(memory_of(8_000, notes=Notebook()), agent_tools=names)
    script = [
        call(0, "memorize", content="Ann wants short answers.", kind="preference"),
        call(1, "pin_context", text="Never delete rows."),
        AIMessage("Noted."),
        AIMessage("Short."),
    ]
    model, agent = agent_of(script, middleware, store=store)
    agent.invoke({"messages": "Remember it."}, ANN)
    other = {"configurable": {"thread_id": "t2", "user_id": "ann"}}
    agent.invoke({"messages": "How short are answers?"}, other)
    assert "preference (global): Ann wants short answers. [mem_" in model.seen[-1][-1].text
    pins = agent.get_state(ANN).values["token_memory_pins"]
    assert [pin["text"] for pin in pins.values()] == ["Never delete rows."]


def test_the_history_of_a_session_is_searched_on_both_databases(url: str) -> None:
    with TranscriptStore(url) as transcripts:
        transcripts.add("t1", [HumanMessage("The order is 4711.")], user_id="ann")
        transcripts.add("b1", [HumanMessage("Bob's order is 1234.")], user_id="bob")
        tools = memory_tools(Notebook(SqlStore(transcripts)), recall=Recall(transcripts))
        script = [call(0, "history_search", pattern=r"order is \d+"), AIMessage("Done.")]
        _, agent = agent_of(script, tools=tools)
        (answer,) = answers(agent.invoke({"messages": "Go on."}, ANN))
        assert re.match(r"[0-9a-f]{6} ", answer)
        assert answer.endswith("user: The order is 4711.")
