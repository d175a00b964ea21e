"""Copies the threads of one LangGraph checkpointer into another, and proves it by reading back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple

from langchain_tokenmem.adapters.checkpoints.config import NamedId
from langchain_tokenmem.adapters.checkpoints.thread_methods import ThreadSaver
from langchain_tokenmem.adapters.migration.comparison import (
    WRITES,
    difference,
    digest_of,
    has_writes_of,
    parent_of,
    would_lose_writes,
)
from langchain_tokenmem.adapters.migration.other_savers import (
    CheckpointKey,
    checkpoints_of,
    task_paths,
)
from langchain_tokenmem.adapters.migration.source import (
    config_at,
    errors_at,
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

    def plus(self, other: MigrationReport) -> MigrationReport:
        """Return the sum of two."""
        return MigrationReport(
            self.threads + other.threads,
            self.copied + other.copied,
            self.known + other.known,
            self.writes + other.writes,
            self.skipped + other.skipped,
        )


class _Copied(NamedTuple):
    config: RunnableConfig
    versions: Mapping[str, Any]
    digests: Mapping[str, bytes | None]


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
        progress: Told after each checkpoint.

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
    report = MigrationReport(0, 0, 0, 0, tuple(skipped))
    for thread in wanted:
        done = _migrated(source, target, thread, progress)
        if not done.threads and threads is not None:
            raise ConfigurationError(
                f"Thread {thread!r} has no checkpoints in the source; see how it is written there."
            )
        report = report.plus(done)
    return report


def _migrated(
    source: BaseCheckpointSaver[Any],
    target: BaseCheckpointSaver[Any],
    thread: str,
    progress: Progress | None,
) -> MigrationReport:
    """Copy a thread; where the source has none of this name nothing is done."""
    begun = checkpoints_of(target, thread)
    keys = keys_in_order(source, thread)
    more = {key.namespace for key in begun.keys() - set(keys)}
    namespaces = dict.fromkeys(key.namespace for key in keys)
    if keys and isinstance(source, ThreadSaver) and isinstance(target, ThreadSaver):
        copy_transcripts(source, target, thread, namespaces)
    copied = writes = 0
    there: dict[CheckpointKey, _Copied] = {}
    for done, key in enumerate(keys, start=1):
        found = read_checkpoint(source, thread, key)
        copy = None
        if key in begun:
            copy = _already_there(target, found, thread, key, has_more=key.namespace in more)
        digests = _digests(found)
        if copy is None:
            with errors_at(f"Thread {thread!r}, checkpoint {key.checkpoint_id}"):
                paths = task_paths(source, found)
            _write(target, found, paths, there, digests)
            copy = _verified(target, found, thread, key)
            copied += 1
            writes += len(found.pending_writes or ())
        there[key] = _Copied(copy.config, found.checkpoint["channel_versions"], digests)
        if progress is not None:
            progress(thread, done, len(keys))
    for namespace in namespaces.keys() - more:
        _check_head(source, target, thread, namespace)
    return MigrationReport(int(bool(keys)), copied, len(keys) - copied, writes)


def _digests(found: CheckpointTuple) -> dict[str, bytes | None]:
    """Return what names the values of the channels, which may change under one version."""
    return {name: digest_of(value) for name, value in found.checkpoint["channel_values"].items()}


def _write(
    target: BaseCheckpointSaver[Any],
    found: CheckpointTuple,
    paths: Mapping[str, str],
    there: Mapping[CheckpointKey, _Copied],
    digests: Mapping[str, bytes | None],
) -> None:
    named = found.config["configurable"]
    config = config_at(named["thread_id"], named.get("checkpoint_ns", ""))
    names = config["configurable"]
    owner = found.metadata.get("user_id")
    if isinstance(owner, str):
        names["user_id"] = owner
    before: _Copied | None = None
    parent = parent_of(found)
    if parent is not None:
        before = there.get(CheckpointKey(names["checkpoint_ns"], parent))
        # A name that was given, not merely found at the head, says that a branch there is meant.
        name = NamedId(parent) if before is None else before.config["configurable"]["checkpoint_id"]
        names["checkpoint_id"] = name
    # What a step has written: the parent's copy stands for everything else.
    changed = {
        name: version
        for name, version in found.checkpoint["channel_versions"].items()
        if before is None
        or (digest := digests.get(name)) is None
        or before.versions.get(name) != version
        or before.digests.get(name) != digest
    }
    stored = target.put(config, found.checkpoint, found.metadata, changed)
    for task, group in groupby(found.pending_writes or (), key=lambda write: write[0]):
        pairs = [(channel, value) for _, channel, value in group]
        # Apart, so that results keep their numbers: a task that runs again skips those it has.
        special = [pair for pair in pairs if pair[0] in WRITES_IDX_MAP]
        results = [pair for pair in pairs if pair[0] not in WRITES_IDX_MAP]
        for some in filter(None, (special, results)):
            target.put_writes(stored, some, task, paths.get(task, ""))


def _already_there(
    target: BaseCheckpointSaver[Any],
    found: CheckpointTuple,
    thread: str,
    key: CheckpointKey,
    *,
    has_more: bool,
) -> CheckpointTuple | None:
    """Return a checkpoint that the target has already, whole; without its writes it is not."""
    there = target.get_tuple(config_at(thread, *key))
    if there is None:
        return None
    different = difference(found, there, target.serde)
    if different is None or (different == WRITES and has_writes_of(found, there)):
        return there
    where = f"Thread {thread!r}, checkpoint {key.checkpoint_id}"
    if different != WRITES:
        raise StoreError(
            f"{where}: the target has another one under this name ({different} differ). Migrate "
            f"into an empty store, or delete the thread there."
        )
    if has_more or would_lose_writes(found, there):
        raise StoreError(
            f"{where}: the target has gone on from it ({different} differ). Delete the thread "
            f"there, or leave it out: name the others with --thread."
        )
    return None


def _verified(
    target: BaseCheckpointSaver[Any], found: CheckpointTuple, thread: str, key: CheckpointKey
) -> CheckpointTuple:
    """Return the copy as it is read back, which must be the same."""
    there = target.get_tuple(config_at(thread, *key))
    different = "everything" if there is None else difference(found, there, target.serde)
    if there is None or different is not None:
        raise StoreError(
            f"Thread {thread!r}, checkpoint {key.checkpoint_id}: the target does not give back "
            f"what it was given ({different} differ). Nothing was deleted anywhere; please report "
            f"it."
        )
    return there


def _check_head(
    source: BaseCheckpointSaver[Any], target: BaseCheckpointSaver[Any], thread: str, namespace: str
) -> None:
    """Make sure that a run goes on from the same checkpoint in both."""
    with errors_at(f"Thread {thread!r}: its newest checkpoint"):
        right = head_of(source, thread, namespace)
    copied = head_of(target, thread, namespace)
    if right != copied:
        raise StoreError(
            f"Thread {thread!r}, namespace {namespace!r}: all checkpoints were copied, but a run "
            f"would go on from {copied} there and from {right} in the source. Name the checkpoint "
            f"in the config of the next run; please report it."
        )
