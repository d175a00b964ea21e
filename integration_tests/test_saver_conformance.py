"""LangGraph's own suite, and what it misses, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
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


class Threaded(BaseCheckpointSaver[Any]):
    """The sync half of a saver behind async names, each call in a thread of its own."""

    def __init__(self, inner: BaseCheckpointSaver[Any]) -> None:
        self.inner = inner
        super().__init__(serde=inner.serde)

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self.inner.get_next_version(current, channel)

    async def aput(self, *args: Any) -> RunnableConfig:
        return await asyncio.to_thread(self.inner.put, *args)

    async def aput_writes(self, *args: Any, **given: Any) -> None:
        await asyncio.to_thread(self.inner.put_writes, *args, **given)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.inner.get_tuple, config)

    async def alist(self, config: Any, **given: Any) -> AsyncIterator[CheckpointTuple]:
        for found in await asyncio.to_thread(lambda: list(self.inner.list(config, **given))):
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.inner.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Any) -> None:
        await asyncio.to_thread(self.inner.delete_for_runs, run_ids)

    async def acopy_thread(self, source: str, target: str) -> None:
        await asyncio.to_thread(self.inner.copy_thread, source, target)

    async def aprune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(self.inner.prune, thread_ids, strategy=strategy)


@pytest.fixture
def store(url: str) -> Iterator[TranscriptStore]:
    with TranscriptStore(url, shared=True) as opened:
        yield opened


@pytest.mark.parametrize("use", ["async", "sync through threads"])
async def test_conformance_81_of_81(store, use):
    @checkpointer_test(name=f"TokenMemorySaver {use}")
    async def saver() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        made = TokenMemorySaver(store)
        yield made if use == "async" else Threaded(made)

    report = await validate(saver)
    failures = [one for result in report.results.values() for one in result.failures or ()]
    assert failures == []
    passed = {name: result.tests_passed for name, result in report.results.items()}
    # "FULL" would be said of a saver with nothing detected: only the number says something.
    assert passed == PASSED
    assert sum(passed.values()) == 81


@pytest.fixture
def saver(store):
    return TokenMemorySaver(store)


def test_a_graph_reads_what_langgraphs_own_saver_would_give_it(store):
    """Delta channels, writes of parallel tasks, interrupts and forks, step by step."""
    done = [("say", "a"), ("resume", "b"), ("say", "c"), ("fork", 3), ("resume", "d"), ("fork", 9)]
    twin, _ = played(TokenMemorySaver(store), RICH, done)
    assert twin.reads > len(done)


# --- what no graph does


def test_special_writes_are_overwritten(saver):
    """An answer to an interrupt, or an error, replaces the former one; results do not."""
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


def test_prune_takes_the_writes(saver):
    """Writes of a pruned checkpoint would come back with a checkpoint of the same id."""
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


def test_copies_stand_alone(saver):
    said = [HumanMessage("hello", id="h1"), AIMessage("hi", id="a1")]
    root = put(saver, at(THREAD), "1", {"messages": said})
    saver.put_writes(root, [("messages", [HumanMessage("pending", id="p")])], "t", "path")
    copy = f"{THREAD}-copy"
    saver.copy_thread(THREAD, copy)
    put(saver, at(copy, "1"), "2", {"messages": [*said, said[0]]}, 2)
    assert len(list(saver.list(at(THREAD)))) == 1, "a turn on the copy shows up in the source"
    source = saver.get_tuple(at(THREAD))
    assert source.checkpoint["channel_values"]["messages"] == said
    saver.prune([THREAD], strategy="delete")
    saver.delete_thread(THREAD)
    found = saver.get_tuple(at(copy, "1"))
    assert found is not None, "deleting the source takes the copy away"
    assert found.checkpoint["channel_values"] == {"messages": said}
    assert found.pending_writes == [("t", "messages", [HumanMessage("pending", id="p")])]
    saver.copy_thread(copy, THREAD)
    saver.delete_thread(copy)
    assert len(list(saver.list(at(THREAD)))) == 2


def test_versions_only_grow(saver):
    seen: list[Any] = [saver.get_next_version(None, None)]
    for _ in range(2_000):
        seen.append(saver.get_next_version(seen[-1], None))
    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen)
    # A thread that another saver began goes on from that saver's own versions.
    for foreign in (7, f"{7:032}.{0.5:016}"):
        assert saver.get_next_version(foreign, None) > foreign
        assert type(saver.get_next_version(foreign, None)) is type(foreign)
