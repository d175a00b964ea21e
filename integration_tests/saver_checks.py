"""What a checkpointer promises, beyond the conformance suite, as checks of one saver.

Each check takes a saver and a name for its threads, and fails by an assertion.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
)
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, _DeltaSnapshot
from savers import at, chain, id_of, put

Saver = BaseCheckpointSaver[Any]
Check = Callable[[Saver, str], None]


def history(saver: Saver, config: Any, *channels: str) -> dict[str, Any]:
    return dict(saver.get_delta_channel_history(config=config, channels=channels))


def written(entry: Any) -> list[Any]:
    return [value for _, _, value in entry["writes"]]


# --- the eight cases of delta-channel history


def delta_writes_oldest_first_without_the_target(saver: Saver, name: str) -> None:
    steps = chain(saver, name, 4)
    for place, step in enumerate(steps):
        saver.put_writes(step, [("d", place), ("other", "x")], f"task{place}")
    found = history(saver, steps[-1], "d")
    assert written(found["d"]) == [0, 1, 2], "the target's own writes are still pending"
    assert found["d"]["writes"][1] == ("task1", "d", 1)
    assert written(history(saver, at(name), "d")["d"]) == [0, 1, 2], "the newest by default"
    assert written(history(saver, steps[1], "d")["d"]) == [0], "an older target"


def delta_without_a_seed(saver: Saver, name: str) -> None:
    steps = chain(saver, name, 2)
    saver.put_writes(steps[0], [("d", 1)], "t")
    assert "seed" not in history(saver, steps[1], "d")["d"]
    assert history(saver, steps[1], "never")["never"] == {"writes": []}
    assert history(saver, steps[0], "d")["d"] == {"writes": []}, "a root has no ancestors"


def delta_seed_is_the_nearest_value(saver: Saver, name: str) -> None:
    """Writes of the seed's own checkpoint count, those before it are in the seed already."""
    parent, steps = at(name), []
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


def delta_channels_end_apart(saver: Saver, name: str) -> None:
    first = put(saver, at(name), {"a": _DeltaSnapshot([1])}, {"a": "1.0", "b": "1.0"})
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


def delta_forks_see_their_own_branch(saver: Saver, name: str) -> None:
    root = put(saver, at(name))
    saver.put_writes(root, [("d", "root")], "t")
    left = put(saver, root)
    saver.put_writes(left, [("d", "left")], "t")
    right = put(saver, root)
    saver.put_writes(right, [("d", "right")], "t")
    left_end, right_end = put(saver, left), put(saver, right)
    assert written(history(saver, left_end, "d")["d"]) == ["root", "left"]
    assert written(history(saver, right_end, "d")["d"]) == ["root", "right"]


def delta_order_inside_a_step(saver: Saver, name: str) -> None:
    """By path first, then task, then place: not in the order of arrival or of the task's id."""
    root = put(saver, at(name))
    saver.put_writes(root, [("d", "c0"), ("d", "c1")], "task-a", "~path, 2")
    saver.put_writes(root, [("d", "b0")], "task-z", "~path, 1")
    saver.put_writes(root, [("d", "a0")], "task-m")
    end = put(saver, root)
    assert written(history(saver, end, "d")["d"]) == ["a0", "b0", "c0", "c1"]
    pending = saver.get_tuple(root)
    assert pending is not None
    assert [value for _, _, value in pending.pending_writes or ()] == ["a0", "b0", "c0", "c1"]


def delta_plain_value_is_a_seed_too(saver: Saver, name: str) -> None:
    """A thread from before its channel was a delta channel; and the async twin says the same."""
    said = [HumanMessage("hello", id="h1")]
    root = put(saver, at(name), {"d": said}, {"d": "1.0"})
    saver.put_writes(root, [("d", [AIMessage("hi", id="a1")])], "t")
    end = put(saver, root, {}, {"d": "2.0"})
    found = history(saver, end, "d")
    assert found["d"].get("seed") == said
    assert written(found["d"]) == [[AIMessage("hi", id="a1")]]
    twin = asyncio.run(saver.aget_delta_channel_history(config=end, channels=["d"]))
    assert dict(twin) == found


# --- what the suite misses


def pending_writes_in_order(saver: Saver, name: str) -> None:
    root = put(saver, at(name))
    saver.put_writes(root, [("a", 1), ("b", 2), ("c", 3)], "t1", "p1")
    saver.put_writes(root, [("a", 4), ("b", 5)], "t0", "p2")
    expected = [("t1", "a", 1), ("t1", "b", 2), ("t1", "c", 3), ("t0", "a", 4), ("t0", "b", 5)]
    found = saver.get_tuple(root)
    assert found is not None
    assert found.pending_writes == expected
    assert next(iter(saver.list(at(name)))).pending_writes == expected


def special_writes_are_overwritten(saver: Saver, name: str) -> None:
    """An answer to an interrupt, or an error, replaces the former one; results do not."""
    root = put(saver, at(name))
    for turn in (1, 2):
        for channel in (ERROR, INTERRUPT, RESUME):
            saver.put_writes(root, [(channel, f"{channel}{turn}")], "t")
        saver.put_writes(root, [("a", f"a{turn}")], "t")
    found = saver.get_tuple(root)
    assert found is not None
    values = {channel: value for _, channel, value in found.pending_writes or ()}
    assert len(found.pending_writes or ()) == 4
    assert values == {
        ERROR: f"{ERROR}2",
        INTERRUPT: f"{INTERRUPT}2",
        RESUME: f"{RESUME}2",
        "a": "a1",
    }


def prune_takes_the_writes(saver: Saver, name: str) -> None:
    """Writes of a pruned checkpoint would come back with a checkpoint of the same id."""
    steps = chain(saver, name, 3)
    for step in steps:
        saver.put_writes(step, [("a", "old")], "t")
    old = saver.get_tuple(steps[1])
    assert old is not None
    saver.prune([name], strategy="keep_latest")
    assert saver.get_tuple(steps[1]) is None
    again = saver.put(at(name, id_of(steps[0])), old.checkpoint, old.metadata, {})
    found = saver.get_tuple(again)
    assert found is not None
    assert not found.pending_writes


def unknown_prune_strategy_is_refused(saver: Saver, name: str) -> None:
    steps = chain(saver, name, 3)
    for strategy in ("", "keep_lastest", "DELETE", "all"):
        with pytest.raises(ValueError, match="strategy"):
            saver.prune([name], strategy=strategy)
    assert [id_of(found.config) for found in saver.list(at(name))] == [
        id_of(step) for step in reversed(steps)
    ]


def copies_stand_alone(saver: Saver, name: str) -> None:
    said: list[AnyMessage] = [HumanMessage("hello", id="h1"), AIMessage("hi", id="a1")]
    root = put(saver, at(name), {"messages": said}, {"messages": "1.0"})
    saver.put_writes(root, [("messages", [HumanMessage("pending", id="p")])], "t", "path")
    copy = f"{name}-copy"
    saver.copy_thread(name, copy)
    put(saver, at(copy, id_of(root)), {"messages": [*said, said[0]]}, {"messages": "2.0"})
    assert len(list(saver.list(at(name)))) == 1, "a turn on the copy shows up in the source"
    source = saver.get_tuple(at(name))
    assert source is not None
    assert source.checkpoint["channel_values"]["messages"] == said
    saver.prune([name], strategy="delete")
    saver.delete_thread(name)
    found = saver.get_tuple(at(copy, id_of(root)))
    assert found is not None, "deleting the source takes the copy away"
    assert found.checkpoint["channel_values"] == {"messages": said}
    assert found.pending_writes == [("t", "messages", [HumanMessage("pending", id="p")])]
    saver.copy_thread(copy, name)
    saver.delete_thread(copy)
    assert len(list(saver.list(at(name)))) == 2


def threads_do_not_leak(saver: Saver, name: str) -> None:
    """Ids that begin with another id, wildcards, other letters of the same word."""
    names = [name, f"{name}1", f"{name}%", f"{name}_", f"{name}/x", name.upper(), f"{name} "]
    for each in names:
        put(saver, at(each), {"who": each}, {"who": "1.0"})
        put(saver, at(each, ns="child:1"), {"who": f"{each} child"}, {"who": "1.0"})
    for each in names:
        found = [one.checkpoint["channel_values"]["who"] for one in saver.list(at(each))]
        assert found == [each]
        every: Any = {"configurable": {"thread_id": each}}
        values = [one.checkpoint["channel_values"]["who"] for one in saver.list(every)]
        assert sorted(values) == sorted([each, f"{each} child"])
    saver.delete_thread(name)
    assert saver.get_tuple(at(name)) is None
    assert saver.get_tuple(at(name, ns="child:1")) is None
    saver.prune([names[1]], strategy="delete")
    for each in names[2:]:
        left = saver.get_tuple(at(each))
        assert left is not None, f"{each} went with another thread"
        assert left.checkpoint["channel_values"] == {"who": each}


def sync_api_works(saver: Saver, name: str) -> None:
    """Every sync method, in a thread that has no event loop and inside of a running one."""

    def use(thread: str) -> None:
        root = put(saver, at(thread), {"a": 1}, {"a": "1.0"}, run_id=f"run-{thread}")
        saver.put_writes(root, [("a", 2)], "t")
        found = saver.get_tuple(root)
        assert found is not None
        assert saver.get(root) == found.checkpoint
        assert [one.config for one in saver.list(at(thread))] == [root]
        assert history(saver, root, "a") == {"a": {"writes": []}}
        saver.copy_thread(thread, f"{thread}-2")
        saver.prune([f"{thread}-2"])
        saver.delete_for_runs([f"run-{thread}"])
        assert saver.get_tuple(at(f"{thread}-2")) is None
        saver.delete_thread(thread)
        assert saver.get_tuple(at(thread)) is None

    async def inside() -> None:
        use(f"{name}-loop")

    failed: list[BaseException] = []

    def watched() -> None:
        try:
            use(f"{name}-thread")
            asyncio.run(inside())
        except BaseException as error:  # noqa: BLE001  # it is raised again in the caller
            failed.append(error)

    worker = threading.Thread(target=watched, daemon=True)
    worker.start()
    worker.join(30)
    assert not worker.is_alive(), "it hangs"
    assert not failed, repr(failed[0])


def versions_only_grow(saver: Saver, name: str) -> None:
    seen: list[Any] = [saver.get_next_version(None, None)]
    for _ in range(2_000):
        seen.append(saver.get_next_version(seen[-1], None))
    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen)
    # A thread that another saver began goes on from that saver's own versions.
    for foreign in (7, f"{7:032}.{0.5:016}"):
        assert saver.get_next_version(foreign, None) > foreign
        assert type(saver.get_next_version(foreign, None)) is type(foreign)


def deleting_a_thread_leaves_nothing(saver: Saver, name: str) -> None:
    said = [HumanMessage("a secret", id="h1")]
    old = put(saver, at(name), {"messages": said, "a": 1}, {"messages": "1.0", "a": "1.0"})
    saver.put_writes(old, [("a", 2)], "t")
    saver.delete_thread(name)
    # A checkpoint that names the old versions finds values again if they were left behind.
    put(saver, at(name), {}, {"messages": "1.0", "a": "1.0"}, new={})
    found = saver.get_tuple(at(name))
    assert found is not None
    assert found.checkpoint["channel_values"] == {}
    assert not found.pending_writes
    assert found.parent_config is None
    assert len(list(saver.list(at(name)))) == 1


CHECKS: tuple[Check, ...] = (
    delta_writes_oldest_first_without_the_target,
    delta_without_a_seed,
    delta_seed_is_the_nearest_value,
    delta_channels_end_apart,
    delta_forks_see_their_own_branch,
    delta_order_inside_a_step,
    delta_plain_value_is_a_seed_too,
    pending_writes_in_order,
    special_writes_are_overwritten,
    prune_takes_the_writes,
    unknown_prune_strategy_is_refused,
    copies_stand_alone,
    threads_do_not_leak,
    sync_api_works,
    versions_only_grow,
    deleting_a_thread_leaves_nothing,
)
