"""Rows of checkpoints: addresses, the contents of a body, and the statements for both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from sqlalchemy import Connection, Select, bindparam, exists, func, select
from sqlalchemy.dialects.postgresql import insert

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.codec import Codec
from langchain_tokenmem.storage.tables import checkpoints, values, writes


class NamedId(str):
    """The id of a checkpoint that a caller named, not one that was found at the head.

    LangGraph passes the id from `get_tuple` to the `put` that follows. A run that started from a
    named checkpoint intends a branch; one that started from the head does not.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Return what a plain text would: a subclass of `str` may compare differently."""
        return str(self) == other

    def __ne__(self, other: object) -> bool:
        return str(self) != other

    __hash__ = str.__hash__


@dataclass(frozen=True)
class Address:
    """Address of a checkpoint: thread, namespace, and its id, if given."""

    thread_id: str
    ns: str
    checkpoint_id: str | None = None

    def config(self, *, is_named: bool = False) -> RunnableConfig:
        """Return the config of LangGraph that names the checkpoint."""
        name = str(self.checkpoint_id)
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": self.ns,
                "checkpoint_id": NamedId(name) if is_named else name,
            }
        }

    def __str__(self) -> str:
        within = f", namespace {self.ns!r}" if self.ns else ""
        named = f", checkpoint {self.checkpoint_id!r}" if self.checkpoint_id else ""
        return f"Thread {self.thread_id!r}{within}{named}"


class Value(NamedTuple):
    """Value of a channel, as stored in the body of a checkpoint.

    Attributes:
        refs: Numbers of its messages, as ranges.
        shape: The rest of it, if that is small.
        digest: Hash of the rest of it, if that is stored in a separate row.
        said: Hash of the content of all its messages.
    """

    refs: list[list[int]]
    shape: Any = None
    digest: bytes | None = None
    list_hash: bytes | None = None

    @property
    def numbers(self) -> list[int]:
        """The numbers of its messages."""
        return [*chain.from_iterable(range(first, last + 1) for first, last in self.refs)]


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint as stored.

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
    metadata: Any
    channels: dict[str, Value]

    @property
    def id(self) -> str:
        """Its id."""
        return self.address.checkpoint_id or ""


# Statements are built once: building one takes longer than executing it.


def _at(table: Any) -> tuple[Any, ...]:
    """Return the conditions for the rows of a checkpoint; bind them with `vars` of its address."""
    return tuple(table.c[name] == bindparam(name) for name in ("thread_id", "ns", "checkpoint_id"))


def _around() -> Select[Any]:
    here, other = checkpoints.c, checkpoints.alias().c
    parent: Any = bindparam("parent")
    in_namespace = (other.thread_id == bindparam("thread_id"), other.ns == bindparam("ns"))
    newest = select(func.max(other.checkpoint_id)).where(*in_namespace).scalar_subquery()
    has_child = exists().where(*in_namespace, other.parent_id == parent).label("has_child")
    wanted = here.checkpoint_id.in_([parent, bindparam("checkpoint_id"), newest])
    return select(checkpoints, has_child).where(*_at(checkpoints)[:2], wanted)


AROUND = _around()
"""Selects the rows of a checkpoint, its parent and the newest, and if the parent has a child."""

OWN = select(checkpoints).where(*_at(checkpoints))
NEWEST = (
    select(checkpoints)
    .where(*_at(checkpoints)[:2])
    .order_by(checkpoints.c.checkpoint_id.desc())
    .limit(1)
)
COUNT = select(func.count()).select_from(checkpoints).where(*_at(checkpoints)[:2])
WRITES = select(writes.c.task_id, writes.c.idx, writes.c.session, writes.c.value).where(
    *_at(writes)
)
KEEP_WRITE = insert(writes).on_conflict_do_nothing()
REPLACE_WRITE = insert(writes).on_conflict_do_update(
    index_elements=list(writes.primary_key),
    set_={name: insert(writes).excluded[name] for name in ("written_at", "session", "value")},
)
VALUE = select(values.c.value).where(
    values.c.session == bindparam("of"), values.c.digest == bindparam("digest")
)
KEEP_VALUE = insert(values).on_conflict_do_nothing()


def is_at(row: Any, table: Any = checkpoints) -> tuple[Any, ...]:
    """Return the conditions for the rows of the checkpoint that a row or an `Address` names."""
    return tuple(
        table.c[name] == getattr(row, name) for name in ("thread_id", "ns", "checkpoint_id")
    )


def referenced(connection: Connection, codec: Codec, session: int) -> tuple[set[int], set[bytes]]:
    """Return what the checkpoints and pending writes of a session refer to.

    Returns:
        Numbers of messages, and hashes of values.

    Raises:
        CorruptStoreError: When one of them cannot be read.
    """
    numbers, digests = set[int](), set[bytes]()
    bodies = select(checkpoints.c.body).where(checkpoints.c.session == session)
    for body in connection.execute(bodies).scalars():
        for value in (Value(*entry) for entry in codec.unpack(body)[2].values()):
            numbers.update(value.numbers)
            if value.digest is not None:
                digests.add(value.digest)
    pending = select(writes.c.value).where(writes.c.session == session)
    for body in connection.execute(pending).scalars():
        numbers.update(Value(codec.unpack(body)[2]).numbers)
    return numbers, digests


def has_entry(metadata: Mapping[str, Any], key: str, wanted: Any) -> bool:
    """Return whether metadata has a value under a key or a dotted path."""
    if key in metadata or "." not in key:
        return bool(metadata.get(key) == wanted)
    found: Any = metadata
    for name in key.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return bool(found == wanted)


@contextmanager
def errors_about(about: Address) -> Iterator[None]:
    """Add thread and checkpoint to errors about damaged rows that do not name them."""
    try:
        yield
    except CorruptStoreError as error:
        text = str(error)
        if text.startswith("Thread "):
            raise
        raise CorruptStoreError(
            f"{about}: {text}. Nothing was returned; restore a backup, or look at the thread "
            f"with `tokenmem doctor`."
        ) from error


def to_ranges(numbers: Iterable[int], before: Iterable[Sequence[int]] = ()) -> list[list[int]]:
    """Return numbers as ranges, appended to `before`: a chat of any length is a single range.

    Example:
        >>> to_ranges([1, 2, 3, 7])
        [[1, 3], [7, 7]]
    """
    runs = [[*run] for run in before]
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs
