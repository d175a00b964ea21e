"""Reads many checkpoints: lists, and the history of delta channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import DeltaChannelHistory

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints import checkpoint_rows
from langchain_tokenmem.storage.checkpoints.namespaces import (
    Namespace,
    find_namespace,
    namespaces_of,
)
from langchain_tokenmem.storage.checkpoints.reader import CheckpointReader
from langchain_tokenmem.storage.checkpoints.records import Address, LoadedCheckpoint, errors_about
from langchain_tokenmem.storage.transcripts.encoded_message import key_of

_PAGE = 32
"""Checkpoints read in one transaction, so that no reader holds one open for long."""


_Listed = tuple[str, Namespace]
"""The key of a checkpoint, and its namespace."""


def listed(
    reader: CheckpointReader,
    thread_id: str | None,
    ns: str | None,
    *,
    checkpoint_id: str | None,
    before: str | None,
    metadata: Mapping[str, Any],
) -> Iterator[LoadedCheckpoint]:
    """Yield checkpoints, newest first.

    Args:
        reader: Reads them.
        thread_id: The thread; None for all.
        ns: The namespace; None for all.
        checkpoint_id: The only one that is meant.
        before: Id that those meant are smaller than.
        metadata: What their metadata has to say, exactly; a key with dots that is none of its keys
            is a path into it.

    Raises:
        CorruptStoreError: When something is damaged or missing.
    """
    wanted = [
        (key, namespace)
        for key, namespace in _all_listed(reader, thread_id, ns)
        if (checkpoint_id is None or key == key_of(checkpoint_id))
        and (before is None or key < key_of(before))
    ]
    size = 1  # a caller that wants the newest one only waits for no other
    while wanted:
        page, wanted = wanted[:size], wanted[size:]
        yield from _page(reader, page, metadata)
        size = min(2 * size, _PAGE)


def _all_listed(reader: CheckpointReader, thread_id: str | None, ns: str | None) -> list[_Listed]:
    about = "The list of threads" if thread_id is None else f"Thread {thread_id!r}"
    with reader.reading(about) as tx:
        if thread_id is not None and ns is not None:
            one = find_namespace(tx, thread_id, ns)
            found = [] if one is None else [one]
        else:
            found = namespaces_of(tx, thread_id)
        keys: list[_Listed] = []
        for namespace in found:
            if ns is None or namespace.ns == ns:
                with errors_about(Address(namespace.thread_id, namespace.ns)):
                    own = checkpoint_rows.checked_keys(tx, namespace)
                keys += [(key, namespace) for key in own]
    return sorted(keys, key=lambda one: one[0], reverse=True)


def _page(
    reader: CheckpointReader, wanted: Sequence[_Listed], metadata: Mapping[str, Any]
) -> list[LoadedCheckpoint]:
    found = []
    with reader.reading("A list of checkpoints") as tx:
        for key, namespace in wanted:
            number = namespace.namespace_id
            with errors_about(Address(namespace.thread_id, namespace.ns, key[1:])):
                row = checkpoint_rows.find_checkpoint(tx, number, key)
                # It may have been removed since the list was made.
                if row is None and key in checkpoint_rows.checkpoint_keys(tx.connection, number):
                    raise CorruptStoreError("its row is there, and is not found by its key")
                if row is not None and all(_says(row.metadata, k, v) for k, v in metadata.items()):
                    found.append(reader.loaded(tx, namespace, row))
    return found


def _says(metadata: Mapping[str, Any], key: str, wanted: Any) -> bool:
    """Return whether metadata have a value under a key, or at the end of a path with dots."""
    if key in metadata or "." not in key:
        return bool(metadata.get(key) == wanted)
    found: Any = metadata
    for name in key.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return bool(found == wanted)


def delta_history(
    reader: CheckpointReader, address: Address, channels: Sequence[str]
) -> dict[str, DeltaChannelHistory]:
    """Return the writes to channels since they were last stored whole, along one branch.

    Args:
        reader: Reads them.
        address: The checkpoint from whose parent on is looked back.
        channels: The channels.

    Returns:
        For each channel the writes, oldest first, and the value they build upon, if there is one.

    Raises:
        CorruptStoreError: When an ancestor is damaged.
    """
    found: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
    with reader.reading(address) as tx:
        namespace = find_namespace(tx, address.thread_id, address.ns)
        name = address.checkpoint_id or (namespace.latest if namespace else None)
        if namespace is None or name is None:
            return found
        remaining, visited = set(channels), {name}
        row = reader.row(tx, namespace, name)
        while row is not None and row.parent is not None and remaining:
            if row.parent in visited:  # a checkpoint was put again below its own descendant
                break
            visited.add(row.parent)
            row = reader.row(tx, namespace, row.parent)
            if row is None:
                break
            loaded = reader.loaded(tx, namespace, row, remaining)
            for write in reversed(loaded.writes):
                found[write[1]]["writes"].append(write)
            for channel, value in loaded.checkpoint["channel_values"].items():
                found[channel]["seed"] = value
                remaining.discard(channel)
    for history in found.values():
        history["writes"].reverse()
    return found
