"""Methods of a saver that read checkpoints: one, a list, or the history of delta channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory

from langchain_tokenmem.adapters.checkpoints.config import address_of, tuple_of
from langchain_tokenmem.adapters.checkpoints.thread_methods import ThreadSaver
from langchain_tokenmem.storage.checkpoints.listing import delta_history, listed
from langchain_tokenmem.storage.database.async_wrappers import in_thread


class ReadingSaver(ThreadSaver):
    """A saver that reads checkpoints."""

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint, the head of the thread when the config names none.

        Raises:
            CorruptStoreError: When something of it is damaged or missing.
        """
        address = address_of(config)
        found = self._checkpoints.get(address)
        if found is None:
            return None
        return tuple_of(found, is_named=address.checkpoint_id is not None)

    aget_tuple = in_thread(get_tuple)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first.

        Args:
            config: Names the thread, and namespace and checkpoint if they matter. None stands for
                every thread in the store, whoever's it is.
            filter: What their metadata has to say; keys and values are compared, nothing of them
                is part of a query.
            before: Names the checkpoint that those meant are older than.
            limit: Most that are yielded.

        Raises:
            CorruptStoreError: When something is damaged or missing.
        """
        address = None if config is None else address_of(config)
        named = (config or {}).get("configurable", {}).get("checkpoint_ns")
        found = listed(
            self._checkpoints,
            address.thread_id if address else None,
            named,
            checkpoint_id=address.checkpoint_id if address else None,
            before=(before or {}).get("configurable", {}).get("checkpoint_id"),
            metadata=filter or {},
        )
        for one in islice(found, None if limit is None else max(0, limit)):
            yield tuple_of(one, is_named=True)

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
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes to delta channels since their last snapshots, along the branch.

        Args:
            config: Names the checkpoint from whose parent on is looked back.
            channels: The channels.
        """
        found = delta_history(self._checkpoints, address_of(config), channels)
        return {
            name: {"writes": written, "seed": seeds[0]} if seeds else {"writes": written}
            for name, (written, seeds) in found.items()
        }

    aget_delta_channel_history = in_thread(get_delta_channel_history)
