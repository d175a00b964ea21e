"""Savers to test, and small checkpoints made by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointTuple
from langgraph.checkpoint.base.id import uuid6


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


def at(thread: str, checkpoint_id: str | None = None, ns: str = "") -> RunnableConfig:
    """Return the config that names a checkpoint, or a thread's newest one."""
    named = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, **named}}


def id_of(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])


def checkpoint(
    values: dict[str, Any] | None = None, versions: dict[str, Any] | None = None
) -> Checkpoint:
    return Checkpoint(
        v=4,
        id=str(uuid6(clock_seq=-1)),
        ts="2026-11-21T12:00:00+00:00",
        channel_values=dict(values or {}),
        channel_versions=dict(versions or {}),
        versions_seen={},
        updated_channels=None,
    )


def put(
    saver: BaseCheckpointSaver[Any],
    parent: RunnableConfig,
    values: dict[str, Any] | None = None,
    versions: dict[str, Any] | None = None,
    *,
    new: dict[str, Any] | None = None,
    **metadata: Any,
) -> RunnableConfig:
    """Put a checkpoint as a graph does: `new` are the channels that this step has written."""
    made = checkpoint(values, versions)
    changed = dict(versions or {}) if new is None else new
    meta: Any = {"source": "loop", "step": 0, "parents": {}, **metadata}
    return saver.put(parent, made, meta, changed)


def chain(
    saver: BaseCheckpointSaver[Any], thread: str, count: int, ns: str = ""
) -> list[RunnableConfig]:
    """Put checkpoints one after another; channel `n` holds the place in the chain."""
    parent, made = at(thread, ns=ns), []
    for place in range(count):
        version = f"{place + 1:032}.5"
        parent = put(saver, parent, {"n": place}, {"n": version}, step=place)
        made.append(parent)
    return made
