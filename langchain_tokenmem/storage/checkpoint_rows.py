"""Checkpoints as values and as rows: addresses, what a body holds, and the statements for both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Select, and_, bindparam, exists, func, literal_column, or_, select

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.detached import from_ranges
from langchain_tokenmem.storage.tables import checkpoints, values, writes


@dataclass(frozen=True)
class Address:
    """Address of a checkpoint: thread, namespace, and its id if one is meant."""

    thread_id: str
    ns: str
    checkpoint_id: str | None = None

    def of(self, checkpoint_id: str | None) -> Address:
        """Return the address of another checkpoint in the namespace."""
        return replace(self, checkpoint_id=checkpoint_id)

    def named(self) -> dict[str, str | None]:
        """Return its parts by the names that statements have for them."""
        return {"thread_id": self.thread_id, "ns": self.ns, "id": self.checkpoint_id}

    def __str__(self) -> str:
        within = f", namespace {self.ns!r}" if self.ns else ""
        named = f", checkpoint {self.checkpoint_id!r}" if self.checkpoint_id else ""
        return f"Thread {self.thread_id!r}{within}{named}"


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
class Value:
    """Value of a channel as a body has it.

    Attributes:
        refs: Runs of the numbers of its messages.
        shape: The rest of it, where that is small.
        digest: Hash of the rest of it, where that is a row of its own.
        said: Hash of what all of its messages say.
    """

    refs: list[list[int]]
    shape: Any = None
    digest: bytes | None = None
    said: bytes | None = None

    @property
    def numbers(self) -> list[int]:
        """The numbers of its messages."""
        return from_ranges(self.refs)


@dataclass(frozen=True)
class StoredCheckpoint:
    """One checkpoint as it is stored.

    Attributes:
        address: Where it is.
        parent: Id of the one before it.
        session: Number of the session that has its messages and values.
        fields: The checkpoint without id and values.
        metadata: Its metadata.
        channels: Values by channel.
    """

    address: Address
    parent: str | None
    session: int
    fields: dict[str, Any]
    metadata: dict[str, Any]
    channels: dict[str, Value]

    @property
    def id(self) -> str:
        """Its id."""
        return self.address.checkpoint_id or ""

    @property
    def written_at(self) -> datetime | None:
        """Its time, where it tells one."""
        return time_of(self.fields)


def _around() -> Select[Any]:
    here, other = checkpoints.c, checkpoints.alias().c
    thread: Any = bindparam("thread_id")
    ns: Any = bindparam("ns")
    parent: Any = bindparam("parent")
    in_namespace = (other.thread_id == thread, other.ns == ns)
    newest = select(func.max(other.checkpoint_id)).where(*in_namespace).scalar_subquery()
    has_child = exists().where(*in_namespace, other.parent_id == parent).label("has_child")
    wanted = here.checkpoint_id.in_([parent, bindparam("id"), newest])
    return select(checkpoints, has_child).where(here.thread_id == thread, here.ns == ns, wanted)


# Made once: building them anew takes longer than asking.
AROUND = _around()
"""Selects a checkpoint's own row, its parent's and the newest one, and whether another follows."""


def _of(table: Any, **columns: str) -> list[Any]:
    """Return conditions on columns of a table, whose values come by these names."""
    return [table.c[column] == bindparam(name) for column, name in columns.items()]


_IN_NAMESPACE = _of(checkpoints, thread_id="thread_id", ns="ns")
NEWEST = (
    select(checkpoints)
    .where(*_IN_NAMESPACE)
    .order_by(checkpoints.c.checkpoint_id.desc())
    .limit(literal_column("1"))
)
COUNT = select(func.count()).select_from(checkpoints).where(*_IN_NAMESPACE)
OWN = select(checkpoints).where(*_IN_NAMESPACE, *_of(checkpoints, checkpoint_id="id"))
WRITES = select(writes.c.task_id, writes.c.idx, writes.c.session, writes.c.value).where(
    *_of(writes, thread_id="thread_id", ns="ns", checkpoint_id="id")
)
WRITTEN = select(writes.c.idx).where(
    *_of(writes, thread_id="thread_id", ns="ns", checkpoint_id="id", task_id="task_id")
)
VALUE = select(values.c.value).where(*_of(values, session="of", digest="digest"))
VALUE_IS_THERE = select(values.c.digest).where(*_of(values, session="of", digest="digest"))


def is_at(at: Address, table: Any = checkpoints) -> tuple[Any, ...]:
    """Return the conditions of a checkpoint's row, or of those of its writes."""
    return (
        table.c.thread_id == at.thread_id,
        table.c.ns == at.ns,
        table.c.checkpoint_id == at.checkpoint_id,
    )


def time_of(checkpoint: Mapping[str, Any]) -> datetime | None:
    """Return the time that a checkpoint tells."""
    try:
        moment = datetime.fromisoformat(str(checkpoint.get("ts")))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def behind(checkpoint_id: str | None, thread_id: str | None, ns: str | None) -> list[Any]:
    """Return the conditions of what comes behind a checkpoint in a list."""
    table = checkpoints.c
    if checkpoint_id is None:
        return []
    older = table.checkpoint_id < checkpoint_id
    if thread_id is None:
        return [older]
    next_thread = or_(
        table.thread_id > thread_id, and_(table.thread_id == thread_id, table.ns > ns)
    )
    return [or_(older, and_(table.checkpoint_id == checkpoint_id, next_thread))]


def says(metadata: Mapping[str, Any], key: str, wanted: Any) -> bool:
    """Return whether metadata have a value under a key, or at the end of a path with dots."""
    if key in metadata or "." not in key:
        return bool(metadata.get(key) == wanted)
    found: Any = metadata
    for name in key.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return bool(found == wanted)


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
