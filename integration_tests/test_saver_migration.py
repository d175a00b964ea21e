"""Threads move from LangGraph's savers into a store and back, all of them, as often as it runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from tests.adapters.integrations import at, put
from tests.cli.command import invoked
from tests.contract.chats import in_thread
from tests.fakes import called

THREADS = ("ann", "bob/2")
EACH = 8


def fill(saver: BaseCheckpointSaver[Any]) -> None:
    """Two threads with a fork, a sub-graph, writes of several tasks, and odd values."""
    for thread in THREADS:
        parent, said, steps = at(thread), [], []
        for n in range(EACH - 2):
            said.append(HumanMessage(f"{thread} asks {n}", id=f"q{n}", name="ann"))
            said += called(n, "f", {"n": n}, "found", artifact={"rows": [n]})
            values = {"messages": list(said), "n": n, "odd": {"set": {1, 2}, "bytes": b"\x00"}}
            marks = {"step": n, "run_id": f"r{n}", "user_id": "ann"}
            parent = put(saver, parent, None, values, f"{n + 1:032}.5", **marks)
            saver.put_writes(parent, [("n", n), ("messages", said[-1:])], "task-b", "~path, 1")
            saver.put_writes(parent, [("n", -n)], "task-a", "~path, 2")
            saver.put_writes(parent, [("__interrupt__", [{"n": n}])], "task-a", "~path, 2")
            steps.append(parent)
        forked = {"messages": [*said[:3], HumanMessage("fork", id="f")], "n": -1}
        put(saver, steps[2], None, forked, f"{9:032}.7", step=99, source="fork")
        put(saver, at(thread, ns="child:1"), None, {"n": 0}, f"{1:032}.5")


def read(saver: BaseCheckpointSaver[Any], thread: str) -> list[Any]:
    found = saver.list(in_thread(thread))
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


@contextmanager
def langgraph_saver(url: str) -> Iterator[Any]:
    """LangGraph's own saver on a database, as an application opens it."""
    if url.startswith("sqlite"):
        with SqliteSaver.from_conn_string(url.removeprefix("sqlite:///")) as saver:
            yield saver
        return
    with PostgresSaver.from_conn_string(url.replace("+psycopg", "")) as saver:
        saver.setup()
        yield saver


def migrated(*arguments: str) -> str:
    """Run the command and return what it prints, in one line."""
    done = invoked("migrate-checkpoints", *arguments)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_threads_come_along_whole_and_go_back_to_where_they_came_from(url, tmp_path):
    target = f"sqlite:///{tmp_path}/ours.db"
    with langgraph_saver(url) as saver:
        fill(saver)
        before = {thread: read(saver, thread) for thread in THREADS}
        assert f"2 threads: {2 * EACH} checkpoints with {2 * 24} pending" in migrated(url, target)
        with TranscriptStore(target, shared=True) as store:
            ours = TokenMemorySaver(store)
            assert {thread: read(ours, thread) for thread in THREADS} == before
            assert len(store.messages("ann")) == 3 * (EACH - 2) + 1
            assert f"{2 * EACH} were there already" in migrated(url, target)
            assert f"{2 * EACH} were there already" in migrated(target, url, "--to", "langgraph")
            head = ours.get_tuple(at("ann"))
            put(ours, head.config, None, {"n": 100}, f"{100:032}.{0:016}", step=100)
        assert "1 checkpoint with 0 pending" in migrated(target, url, "--to", "langgraph")
        assert len(read(saver, "ann")) == EACH + 1
        assert read(saver, "bob/2") == before["bob/2"]
    # From a store of ours to another one; a path will do.
    two = str(tmp_path / "two.db")
    migrated(target, two, "--thread", "bob/2")
    with TranscriptStore(two, shared=True) as store:
        assert read(TokenMemorySaver(store), "bob/2") == before["bob/2"]
        assert read(TokenMemorySaver(store), "ann") == []
