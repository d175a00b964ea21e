"""Methods of a saver that read checkpoints, and that delete, copy and thin out whole threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, DeltaChannelHistory

from langchain_tokenmem.adapters.checkpoints.config import address_of, tuple_of
from langchain_tokenmem.adapters.checkpoints.retention_policy import rule_of
from langchain_tokenmem.background import in_own_thread
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.checkpoints import threads as checkpoint_threads
from langchain_tokenmem.storage.checkpoints.listing import delta_history, listed
from langchain_tokenmem.storage.checkpoints.retention import delete_for_runs, prune
from langchain_tokenmem.storage.checkpoints.store import CheckpointStore
from langchain_tokenmem.storage.database.async_wrappers import in_thread


class ThreadSaver(BaseCheckpointSaver[Any]):
    """A saver that reads, deletes, copies and thins out threads."""

    _checkpoints: CheckpointStore

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
        while (one := await in_own_thread(next, found, None)) is not None:
            yield one

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes to delta channels since their last snapshots, along the branch.

        Args:
            config: Names the checkpoint from whose parent on is looked back.
            channels: The channels.
        """
        return delta_history(self._checkpoints, address_of(config), channels)

    aget_delta_channel_history = in_thread(get_delta_channel_history)

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread: checkpoints, pending writes, and its transcript.

        Raises:
            CorruptStoreError: When the rows of the thread cannot be told from those of others;
                nothing was deleted.
        """
        checkpoint_threads.delete_thread(self._checkpoints, thread_id)

    adelete_thread = in_thread(delete_thread)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs with their pending writes; transcripts stay.

        What later checkpoints of a `DeltaChannel` build upon goes as well: this deletes what was
        named. To thin out a thread that lives on use `prune`.

        Raises:
            ConfigurationError: When it is one id instead of several.
            CorruptStoreError: When a thread of theirs lost a checkpoint; nothing was deleted.
        """
        names = [str(one) for one in _many(run_ids, "run_ids")]
        delete_for_runs(self._checkpoints, names, now=datetime.now(UTC))

    adelete_for_runs = in_thread(delete_for_runs)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all checkpoints, pending writes and its transcript.

        Raises:
            ConfigurationError: When the target has checkpoints or messages of its own.
            CorruptStoreError: When something of the source is found to be damaged or missing;
                nothing was copied.
        """
        checkpoint_threads.copy_thread(self._checkpoints, source_thread_id, target_thread_id)

    acopy_thread = in_thread(copy_thread)

    def prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep_last: int | None = None,
        older_than: timedelta | None = None,
    ) -> None:
        """Delete old checkpoints of threads, and everything that only they needed.

        What a kept checkpoint builds upon stays, too: the ancestors of a `DeltaChannel` back to
        its last snapshot. Checkpoints of a sub-graph go with the one they ran under. The
        transcript of a thread is never touched.

        Args:
            thread_ids: The threads.
            strategy: "keep_latest" keeps the newest checkpoint of each namespace, "delete" none.
            keep_last: Keeps so many instead of one.
            older_than: Only those of this age and older go; the head always stays.

        Raises:
            ConfigurationError: When the strategy is another one, a number cannot be, or one id is
                given instead of several.
            CorruptStoreError: When a thread is damaged; nothing of it was deleted.
        """
        now = datetime.now(UTC)
        rule = rule_of(strategy, keep_last, older_than, now)
        for thread_id in _many(thread_ids, "thread_ids"):
            prune(self._checkpoints, thread_id, rule, now=now)

    aprune = in_thread(prune)


def _many(given: Iterable[Any], name: str) -> Iterable[Any]:
    """Return ids; a single one would be taken letter by letter."""
    if isinstance(given, str | bytes):
        raise ConfigurationError(f"{name} is {given!r}; give a list of ids, such as [{given!r}].")
    return given
