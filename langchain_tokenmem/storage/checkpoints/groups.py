"""The rows of groups: sessions of a thread, each with the messages that its namespaces share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from langchain_tokenmem.core.thread_names import thread_session
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.tables import groups
from langchain_tokenmem.storage.database.database import insert_unless_there, is_writer
from langchain_tokenmem.storage.database.statements import Statement
from langchain_tokenmem.storage.transcripts.encoded_message import escaped, key_of, unescaped


@dataclass(frozen=True)
class Group:
    """The messages of one session of a thread.

    Attributes:
        group_id: Its number, never given twice.
        thread_id: The thread.
        session_id: Its session in the transcript store.
        last_number: Number of the last row of its contents.
    """

    group_id: int
    thread_id: str
    session_id: str
    last_number: int = 0


_OWN = select(groups).where(groups.c.group_id == bindparam("b_group_id"))
_FIND = Statement(_OWN)
_FIND_LOCKED = Statement(_OWN.with_for_update())
_SAVE = Statement(update(groups).where(groups.c.group_id == bindparam("b_group_id")))
_GROUP_NAMES = ("group_id", "thread_key", "session_key", "session_id", "last_number")


def _group_columns(group: Group) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "thread_key": key_of(group.thread_id),
        "session_key": key_of(group.session_id),
        "session_id": escaped(group.session_id),
        "last_number": group.last_number,
    }


def find_or_make_group(connection: Connection, codec: Codec, thread_id: str, ns: str) -> Group:
    """Return the session of a namespace; make it if there is none."""
    session_id = thread_session(thread_id, ns)
    columns = _group_columns(Group(0, thread_id, session_id))
    del columns["group_id"]
    query = select(groups.c.group_id).where(groups.c.session_key == key_of(session_id))
    number = connection.execute(query).scalar()
    if number is None:
        insert_unless_there(connection, groups, {**columns, "seal": b""})
        number, seal = connection.execute(
            select(groups.c.group_id, groups.c.seal)
            .where(groups.c.session_key == key_of(session_id))
            .with_for_update()
        ).one()
        if not seal:
            made = Group(number, thread_id, session_id)
            save_group(connection, codec, made)
            return made
    return read_group(connection, codec, thread_id, number)


def read_group(connection: Connection, codec: Codec, thread_id: str, group_id: int) -> Group:
    """Return a session of a thread, checked; in a transaction that writes, nobody else's.

    Raises:
        CorruptStoreError: When its row is damaged or missing.
    """
    query = _FIND_LOCKED if is_writer(connection) else _FIND
    row = query.first(connection, {"b_group_id": group_id})
    if row is None or row["thread_key"] != key_of(thread_id):
        raise damaged(thread_id)
    columns = {name: row[name] for name in _GROUP_NAMES}
    if codec.seal(columns.values()) != row["seal"]:
        raise damaged(thread_id)
    return Group(group_id, thread_id, unescaped(row["session_id"]), row["last_number"])


def groups_of(connection: Connection, codec: Codec, thread_id: str) -> Sequence[Group]:
    """Return every session of a thread."""
    numbers = connection.execute(
        select(groups.c.group_id)
        .where(groups.c.thread_key == key_of(thread_id))
        .order_by(groups.c.group_id)
    ).scalars()
    return [read_group(connection, codec, thread_id, number) for number in numbers.all()]


def save_group(connection: Connection, codec: Codec, group: Group) -> None:
    """Write the row back."""
    seal = codec.seal(_group_columns(group).values())
    changing = {"last_number": group.last_number, "seal": seal}
    _SAVE.run(connection, {**changing, "b_group_id": group.group_id})


def insert_group(connection: Connection, codec: Codec, group: Group) -> Group:
    """Insert a session of a new thread, and return it with its number."""
    columns = _group_columns(group)
    del columns["group_id"]
    result = connection.execute(insert(groups).values(**columns, seal=b""))
    made = replace(group, group_id=(result.inserted_primary_key or (0,))[0])
    save_group(connection, codec, made)
    return made


def damaged(thread_id: str) -> CorruptStoreError:
    """Return what is raised when a thread cannot be trusted as a whole."""
    return CorruptStoreError(
        f"Thread {thread_id!r}: one of its rows is damaged. Nothing was returned; restore a "
        f"backup, or look at it with `tokenmem doctor`."
    )
