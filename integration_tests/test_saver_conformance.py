"""LangGraph's own suite, and what it misses, on SQLite and on PostgreSQL."""

from collections.abc import AsyncIterator
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME

from langchain_tokenmem import TokenMemorySaver
from tests.adapters.checkpoints.test_saver_properties import RICH, played
from tests.adapters.integrations import at, put

THREAD = "thread"
PASSED = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}
"""Tests of each capability in langgraph-checkpoint-conformance 0.0.2: 81."""


async def test_conformance_81_of_81(store):
    """By the async methods, each of which runs the sync one in a thread."""

    @checkpointer_test(name="TokenMemorySaver")
    async def saver() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        yield TokenMemorySaver(store)

    report = await validate(saver)
    failures = [one for result in report.results.values() for one in result.failures or ()]
    assert failures == []
    passed = {name: result.tests_passed for name, result in report.results.items()}
    # "FULL" would be said of a saver with nothing detected: only the number says something.
    assert passed == PASSED
    assert sum(passed.values()) == 81


def test_a_graph_reads_what_langgraphs_own_saver_would_give_it(store):
    """Delta channels, writes of parallel tasks, interrupts and forks, step by step."""
    done = [("say", "a"), ("resume", "b"), ("say", "c"), ("fork", 3), ("resume", "d"), ("fork", 9)]
    twin, _ = played(TokenMemorySaver(store), RICH, done)
    assert twin.reads > len(done)


# --- what no graph does


def test_special_writes_are_overwritten(store):
    """An answer to an interrupt, or an error, replaces the former one; results do not."""
    saver = TokenMemorySaver(store)
    root = put(saver, at(THREAD))
    for turn in (1, 2):
        for channel in (ERROR, INTERRUPT, RESUME):
            saver.put_writes(root, [(channel, f"{channel}{turn}")], "t")
        saver.put_writes(root, [("a", f"a{turn}")], "t")
    found = saver.get_tuple(root)
    values = {channel: value for _, channel, value in found.pending_writes}
    assert len(found.pending_writes) == 4
    assert values == {
        ERROR: f"{ERROR}2",
        INTERRUPT: f"{INTERRUPT}2",
        RESUME: f"{RESUME}2",
        "a": "a1",
    }


def test_prune_takes_the_writes(store):
    """Writes of a pruned checkpoint would come back with a checkpoint of the same id."""
    saver = TokenMemorySaver(store)
    first = put(saver, at(THREAD), "1", {"n": 0})
    second = put(saver, first, "2", {"n": 1}, 2)
    put(saver, second, "3", {"n": 2}, 3)
    saver.put_writes(second, [("a", "old")], "t")
    old = saver.get_tuple(second)
    saver.prune([THREAD], strategy="keep_latest")
    assert saver.get_tuple(second) is None
    again = saver.put(first, old.checkpoint, old.metadata, {})
    found = saver.get_tuple(again)
    assert not found.pending_writes
