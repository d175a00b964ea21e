"""What goes into the store of checkpoints and comes out of it, and how its faults are said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from langchain_tokenmem.core.thread_names import thread_session
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints import rows
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.rows import Stored
from langchain_tokenmem.storage.checkpoints.spaces import Space


@dataclass(frozen=True)
class Address:
    """Where a checkpoint is: thread, namespace, and its id if one is meant."""

    thread_id: str
    ns: str
    checkpoint_id: str | None = None

    @property
    def session_id(self) -> str:
        """The session that holds the messages."""
        return thread_session(self.thread_id, self.ns)

    @property
    def namespace(self) -> tuple[str, str]:
        """Thread and namespace, whichever checkpoint of it."""
        return self.thread_id, self.ns

    def __str__(self) -> str:
        within = f", namespace {self.ns!r}" if self.ns else ""
        named = f", checkpoint {self.checkpoint_id!r}" if self.checkpoint_id else ""
        return f"Thread {self.thread_id!r}{within}{named}"


@dataclass(frozen=True)
class Loaded:
    """A checkpoint as it is read.

    Attributes:
        address: Where it is.
        parent: Id of the one before it.
        checkpoint: The checkpoint, its channels' values included.
        metadata: Its metadata.
        writes: Its pending writes as task, channel and value, in order.
    """

    address: Address
    parent: str | None
    checkpoint: dict[str, Any]
    metadata: dict[str, Any]
    writes: list[tuple[str, str, Any]]


@dataclass(frozen=True)
class Draft:
    """A checkpoint to be stored.

    Attributes:
        address: Its thread and namespace, and the id of its parent.
        checkpoint: The checkpoint.
        metadata: Its metadata, secrets left out.
        new_versions: The channels that changed.
        is_fork: Whether the caller named the parent, so that a new branch is meant.
        user_id: Who owns the thread.
    """

    address: Address
    checkpoint: Mapping[str, Any]
    metadata: dict[str, Any]
    new_versions: Mapping[str, Any]
    is_fork: bool
    user_id: str | None = None


@contextmanager
def about(address: Address) -> Iterator[None]:
    """Name thread and checkpoint in what goes wrong."""
    try:
        yield
    except CorruptStoreError as error:
        said = str(error)
        if said.startswith("Thread "):
            raise
        raise CorruptStoreError(
            f"{address}: {said}. Nothing was returned; restore a backup, or look at the thread "
            f"with `tokenmem doctor`."
        ) from error


def make_sure_of_absence(
    connection: Connection, codec: Codec, space: Space, checkpoint_id: str
) -> None:
    """Raise if a checkpoint that was not found must be there, or any other one.

    A row that was deleted shows in their number, one whose key was changed in its seal.
    """
    found = {stored.id for stored in every_checkpoint(connection, codec, space)}
    if checkpoint_id in found or checkpoint_id == space.head:
        raise CorruptStoreError(f"checkpoint {checkpoint_id!r} is not found where it should be")


def every_checkpoint(connection: Connection, codec: Codec, space: Space) -> list[Stored]:
    """Return every checkpoint of a namespace, oldest first.

    Raises:
        CorruptStoreError: When one is damaged or missing.
    """
    found = rows.all_checkpoints(connection, codec, space.space_id)
    make_sure_of_number(space, [stored.id for stored in found])
    return found


def make_sure_of_number(space: Space, found: Sequence[str]) -> None:
    """Raise if a namespace has not as many checkpoints as were written, each of them once."""
    if not len(found) == len(set(found)) == space.count:
        raise CorruptStoreError(
            f"{space.count} checkpoints should be there, {len(set(found))} different ones were "
            f"found"
        )
