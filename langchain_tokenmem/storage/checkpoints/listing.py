"""Looking through many checkpoints: lists, and the history of delta channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints import rows
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.pending import Write
from langchain_tokenmem.storage.checkpoints.records import (
    Address,
    Loaded,
    about,
    make_sure_of_absence,
    make_sure_of_number,
)
from langchain_tokenmem.storage.checkpoints.rows import Stored
from langchain_tokenmem.storage.checkpoints.spaces import Space, find_space, spaces_of
from langchain_tokenmem.storage.checkpoints.store import Checkpoints, Part
from langchain_tokenmem.storage.transcripts.encoded_message import key_of

_PAGE = 32
"""Checkpoints read in one transaction, so that no reader holds one open for long."""

_Place = tuple[str, Space]
"""Key of a checkpoint, and where it is."""


def listed(
    store: Checkpoints,
    thread_id: str | None,
    ns: str | None,
    *,
    checkpoint_id: str | None,
    before: str | None,
    metadata: Mapping[str, Any],
) -> Iterator[Loaded]:
    """Yield checkpoints, newest first.

    Args:
        store: Where they are.
        thread_id: The thread; None for all.
        ns: The namespace; None for all.
        checkpoint_id: The only one that is meant.
        before: Id that those meant are smaller than.
        metadata: What their metadata has to say, exactly.

    Raises:
        CorruptStoreError: When something is damaged or missing.
    """
    places = _places(store, thread_id, ns)
    if checkpoint_id is not None:
        places = [place for place in places if place[0] == key_of(checkpoint_id)]
    if before is not None:
        places = [place for place in places if place[0] < key_of(before)]
    size = 1  # a caller that wants the newest one only waits for no other
    while places:
        page, places = places[:size], places[size:]
        yield from _page(store, page, metadata)
        size = min(2 * size, _PAGE)


def _places(store: Checkpoints, thread_id: str | None, ns: str | None) -> list[_Place]:
    whose = "The list of threads" if thread_id is None else f"Thread {thread_id!r}"
    with store.database.reading(whose) as connection:
        if thread_id is not None and ns is not None:
            one = find_space(connection, store.codec, thread_id, ns)
            spaces = [] if one is None else [one]
        else:
            spaces = spaces_of(connection, store.codec, thread_id)
        spaces = [space for space in spaces if ns is None or space.ns == ns]
        places = [(key, space) for space in spaces for key in _keys(connection, store.codec, space)]
    return sorted(places, key=lambda place: place[0], reverse=True)


def _keys(connection: Connection, codec: Codec, space: Space) -> list[str]:
    with about(Address(space.thread_id, space.ns)):
        found = rows.checked_keys(connection, codec, space.space_id)
        make_sure_of_number(space, found)
    return found


def _page(
    store: Checkpoints, places: Sequence[_Place], metadata: Mapping[str, Any]
) -> list[Loaded]:
    found, missing = [], []
    with store.database.reading("A list of checkpoints") as connection:
        for key, space in places:
            with about(Address(space.thread_id, space.ns, key[1:])):
                stored = rows.checkpoint_at(connection, store.codec, space.space_id, key)
                if stored is None:
                    missing.append((key, space))
                elif _says(stored, metadata):
                    found.append(store.loaded(connection, space, stored))
        _make_sure_of_removal(connection, missing)
    return found


def _make_sure_of_removal(connection: Connection, missing: Sequence[_Place]) -> None:
    """Raise if one that was not found is there: it was not removed since the list was made."""
    left = {
        number: {*rows.keys_of(connection, number)}
        for number in {space.space_id for _, space in missing}
    }
    for key, space in missing:
        if key in left[space.space_id]:
            with about(Address(space.thread_id, space.ns, key[1:])):
                raise CorruptStoreError("its row is there, and is not found by its key")


def _says(stored: Stored, metadata: Mapping[str, Any]) -> bool:
    return all(stored.metadata.get(key) == value for key, value in metadata.items())


def delta_history(
    store: Checkpoints, address: Address, channels: Sequence[str]
) -> dict[str, tuple[list[tuple[str, str, Any]], list[Any]]]:
    """Return the writes to channels since they were last stored whole, along one branch.

    Args:
        store: Where they are.
        address: The checkpoint from whose parent on is looked back.
        channels: The channels.

    Returns:
        For each channel the writes as task, channel and value, oldest first, and the value they
        build upon in a list, which is empty where there is none.

    Raises:
        CorruptStoreError: When an ancestor is damaged.
    """
    found: dict[str, tuple[list[tuple[str, str, Any]], list[Any]]] = {
        name: ([], []) for name in channels
    }
    with store.database.reading(str(address)) as connection, about(address):
        space = find_space(connection, store.codec, address.thread_id, address.ns)
        name = address.checkpoint_id or (space.head if space else None)
        if space is None or name is None:
            return found
        remaining = set(channels)
        target = rows.find_checkpoint(connection, store.codec, space.space_id, name)
        if target is None:
            make_sure_of_absence(connection, store.codec, space, name)
        parent = target.parent if target else None
        while parent is not None and remaining:
            stored = rows.find_checkpoint(connection, store.codec, space.space_id, parent)
            if stored is None:
                make_sure_of_absence(connection, store.codec, space, parent)
                break
            pending = [
                one for one in store.pending(connection, space, stored) if one.channel in remaining
            ]
            for one, value in _values(store, connection, space, reversed(pending)):
                found[one.channel][0].append((one.task_id, one.channel, value))
            for channel in sorted(remaining & (stored.inline.keys() | stored.large.keys())):
                found[channel][1].append(store.value(connection, space, stored, channel))
                remaining.discard(channel)
            parent = stored.parent
    for written, _ in found.values():
        written.reverse()
    return found


def _values(
    store: Checkpoints, connection: Connection, space: Space, pending: Iterator[Write]
) -> Iterator[tuple[Write, Any]]:
    some = list(pending)
    parts = [Part(one.refs, one.shape) for one in some]
    return zip(some, store.resolved(connection, space, parts), strict=True)
