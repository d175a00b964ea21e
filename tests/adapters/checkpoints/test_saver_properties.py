"""Whatever a graph does, it reads back what LangGraph's own saver in memory would have given it."""

import dataclasses
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.adapters.migration import migrate_checkpoints
from tests.adapters.checkpoints.saver_graphs import (
    THREAD,
    Shape,
    act,
    actions,
    build,
    run,
    shapes,
)
from tests.adapters.checkpoints.saver_twin import Twin, everything, plain
from tests.adapters.integrations import thread

PLAIN = Shape(("say",), "none", asks=False, sends=0, on_the_loop=False, durability="sync")
RICH = Shape(
    ("call", "edit", "delta"), "kept", asks=True, sends=2, on_the_loop=True, durability="async"
)
KEPT = Shape(("say",), "kept", asks=True, sends=0, on_the_loop=False, durability="sync")


def played(
    saver: Any, shape: Shape, done: list[tuple[str, Any]], *, looks: bool = False
) -> tuple[Twin, Any]:
    """Do everything on both savers; each read on the way has been compared.

    With `looks`, the whole history is read after each step, and at the end without.
    """
    twin = Twin(saver)
    graph = build(shape, twin)
    for number, action in enumerate(done):
        act(graph, shape, action, number)
        if looks:
            list(graph.get_state_history(thread(THREAD)))
    assert everything(twin.tested, THREAD) == everything(twin.trusted, THREAD)
    return twin, graph


def state(graph: Any, name: str = THREAD) -> Any:
    found = graph.get_state(thread(name))
    return plain([found.values, found.next, [one.value for one in found.interrupts]])


def unnamed(value: Any) -> Any:
    """Return a state without ids: messages without one get another one in every run."""
    if isinstance(value, dict):
        return {name: unnamed(one) for name, one in value.items() if name != "id"}
    return [unnamed(one) for one in value] if isinstance(value, list) else value


@pytest.mark.slow
@given(shapes, actions)
@example(PLAIN, [("say", "a"), ("fork", 1), ("say", "b")])
@example(RICH, [("say", "a"), ("resume", "b"), ("say", "c"), ("fork", 3), ("resume", "d")])
@settings(max_examples=settings.default.max_examples // 4)
def test_state_is_the_same_step_by_step(shape, done):
    with TranscriptStore("sqlite://") as store:
        twin, _ = played(TokenMemorySaver(store), shape, done, looks=True)
        assert twin.reads > len(done)


@pytest.mark.slow
@given(shapes, actions)
@example(RICH, [("say", "a"), ("resume", "b"), ("say", "c"), ("fork", 3)])
@settings(max_examples=settings.default.max_examples // 20 or 1)
def test_state_is_the_same_after_copy_and_migration(shape, done):
    with TranscriptStore("sqlite://") as store, TranscriptStore("sqlite://") as other:
        saver, target = TokenMemorySaver(store), TokenMemorySaver(other)
        twin, graph = played(saver, shape, [("say", "first"), *done])
        right = everything(twin.trusted, THREAD)
        alone = build(shape, saver)
        saver.copy_thread(THREAD, "copy")
        assert everything(saver, "copy", THREAD) == right
        assert state(alone, "copy") == state(graph)
        assert everything(saver, THREAD) == right

        for source, kept in ((twin.trusted, "memory"), (saver, "ours")):
            report = migrate_checkpoints(source, target, threads=[THREAD])
            assert everything(target, THREAD) == right, kept
            assert state(build(shape, target)) == state(graph)
            again = migrate_checkpoints(source, target, threads=[THREAD])
            assert (again.copied, again.known) == (0, report.copied + report.known)
            target.delete_thread(THREAD)
        # The copy goes on by itself, and the source does not notice.
        run(alone, shape, {"log": ["more"]}, thread("copy"))
        assert everything(saver, THREAD) == right


def without_versions(found: list[Any]) -> list[Any]:
    """Return checkpoints, as `everything` gives them, without versions of channels."""
    return [
        [places, {key: value for key, value in checkpoint.items() if "version" not in key}, *rest]
        for places, checkpoint, *rest in found
    ]


@contextmanager
def langgraph_savers() -> Iterator[list[BaseCheckpointSaver[Any]]]:
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        yield [SqliteSaver(connection), InMemorySaver()]


@pytest.mark.slow
@given(shapes, actions)
@example(RICH, [("say", "a"), ("resume", "b"), ("say", "c"), ("fork", 3), ("resume", "d")])
@example(PLAIN, [("fork", 1), ("fork update", 1), ("say", "b")])
@settings(max_examples=settings.default.max_examples // 20 or 1)
def test_a_thread_goes_back_to_langgraphs_savers_and_goes_on_there(shape, done):
    with TranscriptStore("sqlite://") as store, langgraph_savers() as targets:
        saver = TokenMemorySaver(store)
        ours = build(shape, saver)
        for number, action in enumerate([("say", "first"), *done]):
            act(ours, shape, action, number)
        before = everything(saver, THREAD)
        there = dataclasses.replace(shape, on_the_loop=False)  # SqliteSaver has sync methods only
        copies = [build(there, target) for target in targets]
        for target, copy in zip(targets, copies, strict=True):
            report = migrate_checkpoints(saver, target)
            assert without_versions(everything(target, THREAD)) == without_versions(before)
            assert state(copy) == state(ours)
            again = migrate_checkpoints(saver, target)
            assert (again.copied, again.known) == (0, report.copied)
        assert everything(saver, THREAD) == before
        for graph in (ours, *copies):
            act(graph, there, ("resume", "yes"), 90)
            act(graph, there, ("say", "go on"), 91)
        for copy in copies:
            assert unnamed(state(copy)) == unnamed(state(ours))


@pytest.mark.slow
@given(shapes, actions, st.integers(1, 4))
@example(RICH, [("say", "a"), ("resume", "b"), ("say", "c"), ("fork", 3)], 1)
@example(KEPT, [("say", "a"), ("update", "messages"), ("say", "b")], 1)
@settings(max_examples=settings.default.max_examples // 20 or 1)
def test_state_is_the_same_after_prune(shape, done, keep_last):
    with TranscriptStore("sqlite://") as store:
        saver = TokenMemorySaver(store)
        twin, graph = played(saver, shape, [("say", "first"), *done])
        right = everything(twin.trusted, THREAD)
        before = state(graph)
        saver.prune([THREAD], strategy="keep_latest", keep_last=keep_last)
        left = everything(saver, THREAD)
        assert [one for one in left if one not in right] == []
        # A run of a sub-graph goes with the checkpoint that it ran under; the graph itself, and a
        # sub-graph with a memory of its own, have a newest one that stays.
        newest = {one[0][0]["checkpoint_ns"][1]: one for one in right}
        assert [ns for ns, one in newest.items() if ":" not in ns and one not in left] == []
        alone = build(shape, saver)
        assert state(alone) == before
        memory = build(shape, twin.trusted)
        for one in (alone, memory):
            run(one, shape, {"log": ["more"], "delta": ["more"]}, thread(THREAD))
        assert unnamed(state(alone)) == unnamed(state(memory))
        saver.prune([THREAD], strategy="delete")
        assert everything(saver, THREAD) == []


def test_the_twin_notices_a_saver_that_forgets():
    """What compares must be able to find something."""

    class Forgets(InMemorySaver):
        def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            super().put_writes(config, list(writes)[1:], task_id, task_path)

    with pytest.raises(AssertionError):
        played(Forgets(), PLAIN, [("say", "a"), ("say", "b")])
