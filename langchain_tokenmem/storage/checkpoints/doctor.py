"""Looks through the rows of checkpointed threads, and takes out those that are damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, delete, func, select

from langchain_tokenmem.errors import CorruptStoreError, StoreError
from langchain_tokenmem.storage.checkpoints import rows
from langchain_tokenmem.storage.checkpoints.groups import read_group
from langchain_tokenmem.storage.checkpoints.spaces import Space, space_at
from langchain_tokenmem.storage.checkpoints.store import Checkpoints
from langchain_tokenmem.storage.checkpoints.tables import (
    blobs,
    checkpoints,
    contents,
    groups,
    spaces,
    writes,
)
from langchain_tokenmem.storage.checkpoints.threads import recount
from langchain_tokenmem.storage.message_rows import read_from
from langchain_tokenmem.storage.rows import unescaped
from langchain_tokenmem.storage.schema import sessions
from langchain_tokenmem.storage.sessions import find

Progress = Callable[[int, int], None]
"""Called with how many checkpoints were looked at, and how many there are."""

_REBUILD = "builds the indexes anew"

BLOCKED = "is not allowed to be loaded"
"""Words of an error that is no damage: the type has to be named, nothing has to be repaired."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        thread: Id of the thread or session; empty where no row tells it.
        namespace: Namespace of the checkpoint.
        checkpoint: Id of the checkpoint; empty when it is not about a single one.
        what: What is wrong.
        remedy: What `repair` does about it; empty when it does nothing.
        space_id: Where the rows are; None when it is about no single namespace.
        key: Key of the checkpoint's row.
    """

    thread: str
    namespace: str
    checkpoint: str
    what: str
    remedy: str = ""
    space_id: int | None = None
    key: str = ""


@dataclass(frozen=True)
class Examination:
    """What was looked at, and what was found.

    Attributes:
        threads: Threads with checkpoints.
        checkpoints: Checkpoints.
        findings: What is wrong, by thread.
    """

    threads: int
    checkpoints: int
    findings: tuple[Finding, ...]


def examine(store: Checkpoints, progress: Progress | None = None) -> Examination:
    """Read every row of every thread and say what cannot be read; nothing is changed.

    Raises:
        CorruptStoreError: When the database cannot even be opened as one of this package.
    """
    database = store.database
    with database.reading("The database") as connection:
        findings = [*_file(connection), *_orphans(connection)]
        keys = connection.execute(select(spaces.c.space_id).order_by(spaces.c.space_id)).scalars()
        numbers = keys.all()
        total = connection.execute(select(func.count()).select_from(checkpoints)).scalar() or 0
        names = connection.execute(select(sessions.c.session_id)).scalars().all()
    done, threads = 0, set()
    for number in numbers:
        thread = ""
        try:
            with database.reading("A thread") as connection:
                query = select(spaces).where(spaces.c.space_id == number)
                row = connection.execute(query).mappings().one_or_none()
                if row is None:
                    continue
                thread = _shown(row["thread_id"])
                threads.add(row["thread_key"])
                findings += _space(store, connection, row)
                done += len(rows.keys_of(connection, number))
        except CorruptStoreError as error:  # such as a name that is no text any more
            findings.append(Finding(thread, "", "", str(error)))
        if progress is not None:
            progress(done, total)
    for name in names:
        findings += _transcript(store, name)
    return Examination(len(threads), total, tuple(findings))


def _file(connection: Connection) -> list[Finding]:
    if connection.dialect.name != "sqlite":
        return []
    said = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
    return [
        Finding("", "", "", f"the file itself: {line}", _REBUILD) for line in said if line != "ok"
    ]


def _orphans(connection: Connection) -> Iterator[Finding]:
    """Find rows that belong to no thread: nobody reads them, and they take space."""
    for table, owner in _OWNED:
        column = table.c[owner.name]
        query = select(func.count()).where(column.not_in(select(owner)))
        count = connection.execute(query).scalar()
        if count:
            yield Finding(
                "", "", "", f"{count} rows of {table.name} belong to no thread", "deletes them"
            )


_OWNED: tuple[tuple[Table, Any], ...] = (
    (checkpoints, spaces.c.space_id),
    (writes, spaces.c.space_id),
    (blobs, spaces.c.space_id),
    (contents, groups.c.group_id),
)


def _space(store: Checkpoints, connection: Connection, row: Any) -> list[Finding]:
    """Return what is wrong with a namespace."""
    thread, ns, number = _shown(row["thread_id"]), _shown(row["checkpoint_ns"]), row["space_id"]
    try:
        space = space_at(connection, store.codec, number)
        read_group(connection, store.codec, space.thread_id, space.group_id)
    except (CorruptStoreError, ValueError) as error:
        return [Finding(thread, ns, "", f"what all of it hangs on is damaged: {error}")]
    keys = rows.keys_of(connection, number)
    faults = {key: _fault(store, connection, space, key) for key in keys}
    bad = {key: fault for key, fault in faults.items() if fault is not None}
    # With nothing whole to go on from, a backup is worth more than an empty thread.
    hopeless = len(bad) == len(keys)
    found = []
    if len(keys) != space.count:
        what = f"{space.count} checkpoints should be there, {len(keys)} are"
        remedy = "" if hopeless else "goes on from those that are there"
        found.append(Finding(thread, ns, "", what, remedy, number))
    for key, fault in bad.items():
        remedy = "" if hopeless or BLOCKED in fault else "deletes this checkpoint"
        found.append(Finding(thread, ns, _shown(key[1:]), fault, remedy, number, key))
    return found


def _fault(store: Checkpoints, connection: Connection, space: Space, key: str) -> str | None:
    try:
        stored = rows.checkpoint_at(connection, store.codec, space.space_id, key)
        if stored is None:
            return "its row is there, and is not found by its key"
        store.loaded(connection, space, stored)
    except (CorruptStoreError, ValueError, LookupError, TypeError) as error:
        return str(error)
    return None


def _transcript(store: Checkpoints, name: str) -> list[Finding]:
    session_id = _shown(name)
    try:
        with store.database.reading(f"Session {session_id!r}") as connection:
            session = find(connection, session_id, None)
            if session is not None:
                read_from(connection, session, session.first_seq)
    except CorruptStoreError as error:
        return [Finding(session_id, "", "", f"its transcript: {error}")]
    return []


def repair(store: Checkpoints, examination: Examination) -> Examination:
    """Delete checkpoints that cannot be read, and rows that belong to no thread.

    A thread then goes on from its newest checkpoint that is whole; one without any is left as it
    is. Transcripts are never touched.

    Args:
        store: Where they are.
        examination: What `examine` has found.

    Returns:
        What is left.
    """
    if any(finding.remedy == _REBUILD for finding in examination.findings):
        with suppress(StoreError), store.database.writing("The indexes") as connection:
            connection.exec_driver_sql("REINDEX")
        examination = examine(store)  # what an index did not find may be whole
    mine = [finding for finding in examination.findings if finding.remedy]
    for number in dict.fromkeys(one.space_id for one in mine if one.space_id is not None):
        gone = [one.key for one in mine if one.space_id == number and one.key]
        # One thread that cannot be repaired leaves the others their turn.
        with suppress(CorruptStoreError), store.database.writing("The repair") as connection:
            rows.delete_checkpoints(connection, number, gone)
            recount(connection, store.codec, space_at(connection, store.codec, number))
    with store.database.writing("The repair") as connection:
        for table, owner in _OWNED:
            connection.execute(delete(table).where(table.c[owner.name].not_in(select(owner))))
    store.database.forget_deleted()
    return examine(store)


def _shown(name: Any) -> str:
    """Return a stored name as it can be read, whatever a damaged row says."""
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    try:
        return unescaped(text)
    except (UnicodeDecodeError, UnicodeEncodeError):
        return text
