"""Comparison of a checkpoint as two savers give it back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

WRITES = "its pending writes"
"""Result of `difference` where nothing but these differ."""

_WORDS = JsonPlusSerializer()


def parent_of(found: CheckpointTuple) -> str | None:
    """Return the id of the checkpoint that one follows."""
    parent = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    return None if parent is None else str(parent)


def difference(
    source: CheckpointTuple, target: CheckpointTuple, serde: SerializerProtocol
) -> str | None:
    """Return what is not the same in two readings of a checkpoint."""
    if parent_of(source) != parent_of(target):
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
        return WRITES
    return None


def has_writes_of(source: CheckpointTuple, target: CheckpointTuple) -> bool:
    """Return whether the target has every pending write of the source."""
    return not _without(source.pending_writes or [], target.pending_writes or [])


def would_lose_writes(source: CheckpointTuple, target: CheckpointTuple) -> bool:
    """Return whether the target has pending writes that the source lacks.

    Errors, interrupts and resumes do not count where the source has others in their place.
    """
    places = {
        (task, channel)
        for task, channel, _ in source.pending_writes or []
        if channel in WRITES_IDX_MAP
    }
    more = _without(target.pending_writes or [], source.pending_writes or [])
    return any((task, channel) not in places for task, channel, _ in more)


def _without(some: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return those of some writes that are not among others."""
    there = Counter(map(digest_of, others))
    left = []
    for one in some:
        digest = digest_of(one)
        if there[digest] > 0:
            there[digest] -= 1
        elif not any(_same(one, other, _WORDS) for other in others if one[:2] == other[:2]):
            left.append(one)
    return left


def digest_of(value: Any) -> bytes | None:
    """Return what names a value, whoever changes it in place; None where nothing can."""
    try:
        kind, data = _WORDS.dumps_typed(value)
    except (TypeError, ValueError, RecursionError):
        return None
    return blake2b(kind.encode() + b"\0" + data, digest_size=16).digest()


def _same(left: Any, right: Any, serde: SerializerProtocol) -> bool:
    """Compare by bytes first: values such as arrays have no plain `==`, but sets have no order."""
    if serde.dumps_typed(left) == serde.dumps_typed(right):
        return True
    try:
        return bool(left == right)
    except (TypeError, ValueError):
        return False
