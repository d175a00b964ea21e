"""LangGraph's own suite, and what it misses, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, _DeltaSnapshot
from savers import Threaded, at, chain, id_of, put

from langchain_tokenmem import TokenMemorySaver, TranscriptStore

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


def history(saver, config, *channels):
    return dict(saver.get_delta_channel_history(config=config, channels=channels))


def written(entry):
    return [value for _, _, value in entry["writes"]]


# --- what the suite misses: the history of delta channels


def test_delta_writes_oldest_first_without_the_target(saver):
    steps = chain(saver, THREAD, 4)
    for place, step in enumerate(steps):
        saver.put_writes(step, [("d", place), ("other", "x")], f"task{place}")
    found = history(saver, steps[-1], "d")
    assert written(found["d"]) == [0, 1, 2], "the target's own writes are still pending"
    assert found["d"]["writes"][1] == ("task1", "d", 1)
    assert written(history(saver, at(THREAD), "d")["d"]) == [0, 1, 2], "the newest by default"
    assert written(history(saver, steps[1], "d")["d"]) == [0], "an older target"


def test_delta_without_a_seed(saver):
    steps = chain(saver, THREAD, 2)
    saver.put_writes(steps[0], [("d", 1)], "t")
    assert "seed" not in history(saver, steps[1], "d")["d"]
    assert history(saver, steps[1], "never")["never"] == {"writes": []}
    assert history(saver, steps[0], "d")["d"] == {"writes": []}, "a root has no ancestors"


def test_delta_seed_is_the_nearest_value(saver):
    """Writes of the seed's own checkpoint count, those before it are in the seed already."""
    parent, steps = at(THREAD), []
    for place in range(5):
        values: dict[str, Any] = {}
        if place in {1, 2}:
            values = {"d": _DeltaSnapshot([f"up to {place}"])}
        versions = {"d": f"{place + 1:032}.5"}
        parent = put(saver, parent, values, versions, step=place)
        saver.put_writes(parent, [("d", place)], f"task{place}")
        steps.append(parent)
    found = history(saver, steps[-1], "d")["d"]
    assert found.get("seed") == _DeltaSnapshot(["up to 2"])
    assert written(found) == [2, 3]


def test_delta_channels_end_apart(saver):
    first = put(saver, at(THREAD), {"a": _DeltaSnapshot([1])}, {"a": "1.0", "b": "1.0"})
    saver.put_writes(first, [("a", "a0"), ("b", "b0")], "t0")
    second = put(
        saver,
        first,
        {"a": _DeltaSnapshot([1]), "b": _DeltaSnapshot([2])},
        {"a": "1.0", "b": "2.0"},
        new={"b": "2.0"},
    )
    saver.put_writes(second, [("a", "a1"), ("b", "b1")], "t1")
    third = put(saver, second, {}, {"a": "3.0", "b": "3.0"})
    found = history(saver, third, "a", "b")
    assert written(found["b"]) == ["b1"]
    assert found["b"].get("seed") == _DeltaSnapshot([2])
    # The second checkpoint holds `a` by its old version: that is a stored value, too.
    assert written(found["a"]) == ["a1"]
    assert found["a"].get("seed") == _DeltaSnapshot([1])


def test_delta_forks_see_their_own_branch(saver):
    root = put(saver, at(THREAD))
    saver.put_writes(root, [("d", "root")], "t")
    left = put(saver, root)
    saver.put_writes(left, [("d", "left")], "t")
    right = put(saver, root)
    saver.put_writes(right, [("d", "right")], "t")
    left_end, right_end = put(saver, left), put(saver, right)
    assert written(history(saver, left_end, "d")["d"]) == ["root", "left"]
    assert written(history(saver, right_end, "d")["d"]) == ["root", "right"]


def test_delta_order_inside_a_step(saver):
    """By path first, then task, then place: not in the order of arrival or of the task's id."""
    root = put(saver, at(THREAD))
    saver.put_writes(root, [("d", "c0"), ("d", "c1")], "task-a", "~path, 2")
    saver.put_writes(root, [("d", "b0")], "task-z", "~path, 1")
    saver.put_writes(root, [("d", "a0")], "task-m")
    end = put(saver, root)
    assert written(history(saver, end, "d")["d"]) == ["a0", "b0", "c0", "c1"]
    pending = saver.get_tuple(root)
    assert [value for _, _, value in pending.pending_writes] == ["a0", "b0", "c0", "c1"]


def test_delta_plain_value_is_a_seed_too(saver):
    """A thread from before its channel was a delta channel; and the async twin says the same."""
    said = [HumanMessage("hello", id="h1")]
    root = put(saver, at(THREAD), {"d": said}, {"d": "1.0"})
    saver.put_writes(root, [("d", [AIMessage("hi", id="a1")])], "t")
    end = put(saver, root, {}, {"d": "2.0"})
    found = history(saver, end, "d")
    assert found["d"].get("seed") == said
    assert written(found["d"]) == [[AIMessage("hi", id="a1")]]
    twin = asyncio.run(saver.aget_delta_channel_history(config=end, channels=["d"]))
    assert dict(twin) == found


# --- and what else


def test_pending_writes_in_order(saver):
    root = put(saver, at(THREAD))
    saver.put_writes(root, [("a", 1), ("b", 2), ("c", 3)], "t1", "p1")
    saver.put_writes(root, [("a", 4), ("b", 5)], "t0", "p2")
    expected = [("t1", "a", 1), ("t1", "b", 2), ("t1", "c", 3), ("t0", "a", 4), ("t0", "b", 5)]
    found = saver.get_tuple(root)
    assert found.pending_writes == expected
    assert next(iter(saver.list(at(THREAD)))).pending_writes == expected


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
    steps = chain(saver, THREAD, 3)
    for step in steps:
        saver.put_writes(step, [("a", "old")], "t")
    old = saver.get_tuple(steps[1])
    saver.prune([THREAD], strategy="keep_latest")
    assert saver.get_tuple(steps[1]) is None
    again = saver.put(at(THREAD, id_of(steps[0])), old.checkpoint, old.metadata, {})
    found = saver.get_tuple(again)
    assert not found.pending_writes


def test_unknown_prune_strategy_is_refused(saver):
    steps = chain(saver, THREAD, 3)
    for strategy in ("", "keep_lastest", "DELETE", "all"):
        with pytest.raises(ValueError, match="strategy"):
            saver.prune([THREAD], strategy=strategy)
    assert [id_of(found.config) for found in saver.list(at(THREAD))] == [
        id_of(step) for step in reversed(steps)
    ]


def test_copies_stand_alone(saver):
    said = [HumanMessage("hello", id="h1"), AIMessage("hi", id="a1")]
    root = put(saver, at(THREAD), {"messages": said}, {"messages": "1.0"})
    saver.put_writes(root, [("messages", [HumanMessage("pending", id="p")])], "t", "path")
    copy = f"{THREAD}-copy"
    saver.copy_thread(THREAD, copy)
    put(saver, at(copy, id_of(root)), {"messages": [*said, said[0]]}, {"messages": "2.0"})
    assert len(list(saver.list(at(THREAD)))) == 1, "a turn on the copy shows up in the source"
    source = saver.get_tuple(at(THREAD))
    assert source.checkpoint["channel_values"]["messages"] == said
    saver.prune([THREAD], strategy="delete")
    saver.delete_thread(THREAD)
    found = saver.get_tuple(at(copy, id_of(root)))
    assert found is not None, "deleting the source takes the copy away"
    assert found.checkpoint["channel_values"] == {"messages": said}
    assert found.pending_writes == [("t", "messages", [HumanMessage("pending", id="p")])]
    saver.copy_thread(copy, THREAD)
    saver.delete_thread(copy)
    assert len(list(saver.list(at(THREAD)))) == 2


def test_threads_do_not_leak(saver):
    """Ids that begin with another id, wildcards, other letters of the same word."""
    names = [
        THREAD,
        f"{THREAD}1",
        f"{THREAD}%",
        f"{THREAD}_",
        f"{THREAD}/x",
        THREAD.upper(),
        f"{THREAD} ",
    ]
    for each in names:
        put(saver, at(each), {"who": each}, {"who": "1.0"})
        put(saver, at(each, ns="child:1"), {"who": f"{each} child"}, {"who": "1.0"})
    for each in names:
        found = [one.checkpoint["channel_values"]["who"] for one in saver.list(at(each))]
        assert found == [each]
        every: Any = {"configurable": {"thread_id": each}}
        values = [one.checkpoint["channel_values"]["who"] for one in saver.list(every)]
        assert sorted(values) == sorted([each, f"{each} child"])
    saver.delete_thread(THREAD)
    assert saver.get_tuple(at(THREAD)) is None
    assert saver.get_tuple(at(THREAD, ns="child:1")) is None
    saver.prune([names[1]], strategy="delete")
    for each in names[2:]:
        left = saver.get_tuple(at(each))
        assert left is not None, f"{each} went with another thread"
        assert left.checkpoint["channel_values"] == {"who": each}


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


def test_deleting_a_thread_leaves_nothing(saver):
    said = [HumanMessage("a secret", id="h1")]
    old = put(saver, at(THREAD), {"messages": said, "a": 1}, {"messages": "1.0", "a": "1.0"})
    saver.put_writes(old, [("a", 2)], "t")
    saver.delete_thread(THREAD)
    # A checkpoint that names the old versions finds values again if they were left behind.
    put(saver, at(THREAD), {}, {"messages": "1.0", "a": "1.0"}, new={})
    found = saver.get_tuple(at(THREAD))
    assert found.checkpoint["channel_values"] == {}
    assert not found.pending_writes
    assert found.parent_config is None
    assert len(list(saver.list(at(THREAD)))) == 1
