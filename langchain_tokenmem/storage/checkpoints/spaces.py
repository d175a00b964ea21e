"""The rows of a thread: its namespaces (spaces), and the sessions that hold its messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    bindparam,
    exists,
    insert,
    or_,
    select,
    true,
    update,
)

from langchain_tokenmem.core.thread_names import check_thread_id, thread_session
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.groups import damaged, find_or_make_group
from langchain_tokenmem.storage.checkpoints.tables import groups, spaces
from langchain_tokenmem.storage.database.database import insert_unless_there, is_writer
from langchain_tokenmem.storage.database.statements import Statement
from langchain_tokenmem.storage.transcripts.encoded_message import escaped, key_of, unescaped
from langchain_tokenmem.storage.transcripts.message_rows import chunks

_MOST_TIPS = 64
"""Branches of which the tip is remembered; older ones stay readable."""


@dataclass(frozen=True)
class Space:
    """One checkpoint namespace of a thread.

    Attributes:
        space_id: Its number, never given twice.
        thread_id: The thread.
        ns: The namespace.
        group_id: Where its messages are.
        count: How many checkpoints it has.
        last_blob: Number of its last blob.
        head: Id of the checkpoint that a run goes on from; None when there is none.
        tips: Ids of the checkpoints that no other one follows, oldest first.
    """

    space_id: int
    thread_id: str
    ns: str
    group_id: int
    count: int = 0
    last_blob: int = 0
    head: str | None = None
    tips: tuple[str, ...] = ()

    @property
    def session_id(self) -> str:
        """The session that holds its messages."""
        return thread_session(self.thread_id, self.ns)

    def with_new(self, checkpoint_id: str, parent: str | None) -> Space:
        """Return the space with one checkpoint more."""
        # The head's child is the head even where another machine's clock is ahead.
        leads = self.head is None or parent == self.head or checkpoint_id > self.head
        tips = (*(tip for tip in self.tips if tip != parent), checkpoint_id)[-_MOST_TIPS:]
        head = checkpoint_id if leads else self.head
        return replace(self, count=self.count + 1, head=head, tips=tips)

    def reduced(self, count: int, head: str | None, tips: tuple[str, ...]) -> Space:
        """Return the space after some of its checkpoints were deleted."""
        return replace(self, count=count, head=head, tips=tips[-_MOST_TIPS:])


def _space_columns(space: Space) -> dict[str, Any]:
    return {
        "space_id": space.space_id,
        "thread_key": key_of(space.thread_id),
        "ns_key": key_of(space.ns),
        "fingerprint": _fingerprint(space.thread_id, space.ns),
        "thread_id": escaped(space.thread_id),
        "checkpoint_ns": escaped(space.ns),
        "group_id": space.group_id,
        "count": space.count,
        "last_blob": space.last_blob,
        "head": None if space.head is None else escaped(space.head),
        "tips": json.dumps(space.tips),
    }


def _fingerprint(thread_id: str, ns: str) -> str:
    """Return what begins alike for all namespaces of a thread."""
    return _digest(key_of(thread_id)) + _digest(key_of(ns))


def _digest(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


_SPACE_NAMES = tuple(_space_columns(Space(0, "", "", 0)))


_OWN = select(spaces).where(
    spaces.c.thread_key == bindparam("thread"), spaces.c.ns_key == bindparam("ns")
)
_FIND = Statement(_OWN)
_FIND_LOCKED = Statement(_OWN.with_for_update())
_IN_ORDER = (spaces.c.thread_key, spaces.c.ns_key != key_of(""), spaces.c.space_id)
"""How several are held: the graph's own namespace first, as by what makes a new one."""
_SAVE = Statement(update(spaces).where(spaces.c.space_id == bindparam("b_space_id")))
_CHANGING = ("group_id", "count", "last_blob", "head", "tips")


def find_space(connection: Connection, codec: Codec, thread_id: Any, ns: str) -> Space | None:
    """Return a namespace of a thread, checked; None when there never was one.

    Raises:
        CorruptStoreError: When its row is damaged, or cannot be found and must be there.
        ScopeError: When the thread's id cannot be one.
    """
    key = key_of(check_thread_id(thread_id))
    query = _FIND_LOCKED if is_writer(connection) else _FIND
    found = query.first(connection, {"thread": key, "ns": key_of(ns)})
    if found is None:
        known = exists().where(spaces.c.thread_key == key, spaces.c.ns_key == key_of(ns))
        named = exists().where(spaces.c.fingerprint == _fingerprint(thread_id, ns))
        # The graph's own namespace goes with the thread only; those of sub-graphs may go before.
        grouped = exists().where(groups.c.session_key == (key if ns == "" else None))
        is_known, is_named, has_group = connection.execute(select(known, named, grouped)).one()
        if (is_named or has_group) and not is_known:
            raise damaged(thread_id)
        return None
    space = _checked_space(codec, found)
    if (space.thread_id, space.ns) != (thread_id, ns):
        raise damaged(thread_id)
    return space


def _checked_space(codec: Codec, row: Mapping[Any, Any]) -> Space:
    columns = {name: row[name] for name in _SPACE_NAMES}
    if codec.seal(columns.values()) != row["seal"]:
        raise damaged(str(row["thread_id"]))
    head = columns["head"]
    return Space(
        columns["space_id"],
        unescaped(columns["thread_id"]),
        unescaped(columns["checkpoint_ns"]),
        columns["group_id"],
        columns["count"],
        columns["last_blob"],
        None if head is None else unescaped(head),
        tuple(json.loads(columns["tips"])),
    )


def spaces_of(connection: Connection, codec: Codec, thread_id: str | None) -> list[Space]:
    """Return every namespace of a thread, or of all threads.

    Raises:
        CorruptStoreError: When a row is damaged, or when table and index differ.
    """
    where: ColumnElement[bool] = true()
    if thread_id is not None:
        # Held first: no namespace is made from then on that the next statement would not see.
        find_space(connection, codec, thread_id, "")
        where = is_of(key_of(thread_id))
    found = _found(connection, codec, where)
    if thread_id is None:
        names = connection.execute(select(spaces.c.fingerprint)).scalars()
        if sorted(names) != sorted(_fingerprint(space.thread_id, space.ns) for space in found):
            raise CorruptStoreError(
                "The list of threads: table and index differ. Restore a backup."
            )
    elif any(space.thread_id != thread_id for space in found):
        raise damaged(thread_id)
    return found


def is_of(thread_key: str) -> ColumnElement[bool]:
    """Return what holds for the namespaces of a thread: one index finds what the other misses."""
    first, column = _digest(thread_key), spaces.c.fingerprint
    last = first + "g"  # past every hexadecimal digit
    return or_(spaces.c.thread_key == thread_key, (column >= first) & (column < last))


def numbers_of(connection: Connection, thread_key: str) -> list[int]:
    """Return the numbers of the namespaces of a thread, damaged ones, too.

    Raises:
        CorruptStoreError: When an index gives the row of another thread, or the row's name is
            damaged.
    """
    query = select(spaces.c.space_id, spaces.c.thread_id).where(is_of(thread_key))
    found = connection.execute(query).all()
    for row in found:
        if key_of(unescaped(row.thread_id)) != thread_key:
            raise CorruptStoreError(
                f"An index of threads gives the row of another one, {row.thread_id!r}, or its name "
                f"is damaged. Nothing was deleted; restore a backup, or look at the store with "
                f"`tokenmem doctor`."
            )
    return [row.space_id for row in found]


def hold_threads(connection: Connection, thread_keys: Sequence[str]) -> None:
    """Let nobody else write to threads until the transaction is over.

    Before their sessions, as a put does: the two would wait for each other.
    """
    for some in chunks(sorted(thread_keys)):
        query = select(spaces.c.space_id).where(spaces.c.thread_key.in_(some))
        connection.execute(query.order_by(*_IN_ORDER).with_for_update()).all()


def spaces_at(connection: Connection, codec: Codec, numbers: Sequence[int]) -> list[Space]:
    """Return the namespaces with these numbers that there are, checked.

    Raises:
        CorruptStoreError: When the row of one is damaged.
    """
    return _found(connection, codec, spaces.c.space_id.in_(numbers))


def _found(connection: Connection, codec: Codec, where: ColumnElement[bool]) -> list[Space]:
    """Return namespaces, checked; in a transaction that writes, nobody else's."""
    query = select(spaces).where(where).order_by(*_IN_ORDER)
    if is_writer(connection):
        query = query.with_for_update()
    return [_checked_space(codec, row) for row in connection.execute(query).mappings()]


def find_or_make_space(connection: Connection, codec: Codec, thread_id: str, ns: str) -> Space:
    """Return a namespace of a thread; make it if there is none."""
    found = find_space(connection, codec, thread_id, ns)
    if found is not None:
        return found
    if ns:
        # Retention and deletion hold the row of the graph's own namespace: they are over before
        # the new one begins, or see it. They would take away messages that it refers to.
        find_space(connection, codec, thread_id, "")
    group = find_or_make_group(connection, codec, thread_id, ns)
    new = Space(0, thread_id, ns, group.group_id)
    columns = _space_columns(new)
    del columns["space_id"]
    insert_unless_there(connection, spaces, {**columns, "seal": b""})
    query = (
        select(spaces.c.space_id, spaces.c.seal)
        .where(spaces.c.thread_key == key_of(thread_id), spaces.c.ns_key == key_of(ns))
        .with_for_update()
    )
    number, seal = connection.execute(query).one()
    if seal:  # another writer made it meanwhile
        return find_space(connection, codec, thread_id, ns) or new
    made = replace(new, space_id=number)
    save_space(connection, codec, made)
    return made


def save_space(connection: Connection, codec: Codec, space: Space) -> None:
    """Write the row back."""
    columns = _space_columns(space)
    changing = {name: columns[name] for name in _CHANGING}
    seal = codec.seal(columns.values())
    _SAVE.run(connection, {**changing, "seal": seal, "b_space_id": space.space_id})


def insert_space(connection: Connection, codec: Codec, space: Space) -> Space:
    """Insert a namespace of a new thread, and return it with its number."""
    columns = _space_columns(space)
    del columns["space_id"]
    result = connection.execute(insert(spaces).values(**columns, seal=b""))
    made = replace(space, space_id=(result.inserted_primary_key or (0,))[0])
    save_space(connection, codec, made)
    return made
