"""Values that go into the store of checkpoints and come out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain_tokenmem.errors import CorruptStoreError


@dataclass(frozen=True)
class Address:
    """Address of a checkpoint: thread, namespace, and its id if one is meant."""

    thread_id: str
    ns: str
    checkpoint_id: str | None = None

    def __str__(self) -> str:
        within = f", namespace {self.ns!r}" if self.ns else ""
        named = f", checkpoint {self.checkpoint_id!r}" if self.checkpoint_id else ""
        return f"Thread {self.thread_id!r}{within}{named}"


@dataclass(frozen=True)
class LoadedCheckpoint:
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
class NewCheckpoint:
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
def errors_about(about: Address | str) -> Iterator[None]:
    """Name thread and checkpoint in the errors of damaged rows; they are left as they are else."""
    try:
        yield
    except CorruptStoreError as error:
        text = str(error)
        if isinstance(about, str) or text.startswith("Thread "):
            raise
        raise CorruptStoreError(
            f"{about}: {text}. Nothing was returned; restore a backup, or look at the thread "
            f"with `tokenmem doctor`."
        ) from error
