"""Examination of checkpointed threads: reads every row, and lists the damaged ones."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    LargeBinary,
    RowMapping,
    Select,
    Table,
    cast,
    func,
    select,
)
from sqlalchemy.exc import SQLAlchemyError

from langchain_tokenmem.errors import CorruptStoreError, ScopeError
from langchain_tokenmem.storage.checkpoints.checkpoint_rows import checkpoint_keys, find_checkpoint
from langchain_tokenmem.storage.checkpoints.codec import Transaction
from langchain_tokenmem.storage.checkpoints.namespaces import Namespace, read_namespaces
from langchain_tokenmem.storage.checkpoints.reader import CheckpointReader
from langchain_tokenmem.storage.checkpoints.tables import (
    channel_values,
    checkpoints,
    namespaces,
    thread_messages,
    thread_sessions,
    writes,
)
from langchain_tokenmem.storage.checkpoints.thread_sessions import read_thread_session
from langchain_tokenmem.storage.database.sqlite_file import is_damage
from langchain_tokenmem.storage.transcripts.edits import rows_with_superseded
from langchain_tokenmem.storage.transcripts.message_rows import read_from
from langchain_tokenmem.storage.transcripts.sessions import find
from langchain_tokenmem.storage.transcripts.tables import sessions

Progress = Callable[[int, int], None]
"""Called with how many checkpoints were looked at, and how many there are."""

REINDEXED = "puts rows and indexes in order"
WITH_ROW = "goes with its row"
ORPHANED = "deletes them when nothing else is wrong"
"""Remedies as users read them; a finding without one stays as it is."""

_UNFOUND = "its row is there, and is not found by its key"

KEY_ORDERED = (checkpoints, writes, thread_messages)
"""Tables that SQLite keeps in the order of their keys; what is wrong with that order can be mended.

Of the other tables an index may be right and the row be wrong: to build it anew would take away
what can still be read.
"""

_TABLES = f"(?:{'|'.join(map(str, KEY_ORDERED))})"
_OF_ORDER = re.compile(
    rf"(?:row not in PRIMARY KEY order for {_TABLES}"
    rf"|(?:row \d+ missing from|wrong # of entries in) "
    rf"index (?:sqlite_autoindex_)?{_TABLES}(?:_by_run|_\d+)?)$"
)
"""Lines of `PRAGMA integrity_check` that are about that."""

_OF_VALUE = re.compile(rf"\w+ value in {_TABLES}\.\w+$")
"""Lines about a value of a row in these tables, whose seal shows the same."""

_MOST_LINES = 20

BLOCKED = "is not allowed to be loaded"
"""Words of an error that is no damage: the type has to be named, nothing has to be repaired."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        thread: Id of the thread or session; empty where no row has it.
        namespace: Namespace of the checkpoint.
        checkpoint: Id of the checkpoint; empty when it is not about a single one.
        what: What is wrong.
        remedy: What `repair` does about it; empty when it does nothing.
        namespace_id: Where the rows are; None when it is about no single namespace.
        key: Key of the checkpoint's row.
    """

    thread: str
    namespace: str
    checkpoint: str
    what: str
    remedy: str = ""
    namespace_id: int | None = None
    key: str = ""


@dataclass(frozen=True)
class Examination:
    """Result of an examination.

    Attributes:
        threads: Threads with checkpoints.
        checkpoints: Checkpoints.
        findings: What is wrong, by thread.
    """

    threads: int
    checkpoints: int
    findings: tuple[Finding, ...]


def examine(store: CheckpointReader, progress: Progress | None = None) -> Examination:
    """Read every row of every thread and say what cannot be read; nothing is changed.

    Raises:
        CorruptStoreError: When the database cannot even be opened as one of this package.
    """
    with store.database.reading("The database") as connection:
        findings = file_faults(connection)
        # Where the file itself is damaged, what is whole may look as if it were not.
        is_reliable = not any(finding.remedy == "" for finding in findings)
        query = select(namespaces.c.namespace_id, namespaces.c.checkpoint_count)
        rows = connection.execute(query.order_by(namespaces.c.namespace_id))
        counts = {row[0]: row[1] for row in rows}
        for table, owner in OWNED:
            with _noting(findings, f"the table {table.name}"):
                # They are never read, and take space.
                orphans = select(func.count()).where(table.c[owner.name].not_in(select(owner)))
                if count := connection.execute(orphans).scalar():
                    what = f"{count} rows of {table.name} belong to no thread"
                    findings.append(Finding("", "", "", what, ORPHANED))
        names: Sequence[Any] = []
        with _noting(findings, "the list of transcripts"):
            names = connection.execute(_names(connection)).scalars().all()
    done, threads = 0, set()
    total = sum(count for count in counts.values() if isinstance(count, int))
    for number in counts:
        thread = ""
        try:
            with store.reading("A thread") as tx:
                row = row_of(tx.connection, number)
                if row is None:
                    findings += _unfound(tx.connection, number)
                    continue
                thread = _shown(row["thread_id"])
                threads.add(row["thread_key"])
                findings += namespace_faults(store, tx, row)
                done += len(checkpoint_keys(tx.connection, number))
        except CorruptStoreError as error:  # such as a key that is no text any more
            findings.append(Finding(thread, "", "", str(error)))
        if progress is not None:
            progress(done, total)
    for name in names:
        findings += _transcript(store, name)
    if not is_reliable:
        findings = [replace(finding, remedy="") for finding in findings]
    return Examination(len(threads), done, tuple(findings))


def file_faults(connection: Connection) -> list[Finding]:
    """Return what SQLite finds wrong with the file, first what nothing here can mend."""
    if connection.dialect.name != "sqlite":
        return []
    found: list[Finding] = []
    with _noting(found, "the file itself"):
        check = connection.exec_driver_sql("PRAGMA integrity_check(1000)").scalars().all()
        lines = [line for line in check if line != "ok"]
        found = [Finding("", "", "", f"the file itself: {one}", _remedy(one)) for one in lines]
    return sorted(found, key=lambda one: one.remedy)[:_MOST_LINES]


def _remedy(line: str) -> str:
    return REINDEXED if _OF_ORDER.match(line) else WITH_ROW if _OF_VALUE.match(line) else ""


def _names(connection: Connection) -> Select[Any]:
    """Select the ids of all sessions; bytes from SQLite, which may hold a text that is none."""
    name: ColumnElement[Any] = sessions.c.session_id
    return select(cast(name, LargeBinary) if connection.dialect.name == "sqlite" else name)


@contextmanager
def _noting(findings: list[Finding], what: str) -> Iterator[None]:
    """Note it when the database cannot read something because it is damaged."""
    try:
        yield
    except SQLAlchemyError as error:
        findings.append(Finding("", "", "", f"{what} cannot be read: {_damage_in(error)}"))


OWNED: tuple[tuple[Table, Column[int]], ...] = (
    (checkpoints, namespaces.c.namespace_id),
    (writes, namespaces.c.namespace_id),
    (channel_values, namespaces.c.namespace_id),
    (thread_messages, thread_sessions.c.session_number),
)


def _unfound(connection: Connection, number: int) -> list[Finding]:
    """Return what is wrong where a namespace that was listed is not found by its number."""
    if number in connection.execute(select(namespaces.c.namespace_id)).scalars().all():
        return [Finding("", "", "", f"the row of namespace {number} is not found by its number")]
    return []  # it was removed meanwhile


def row_of(connection: Connection, number: int) -> RowMapping | None:
    """Return the row of a namespace as it is there, None when there is none."""
    query = select(namespaces).where(namespaces.c.namespace_id == number)
    return connection.execute(query).mappings().one_or_none()


def namespace_faults(store: CheckpointReader, tx: Transaction, row: RowMapping) -> list[Finding]:
    """Return what is wrong with a namespace."""
    thread, ns, number = _shown(row["thread_id"]), _shown(row["checkpoint_ns"]), row["namespace_id"]
    try:
        (namespace,) = read_namespaces(tx, namespaces.c.namespace_id == number)
        read_thread_session(tx, namespace.thread_id, namespace.session_number)
    except (CorruptStoreError, ValueError) as error:
        return [Finding(thread, ns, "", f"what all of it hangs on is damaged: {error}")]
    keys = checkpoint_keys(tx.connection, number)
    faults = {key: _fault(store, tx, namespace, key) for key in keys}
    bad = {key: fault for key, fault in faults.items() if fault is not None}
    # With nothing whole to go on from, a backup is worth more than an empty thread.
    hopeless = len(bad) == len(faults)
    found = []
    if not len(keys) == len(faults) == namespace.checkpoint_count:
        count = namespace.checkpoint_count
        what = f"{count} checkpoints should be there, {len(faults)} different ones are"
        remedy = "" if hopeless else "goes on from those that are there"
        found.append(Finding(thread, ns, "", what, remedy, number))
    for key, fault in bad.items():
        stays = hopeless or BLOCKED in fault or fault == _UNFOUND
        remedy = "" if stays else "deletes this checkpoint"
        found.append(Finding(thread, ns, _shown(key[1:]), fault, remedy, number, key))
    return found


def _fault(store: CheckpointReader, tx: Transaction, namespace: Namespace, key: str) -> str | None:
    try:
        stored = find_checkpoint(tx, namespace.namespace_id, key)
        if stored is None:
            return _UNFOUND
        store.loaded(tx, namespace, stored)
    except (CorruptStoreError, ValueError, LookupError, TypeError) as error:
        return str(error)
    except (sqlite3.Error, SQLAlchemyError) as error:
        return f"a row of it cannot be read: {_damage_in(error)}"
    return None


def _damage_in(error: Exception) -> BaseException:
    """Return the database's error if it is about damage; raise any other one, which may pass."""
    cause = getattr(error, "orig", None) or error
    if not is_damage(cause):
        raise error
    return cause


def _transcript(store: CheckpointReader, name: str | bytes) -> list[Finding]:
    session_id = _shown(name)
    try:
        with store.database.reading(f"Session {session_id!r}") as connection:
            session = find(connection, session_id, None)
            if session is not None:
                rows_with_superseded(
                    connection, session, read_from(connection, session, session.first_seq)
                )
            elif name in connection.execute(_names(connection)).scalars().all():
                return [Finding(session_id, "", "", "its transcript is not found by its id")]
    except (CorruptStoreError, ScopeError) as error:  # a damaged id may be blank
        return [Finding(session_id, "", "", f"its transcript: {error}")]
    return []


def _shown(name: Any) -> str:
    """Return a stored name as it can be read, whatever a damaged row says."""
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
