"""Methods of a saver that delete, copy and thin out whole threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from langchain_tokenmem.adapters.checkpoints.retention_policy import rule_of
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.checkpoints import threads as checkpoint_threads
from langchain_tokenmem.storage.checkpoints.retention import delete_for_runs, prune
from langchain_tokenmem.storage.checkpoints.store import CheckpointStore
from langchain_tokenmem.storage.database.async_wrappers import in_thread


class ThreadSaver(BaseCheckpointSaver[Any]):
    """A saver that deletes, copies and thins out threads."""

    _checkpoints: CheckpointStore

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
