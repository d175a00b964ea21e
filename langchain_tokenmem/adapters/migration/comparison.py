"""Comparison of a checkpoint as two savers give it back."""

from __future__ import annotations

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
    versions = found.checkpoint["channel_versions"]
    if before is None:
        return dict(versions)
    old, values, others = (
        before.checkpoint["channel_versions"],
        before.checkpoint["channel_values"],
        found.checkpoint["channel_values"],
    )
    return {
        name: version
        for name, version in versions.items()
        if old.get(name) != version
        or (name in values) != (name in others)
        or not _same(values.get(name), others.get(name), serde)
    }


def missing_writes(
    source: CheckpointTuple, target: CheckpointTuple, serde: SerializerProtocol
) -> list[tuple[str, str, Any]]:
    """Return the pending writes of the source that the target lacks."""
    others: list[Any] = [*(target.pending_writes or ())]
    missing = []
    for write in source.pending_writes or ():
        place = next(
            (
                place
                for place, other in enumerate(others)
                if write[:2] == other[:2] and _same(write[2], other[2], serde)
            ),
            None,
        )
        if place is None:
            missing.append(write)
        else:
            del others[place]
    return missing


def would_lose_writes(
    source: CheckpointTuple, target: CheckpointTuple, serde: SerializerProtocol
) -> bool:
    """Return whether the target has pending writes that the source lacks.

    Errors, interrupts and resumes do not count where the source has others in their place.
    """
    replaced = {write[:2] for write in source.pending_writes or () if write[1] in WRITES_IDX_MAP}
    return any(write[:2] not in replaced for write in missing_writes(target, source, serde))


def _same(left: Any, right: Any, serde: SerializerProtocol) -> bool:
    """Compare by bytes first: values such as arrays have no plain `==`, but sets have no order."""
    if serde.dumps_typed(left) == serde.dumps_typed(right):
        return True
    try:
        return bool(left == right)
    except (TypeError, ValueError):
        return False
