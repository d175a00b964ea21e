"""Copies the threads of one LangGraph checkpointer into another, and proves it by reading back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol

from langchain_tokenmem.doors._foreign import checkpoints_of, task_paths, thread_ids
from langchain_tokenmem.errors import ConfigurationError, StoreError

Progress = Callable[[str, int, int], None]
"""Called with a thread's id, how many of its checkpoints are done, and how many there are."""


@dataclass(frozen=True)
class MigrationReport:
    """What a migration did.

    Attributes:
        threads: Threads that are in the target now.
        copied: Checkpoints that were written.
        known: Checkpoints that the target had already, as they are.
        writes: Pending writes of the copied checkpoints.
    """

    threads: int
    copied: int
    known: int
    writes: int


class _Place(NamedTuple):
    namespace: str
    checkpoint_id: str


class _Copied(NamedTuple):
    config: RunnableConfig
    versions: Mapping[str, Any]


def migrate_checkpoints(
    source: BaseCheckpointSaver[Any],
    target: BaseCheckpointSaver[Any],
    *,
    threads: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> MigrationReport:
    """Copy threads with every checkpoint, its parent, its metadata and its pending writes.

    Each checkpoint is read back from the target and compared with the source before the next one
    is written. A migration that was interrupted goes on where it stopped when it is run again;
    nobody should write to the threads meanwhile. The source is only read.

    Args:
        source: Any LangGraph checkpointer.
        target: Where to, such as a `TokenMemorySaver` with `on_conflict="branch"`.
        threads: Which threads; default: all of them.
        progress: Told after each checkpoint.

    Returns:
        How much was copied.

    Raises:
        ConfigurationError: When the source has no checkpoint of a thread that is named.
        StoreError: When the target holds something else under the name of a checkpoint, or does
            not give back what it was given.

    Example:
        >>> from langgraph.checkpoint.memory import InMemorySaver
        >>> migrate_checkpoints(InMemorySaver(), InMemorySaver())
        MigrationReport(threads=0, copied=0, known=0, writes=0)
    """
    copied = known = writes = moved = 0
    for thread in thread_ids(source) if threads is None else threads:
        places = [_Place(*place) for place in checkpoints_of(source, thread)]
        if not places and threads is not None:
            raise ConfigurationError(
                f"Thread {thread!r} has no checkpoints in the source; see how it is written there."
            )
        moved += bool(places)
        there: dict[_Place, _Copied] = {}
        begun = {_Place(*place) for place in checkpoints_of(target, thread)}
        for done, place in enumerate(sorted(places, key=lambda one: one.checkpoint_id), start=1):
            found = _read(source, thread, place)
            copy = _known(target, found, thread, place) if place in begun else None
            if copy is None:
                _write(target, found, source, there)
                copy = _verified(target, found, thread, place)
                copied += 1
                writes += len(found.pending_writes or ())
            else:
                known += 1
            there[place] = _Copied(copy.config, _versions(found))
            if progress is not None:
                progress(thread, done, len(places))
    return MigrationReport(moved, copied, known, writes)


def _config(thread: str, place: _Place) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread,
            "checkpoint_ns": place.namespace,
            "checkpoint_id": place.checkpoint_id,
        }
    }


def _read(source: BaseCheckpointSaver[Any], thread: str, place: _Place) -> CheckpointTuple:
    found = source.get_tuple(_config(thread, place))
    if found is None:
        raise StoreError(
            f"Thread {thread!r}, checkpoint {place.checkpoint_id}: it went away while it was "
            f"copied. Stop what deletes from the source, and run the migration again."
        )
    return found


def _versions(found: CheckpointTuple) -> dict[str, Any]:
    """Return the versions of the channels whose values a checkpoint holds."""
    values = found.checkpoint["channel_values"]
    versions = found.checkpoint["channel_versions"]
    return {name: version for name, version in versions.items() if name in values}


def _write(
    target: BaseCheckpointSaver[Any],
    found: CheckpointTuple,
    source: BaseCheckpointSaver[Any],
    there: Mapping[_Place, _Copied],
) -> None:
    named = found.config["configurable"]
    place = {"thread_id": named["thread_id"], "checkpoint_ns": named.get("checkpoint_ns", "")}
    parent = _parent_of(found)
    before: Mapping[str, Any] = {}
    if parent is not None:
        place["checkpoint_id"] = parent
        copy = there.get(_Place(place["checkpoint_ns"], parent))
        if copy is not None:
            # The target's own name of the parent says that a branch there is meant.
            place["checkpoint_id"] = copy.config["configurable"]["checkpoint_id"]
            before = copy.versions
    values = found.checkpoint["channel_values"]
    # What a step has written: the parent's copy stands for everything else.
    changed = {
        name: version
        for name, version in found.checkpoint["channel_versions"].items()
        if name not in values or before.get(name) != version
    }
    config = target.put({"configurable": place}, found.checkpoint, found.metadata, changed)
    paths = task_paths(source, found)
    for task, group in groupby(found.pending_writes or (), key=lambda write: write[0]):
        pairs = [(channel, value) for _, channel, value in group]
        # Apart, so that results keep their numbers: a task that runs again skips those it has.
        special = [pair for pair in pairs if pair[0] in WRITES_IDX_MAP]
        results = [pair for pair in pairs if pair[0] not in WRITES_IDX_MAP]
        for some in filter(None, (special, results)):
            target.put_writes(config, some, task, paths.get(task, ""))


def _parent_of(found: CheckpointTuple) -> str | None:
    parent = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    return None if parent is None else str(parent)


def _known(
    target: BaseCheckpointSaver[Any], found: CheckpointTuple, thread: str, place: _Place
) -> CheckpointTuple | None:
    """Return a checkpoint that the target has already, whole; without its writes it is not."""
    there = target.get_tuple(_config(thread, place))
    different = None if there is None else _difference(found, there, target.serde)
    if different == "its pending writes":
        return None
    if different is not None:
        raise StoreError(
            f"Thread {thread!r}, checkpoint {place.checkpoint_id}: the target has another one "
            f"under this name ({different} differ). Migrate into an empty store, or delete the "
            f"thread there."
        )
    return there


def _verified(
    target: BaseCheckpointSaver[Any], found: CheckpointTuple, thread: str, place: _Place
) -> CheckpointTuple:
    """Return the copy as it is read back, which must be the same."""
    there = target.get_tuple(_config(thread, place))
    different = "everything" if there is None else _difference(found, there, target.serde)
    if there is None or different is not None:
        raise StoreError(
            f"Thread {thread!r}, checkpoint {place.checkpoint_id}: the target does not give back "
            f"what it was given ({different} differ). Nothing was deleted anywhere; please report "
            f"it."
        )
    return there


def _difference(
    source: CheckpointTuple, target: CheckpointTuple, serde: SerializerProtocol
) -> str | None:
    """Return what is not the same in two readings of a checkpoint."""
    if _parent_of(source) != _parent_of(target):
        return "its parent"
    if not _same(dict(source.metadata), dict(target.metadata), serde):
        return "its metadata"
    for name in source.checkpoint.keys() | target.checkpoint.keys():
        left, right = source.checkpoint.get(name), target.checkpoint.get(name)
        if name == "channel_values":
            continue
        if (left or right) and not _same(left, right, serde):
            return f"its {name}"
    values, others = (one.checkpoint["channel_values"] for one in (source, target))
    for name in values.keys() | others.keys():
        if name not in values or name not in others or not _same(values[name], others[name], serde):
            return f"the values of channel {name!r}"
    if not _same(source.pending_writes or [], target.pending_writes or [], serde):
        return "its pending writes"
    return None


def _same(left: Any, right: Any, serde: SerializerProtocol) -> bool:
    """Compare by bytes first: values such as arrays have no plain `==`, but sets have no order."""
    if serde.dumps_typed(left) == serde.dumps_typed(right):
        return True
    try:
        return bool(left == right)
    except (TypeError, ValueError):
        return False
