"""Reader of a migration's source: threads, checkpoints in order, errors that name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from langchain_tokenmem.adapters.checkpoints.thread_methods import ThreadSaver
from langchain_tokenmem.adapters.migration.errors import reading_source
from langchain_tokenmem.adapters.migration.other_savers import (
    CheckpointKey,
    checkpoints_of,
    thread_ids,
)
from langchain_tokenmem.core.thread_names import check_thread_id
from langchain_tokenmem.errors import ConfigurationError, ScopeError, StoreError


def config_at(thread: str, namespace: str, checkpoint_id: str | None = None) -> RunnableConfig:
    """Return the config that names a checkpoint, or the head of a namespace."""
    named = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, **named}}


def threads_of(
    source: BaseCheckpointSaver[Any], target: BaseCheckpointSaver[Any]
) -> tuple[list[str], list[str]]:
    """Return the threads of the source, and those that cannot be threads of the target."""
    with reading_source("The list of threads"):
        found = thread_ids(source)
    skipped = []
    for thread in found if isinstance(target, ThreadSaver) else ():
        try:
            check_thread_id(thread)
        except ScopeError:
            skipped.append(thread)
    return [thread for thread in found if thread not in skipped], [*map(str, skipped)]


def keys_in_order(source: BaseCheckpointSaver[Any], thread: str) -> list[CheckpointKey]:
    """Return the checkpoints of a thread in the order in which they are copied.

    By id, as other savers find their head, the greatest id. Ours follows the parents, because the
    clock of a machine may have been behind; what leads to a head comes last.
    """
    with reading_source(f"Thread {thread!r}: its checkpoints"):
        parents = checkpoints_of(source, thread)
        if not isinstance(source, ThreadSaver):
            return sorted(parents, key=lambda key: key.checkpoint_id)
        heads = {(ns, head_of(source, thread, ns)) for ns in {key.namespace for key in parents}}
    return in_order(parents, [CheckpointKey(ns, head) for ns, head in heads if head])


def in_order(
    parents: Mapping[CheckpointKey, str | None], heads: Iterable[CheckpointKey]
) -> list[CheckpointKey]:
    """Return checkpoints behind their parents, then by id, the ancestors of the heads late."""
    before = {
        key: other
        for key, parent in parents.items()
        if (other := CheckpointKey(key.namespace, parent or "")) in parents
    }
    late: set[CheckpointKey] = set()
    for head in heads:
        key: CheckpointKey | None = head
        while key and key not in late:
            late.add(key)
            key = before.get(key)
    predecessors = {key: [before[key]] if key in before else [] for key in parents}
    sorter = TopologicalSorter(predecessors)
    with suppress(CycleError):  # of a damaged source; what is outside of the circle comes first
        sorter.prepare()
    order: list[CheckpointKey] = []
    ready: list[tuple[bool, str, CheckpointKey]] = []
    while sorter.is_active():
        for key in sorter.get_ready():
            heappush(ready, (key in late, key.checkpoint_id, key))
        order.append(heappop(ready)[-1])
        sorter.done(order[-1])
    return order + sorted(parents.keys() - {*order})


def head_of(saver: BaseCheckpointSaver[Any], thread: str, namespace: str) -> str | None:
    """Return the id of the checkpoint that a run would go on from."""
    found = saver.get_tuple(config_at(thread, namespace))
    return None if found is None else str(found.config["configurable"]["checkpoint_id"])


def read_checkpoint(
    source: BaseCheckpointSaver[Any], thread: str, key: CheckpointKey
) -> CheckpointTuple:
    """Return a checkpoint of the source.

    Raises:
        ConfigurationError: When it holds a type that is not allowed.
        StoreError: When it is not there any more, or cannot be read.
    """
    where = f"Thread {thread!r}, checkpoint {key.checkpoint_id}"
    with reading_source(where):
        found = source.get_tuple(config_at(thread, *key))
    if found is None:
        raise StoreError(
            f"{where}: it went away while it was copied. Stop what deletes from the source, and "
            f"run the migration again."
        )
    unbuilt = _unbuilt_objects(
        found.checkpoint["channel_values"], found.pending_writes, found.metadata
    )
    if unbuilt and not isinstance(source, ThreadSaver):
        raise ConfigurationError(
            f"{where}: an old version of LangGraph stored {', '.join(sorted(unbuilt))}, of which "
            f"its serializer now gives the parts only. If you trust it, call migrate_checkpoints "
            f"in Python with JsonPlusSerializer(allowed_json_modules=...) as the source's "
            f"serializer."
        )
    return found


def _unbuilt_objects(*values: Any) -> set[str]:
    """Return the names of objects that LangGraph's reader of old JSON rows left as parts."""
    found: set[str] = set()
    waiting = [*values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            if value.get("lc") == 2 and value.get("type") == "constructor":  # noqa: PLR2004  # its sign
                found.add(".".join(map(str, value.get("id") or ())))
    return found
