"""Threads move from LangGraph's savers into a store, all of them, and again after a crash."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from psycopg.rows import dict_row
from savers import at, put
from typer.testing import CliRunner

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.cli.app import app

RUN = CliRunner()
THREADS = ("ann", "bob/2")
EACH = 8


def fill(saver: BaseCheckpointSaver[Any]) -> None:
    """Two threads with a fork, a sub-graph, writes of several tasks, and odd values."""
    for thread in THREADS:
        parent, said, steps = at(thread), [], []
        for n in range(EACH - 2):
            call = {"name": "f", "args": {"n": n}, "id": f"c{n}", "type": "tool_call"}
            said += [
                HumanMessage(f"{thread} asks {n}", id=f"q{n}", name="ann"),
                AIMessage("", tool_calls=[call], id=f"c{n}"),
                ToolMessage("found", tool_call_id=f"c{n}", id=f"t{n}", artifact={"rows": [n]}),
            ]
            values = {"messages": list(said), "n": n, "odd": {"set": {1, 2}, "bytes": b"\x00"}}
            versions = dict.fromkeys(values, f"{n + 1:032}.5")
            parent = put(saver, parent, values, versions, step=n, run_id=f"r{n}", user_id="ann")
            saver.put_writes(parent, [("n", n), ("messages", said[-1:])], "task-b", "~path, 1")
            saver.put_writes(parent, [("n", -n)], "task-a", "~path, 2")
            saver.put_writes(parent, [("__interrupt__", [{"n": n}])], "task-a", "~path, 2")
            steps.append(parent)
        forked = {"messages": [*said[:3], HumanMessage("fork", id="f")], "n": -1}
        put(saver, steps[2], forked, dict.fromkeys(forked, f"{9:032}.7"), step=99, source="fork")
        put(saver, at(thread, ns="child:1"), {"n": 0}, {"n": f"{1:032}.5"})


def read(saver: BaseCheckpointSaver[Any], thread: str) -> list[Any]:
    found = saver.list({"configurable": {"thread_id": thread}})
    return sorted(
        (
            one.config["configurable"]["checkpoint_id"],
            one.config["configurable"]["checkpoint_ns"],
            (one.parent_config or {}).get("configurable", {}).get("checkpoint_id"),
            repr(sorted(one.checkpoint["channel_values"].items())),
            repr(sorted(one.checkpoint["channel_versions"].items())),
            repr(sorted(one.metadata.items())),
            repr(one.pending_writes),
        )
        for one in found
    )


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ours.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def stock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Any]]:
    """A filled saver of LangGraph's, and its URL."""
    if request.param == "sqlite":
        path = tmp_path / "stock.db"
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            saver = SqliteSaver(connection)
            fill(saver)
            connection.commit()
            yield f"sqlite:///{path}", saver
        return
    url = str(request.getfixturevalue("postgres"))
    address = url.replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(address, autocommit=True, row_factory=dict_row) as connection:
        saver = PostgresSaver(connection)
        saver.setup()
        fill(saver)
        yield url, saver


def test_threads_come_along_with_history_writes_and_metadata(stock, target, tmp_path):
    url, saver = stock
    before = {thread: read(saver, thread) for thread in THREADS}
    done = RUN.invoke(app, ["migrate-checkpoints", url, target])
    assert done.exit_code == 0, done.output
    assert f"2 threads: {2 * EACH} checkpoints with {2 * 24} pending" in " ".join(
        done.output.split()
    )
    with TranscriptStore(target, shared=True) as store:
        copies = TokenMemorySaver(store)
        for thread in THREADS:
            assert len(before[thread]) == EACH
            assert read(copies, thread) == before[thread]
            assert len(store.messages(thread)) == 3 * (EACH - 2) + 1
        assert {thread: read(saver, thread) for thread in THREADS} == before
    again = RUN.invoke(app, ["migrate-checkpoints", url, target])
    assert again.exit_code == 0, again.output
    assert f"{2 * EACH} were there already" in " ".join(again.output.split())
    # From a store of ours to another one; a path will do.
    two = str(tmp_path / "two.db")
    moved = RUN.invoke(app, ["migrate-checkpoints", target, two, "--thread", "bob/2"])
    assert moved.exit_code == 0, moved.output
    with TranscriptStore(f"sqlite:///{two}", shared=True) as store:
        assert read(TokenMemorySaver(store), "bob/2") == before["bob/2"]
        assert read(TokenMemorySaver(store), "ann") == []
