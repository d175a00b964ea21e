"""Comparison of a checkpoint as two savers give it back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol

WRITES = "its pending writes"
"""Result of `difference` where nothing but these differ."""


def parent_of(found: CheckpointTuple) -> str | None:
    """Return the id of the checkpoint that one follows."""
    parent = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    return None if parent is None else str(parent)


def difference(
    source: CheckpointTuple, target: CheckpointTuple, serde: SerializerProtocol
) -> str | None:
    """Return the name of the first part that is not the same in two readings of a checkpoint."""
    parts, others = _parts_of(source), _parts_of(target)
    for name in parts | others:
        if name not in parts or name not in others or not _same(parts[name], others[name], serde):
            return name
    same = _same(source.pending_writes or [], target.pending_writes or [], serde)
    return None if same else WRITES


def _parts_of(found: CheckpointTuple) -> dict[str, Any]:
    """Return what a checkpoint consists of; an empty field is as good as none."""
    fields = {name: value for name, value in found.checkpoint.items() if value}
    values = found.checkpoint["channel_values"]
    return {
        "its parent": parent_of(found),
        "its metadata": dict(found.metadata),
        **{f"its {name}": field for name, field in fields.items() if name != "channel_values"},
        **{f"the values of channel {name!r}": value for name, value in values.items()},
    }


def changed_channels(
    before: CheckpointTuple | None, found: CheckpointTuple, serde: SerializerProtocol
) -> dict[str, Any]:
    """Return the versions of the channels that are not as in the checkpoint before.

    A value may have been changed in place, under the same version.
    """
    old = {} if before is None else _channels_of(before)
    return {
        name: channel[0]
        for name, channel in _channels_of(found).items()
        if name not in old
        or channel[0] != old[name][0]
        or not _same(channel[1:], old[name][1:], serde)
    }


def _channels_of(found: CheckpointTuple) -> dict[str, tuple[Any, ...]]:
    """Return the version of each channel with its value, if it has one."""
    versions, values = found.checkpoint["channel_versions"], found.checkpoint["channel_values"]
    return {
        name: (version, values[name]) if name in values else (version,)
        for name, version in versions.items()
    }


def missing_writes(
    source: CheckpointTuple, target: CheckpointTuple, serde: SerializerProtocol
) -> list[tuple[str, str]]:
    """Return task and channel of the pending writes of the source that the target lacks."""
    writes, others = _writes_of(source), _writes_of(target)
    return [
        (task, channel)
        for (task, channel, number), value in writes.items()
        if (task, channel, number) not in others
        or not _same(value, others[task, channel, number], serde)
    ]


def _writes_of(found: CheckpointTuple) -> dict[tuple[str, str, int], Any]:
    """Return pending writes by task, channel, and their number among those of both."""
    numbers: dict[tuple[str, str], Iterator[int]] = defaultdict(count)
    return {
        (task, channel, next(numbers[task, channel])): value
        for task, channel, value in found.pending_writes or ()
    }


def would_lose_writes(
    source: CheckpointTuple, target: CheckpointTuple, serde: SerializerProtocol
) -> bool:
    """Return whether the target has pending writes that the source lacks.

    Errors, interrupts and resumes do not count where the source has others in their place.
    """
    replaced = {write[:2] for write in source.pending_writes or () if write[1] in WRITES_IDX_MAP}
    return not replaced.issuperset(missing_writes(target, source, serde))


def _same(left: Any, right: Any, serde: SerializerProtocol) -> bool:
    """Compare by bytes first: values such as arrays have no plain `==`, but sets have no order."""
    if serde.dumps_typed(left) == serde.dumps_typed(right):
        return True
    try:
        return bool(left == right)
    except (TypeError, ValueError):
        return False
