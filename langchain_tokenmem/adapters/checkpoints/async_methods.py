"""The async methods of a saver: its sync methods in a thread, off the event loop."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from langchain_tokenmem.storage.checkpoints.breath import off_the_loop


class ThreadedSaver(BaseCheckpointSaver[Any], ABC):
    """A saver whose async methods do the same as the sync ones, in a thread."""

    _sweeps: set[asyncio.Task[None]]

    @abstractmethod
    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> tuple[RunnableConfig, bool]:
        """Store a checkpoint, and return its config and whether retention is due."""

    @abstractmethod
    def _sweep(self, thread_id: str) -> None:
        """Apply the policy of retention."""

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Do the same as `put` without blocking the event loop; retention runs behind it."""
        stored, is_due = await off_the_loop(self._put, config, checkpoint, metadata, new_versions)
        if is_due:
            thread_id = stored["configurable"]["thread_id"]
            sweep = asyncio.create_task(off_the_loop(self._sweep, thread_id))
            self._sweeps.add(sweep)
            sweep.add_done_callback(self._sweeps.discard)
        return stored

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Do the same as `get_tuple` without blocking the event loop."""
        return await off_the_loop(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do the same as `list` without blocking the event loop."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await off_the_loop(next, found, None)) is not None:
            yield one

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Do the same as `put_writes` without blocking the event loop."""
        await off_the_loop(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Do the same as `delete_thread` without blocking the event loop."""
        await off_the_loop(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do the same as `delete_for_runs` without blocking the event loop."""
        await off_the_loop(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do the same as `copy_thread` without blocking the event loop."""
        await off_the_loop(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep_last: int | None = None,
        older_than: timedelta | None = None,
    ) -> None:
        """Do the same as `prune` without blocking the event loop."""
        given = {"keep_last": keep_last, "older_than": older_than}
        await off_the_loop(self.prune, thread_ids, strategy=strategy, **given)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Do the same as `get_delta_channel_history` without blocking the event loop."""
        return await off_the_loop(self.get_delta_channel_history, config=config, channels=channels)
