"""Copies the threads of one LangGraph checkpointer into another, and proves it by reading back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple

from langchain_tokenmem.adapters.checkpoints.config import NamedId
from langchain_tokenmem.adapters.checkpoints.thread_methods import ThreadSaver
from langchain_tokenmem.adapters.migration.comparison import (
    WRITES,
    changed_channels,
    difference,
    missing_writes,
    parent_of,
    would_lose_writes,
)
from langchain_tokenmem.adapters.migration.errors import reading_source
from langchain_tokenmem.adapters.migration.other_savers import checkpoints_of, task_paths
from langchain_tokenmem.adapters.migration.source import (
    config_at,
    head_of,
    keys_in_order,
    read_checkpoint,
    threads_of,
)
from langchain_tokenmem.adapters.migration.transcripts import copy_transcripts
from langchain_tokenmem.errors import ConfigurationError, StoreError

Progress = Callable[[str, int, int], None]
"""Called with a thread's id, how many of its checkpoints are done, and how many there are."""


@dataclass(frozen=True)
class MigrationReport:
    """Result of a migration.

    Attributes:
        threads: Threads that are in the target now.
        copied: Checkpoints that were written.
        known: Checkpoints that the target had already, as they are.
        writes: Pending writes of the copied checkpoints.
        skipped: Ids of threads that were left out, because they cannot be threads in the target.
    """

    threads: int
    copied: int
    known: int
    writes: int
    skipped: tuple[str, ...] = ()


def migrate_checkpoints(
    source: BaseCheckpointSaver[Any],
    target: BaseCheckpointSaver[Any],
    *,
    threads: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> MigrationReport:
    """Copy threads with every checkpoint, its parent, its metadata and its pending writes.

    Each checkpoint is read back from the target and compared with the source before the next one
    is written, and at the end of a thread a run goes on from the same one as in the source. From
    one `TokenMemorySaver` to another the transcripts come along whole. A migration that was
    interrupted goes on where it stopped when it is run again; nobody should write to the threads
    meanwhile. The source is only read.

    Args:
        source: Any LangGraph checkpointer.
        target: Where to, such as a `TokenMemorySaver` with `on_conflict="branch"`.
        threads: Which threads; default: all of them.
        progress: Called after each checkpoint.

    Returns:
        How much was copied.

    Raises:
        ConfigurationError: When the source has no checkpoint of a thread that is named, or holds a
            type that its serializer is not allowed to load.
        ScopeError: When a thread that is named cannot be one in the target, or belongs to another
            user there.
        StoreError: When the source cannot be read, the target holds something else under the name
            of a checkpoint or has gone on from it, or does not give back what it was given.

    Example:
        >>> from langgraph.checkpoint.memory import InMemorySaver
        >>> migrate_checkpoints(InMemorySaver(), InMemorySaver())
        MigrationReport(threads=0, copied=0, known=0, writes=0, skipped=())
    """
    wanted, skipped = threads_of(source, target) if threads is None else ([*threads], [])
    total = Counter(threads=0, copied=0, known=0, writes=0)
    for thread in wanted:
        done = _copy_thread(source, target, thread, progress)
        if not done and threads is not None:
            raise ConfigurationError(
                f"Thread {thread!r} has no checkpoints in the source; see how it is written there."
            )
        total.update(done)
    return MigrationReport(**total, skipped=tuple(skipped))


def _copy_thread(
    source: BaseCheckpointSaver[Any],
    target: BaseCheckpointSaver[Any],
    thread: str,
    progress: Progress | None,
) -> Counter[str]:
    """Copy a thread; where the source has none of this name nothing is done and counted."""
    begun = checkpoints_of(target, thread)
    keys = keys_in_order(source, thread)
    if not keys:
        return Counter()
    continued = {key.namespace for key in begun.keys() - {*keys}}
    namespaces = {key.namespace for key in keys}
    if isinstance(source, ThreadSaver) and isinstance(target, ThreadSaver):
        copy_transcripts(source, target, thread, namespaces)
    copied = writes = 0
    for done, key in enumerate(keys, start=1):
        found = read_checkpoint(source, thread, key)
        where = f"Thread {thread!r}, checkpoint {key.checkpoint_id}"
        config = config_at(thread, *key)
        copy = target.get_tuple(config) if key in begun else None
        if copy is None or _is_behind(
            copy, found, target, where, is_continued=key.namespace in continued
        ):
            with reading_source(where):
                paths = task_paths(source, found)
            _copy_checkpoint(target, found, thread, key.namespace, paths)
            copy = target.get_tuple(config)
            different = "everything" if copy is None else difference(found, copy, target.serde)
            if different is not None:
                raise StoreError(
                    f"{where}: the target does not give back what it was given ({different} "
                    f"differ). Nothing was deleted anywhere; please report it."
                )
            copied += 1
            writes += len(found.pending_writes or ())
        if progress is not None:
            progress(thread, done, len(keys))
    for namespace in namespaces - continued:
        _check_head(source, target, thread, namespace)
    return Counter(threads=1, copied=copied, known=len(keys) - copied, writes=writes)


def _is_behind(
    copy: CheckpointTuple,
    found: CheckpointTuple,
    target: BaseCheckpointSaver[Any],
    where: str,
    *,
    is_continued: bool,
) -> bool:
    """Return whether the target has a checkpoint without all of its pending writes."""
    different = difference(found, copy, target.serde)
    if different not in {None, WRITES}:
        raise StoreError(
            f"{where}: the target has another one under this name ({different} differ). Migrate "
            f"into an empty store, or delete the thread there."
        )
    if different is None or not missing_writes(found, copy, target.serde):
        return False
    if is_continued or would_lose_writes(found, copy, target.serde):
        raise StoreError(
            f"{where}: the target has gone on from it ({different} differ). Delete the thread "
            f"there, or leave it out: name the others with --thread."
        )
    return True


def _copy_checkpoint(
    target: BaseCheckpointSaver[Any],
    found: CheckpointTuple,
    thread: str,
    namespace: str,
    paths: Mapping[str, str],
) -> None:
    """Put a checkpoint with its pending writes."""
    before = None
    config = config_at(thread, namespace)
    if (parent := parent_of(found)) is not None:
        # A name that was given, not merely found at the head, says that a branch there is meant.
        config = config_at(thread, namespace, NamedId(parent))
        before = target.get_tuple(config)
    if isinstance(owner := found.metadata.get("user_id"), str):
        config["configurable"]["user_id"] = owner
    # What a step has written: the parent's copy stands for everything else.
    changed = changed_channels(before, found, target.serde)
    stored = target.put(config, found.checkpoint, found.metadata, changed)
    for task, group in groupby(found.pending_writes or (), key=lambda write: write[0]):
        pairs = [(channel, value) for _, channel, value in group]
        # Apart, so that results keep their numbers: a task that runs again skips those it has.
        special = [pair for pair in pairs if pair[0] in WRITES_IDX_MAP]
        results = [pair for pair in pairs if pair[0] not in WRITES_IDX_MAP]
        for batch in filter(None, (special, results)):
            target.put_writes(stored, batch, task, paths.get(task, ""))


def _check_head(
    source: BaseCheckpointSaver[Any], target: BaseCheckpointSaver[Any], thread: str, namespace: str
) -> None:
    """Make sure that a run goes on from the same checkpoint in both."""
    with reading_source(f"Thread {thread!r}: its newest checkpoint"):
        expected = head_of(source, thread, namespace)
    actual = head_of(target, thread, namespace)
    if actual != expected:
        raise StoreError(
            f"Thread {thread!r}, namespace {namespace!r}: all checkpoints were copied, but a run "
            f"would go on from {actual} there and from {expected} in the source. Name the "
            f"checkpoint in the config of the next run; please report it."
        )
