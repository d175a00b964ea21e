"""Operations on whole threads: delete, copy, prune and examine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, exists, insert, literal, select
from sqlalchemy.exc import SQLAlchemyError

from langchain_tokenmem.core.message_times import moment_of
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.core.thread_names import check_thread_id
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError, StoreError
from langchain_tokenmem.storage import sessions as session_rows
from langchain_tokenmem.storage.checkpoint_rows import (
    Address,
    StoredCheckpoint,
    errors_about,
    is_at,
    referenced,
)
from langchain_tokenmem.storage.checkpoints import CheckpointStore
from langchain_tokenmem.storage.database import change_with, chunks, lock_threads
from langchain_tokenmem.storage.sessions import MESSAGES
from langchain_tokenmem.storage.tables import (
    checkpoints,
    messages,
    sessions,
    terms,
    values,
    vectors,
    writes,
)
from langchain_tokenmem.storage.transcripts import read

_STRAY = timedelta(hours=1)
"""Older pending writes without a checkpoint belong to a run that was refused or died."""

_COPIED = (
    *("first_seq", "last_seq", "edits", "active_at", "is_pinned", "words_from"),
    *("unit_count", "term_count"),
)
"""Columns of the source that a copied session keeps."""

_Stored = Mapping[str, Sequence[StoredCheckpoint]]
"""The checkpoints of a thread by namespace, oldest first."""


def delete_threads(
    connection: Connection, thread_ids: Iterable[str]
) -> tuple[Counter[str], list[int]]:
    """Delete everything of threads, or of plain sessions; foreign keys delete the rest.

    Args:
        connection: In a write transaction that has locked the threads.
        thread_ids: The threads.

    Returns:
        The number of deleted rows of each kind, and the numbers of the deleted sessions.
    """
    kinds = ("sessions", "messages", "documents", "checkpoints", "terms", "vectors")
    counts = Counter(dict.fromkeys(kinds, 0))
    gone: list[int] = []
    for some in chunks(sorted(set(thread_ids))):
        own = select(sessions.c.id).where(sessions.c.thread_id.in_(some))
        gone += connection.execute(own).scalars().all()
        texts = delete(messages).where(
            messages.c.session.in_(own.where(sessions.c.kind != MESSAGES))
        )
        counts["documents"] += connection.execute(texts).rowcount
        for table in (writes, checkpoints, terms, vectors, messages):
            rows = connection.execute(delete(table).where(table.c.session.in_(own))).rowcount
            counts[table.name.removeprefix("tokenmem_")] += rows
        whole = delete(sessions).where(sessions.c.thread_id.in_(some))
        connection.execute(whole.where(sessions.c.kind != MESSAGES))
        counts["sessions"] += connection.execute(whole).rowcount
    return counts, gone


def delete_thread(store: CheckpointStore, thread_id: str) -> None:
    """Delete everything of a thread, its transcript included."""
    name = check_thread_id(thread_id)
    with store.database.writing(f"Thread {name!r}", name) as connection:
        _, gone = delete_threads(connection, [name])
    if gone:
        store.database.forget_deleted()
        store.messages.index.tell(Change("erased", gone))


def copy_thread(store: CheckpointStore, source: str, target: str) -> None:
    """Copy a thread with all checkpoints, pending writes and its transcript.

    Messages have the same numbers in the copied session.

    Raises:
        ConfigurationError: When the target already has checkpoints or a transcript.
        CorruptStoreError: When a checkpoint of the source is damaged; nothing was copied.
    """
    source, target = check_thread_id(source), check_thread_id(target)
    with store.database.writing(f"Thread {target!r}", source, target) as connection:
        has_checkpoints = exists().where(checkpoints.c.thread_id == target)
        if connection.execute(select(has_checkpoints)).scalar():
            raise ConfigurationError(
                f"Thread {target!r} has checkpoints; copy to a new thread, or delete it first."
            )
        there = _checkpoints_of(store, connection, source)
        if not there:
            return
        for stored in there.values():
            for one in stored:
                store.loaded(connection, one)  # raises if something is missing
        for own in session_rows.sessions_of_thread(connection, source):
            name = target + own.name.removeprefix(source)
            copy = session_rows.find_or_make(connection, name, own.user_id, kind=own.kind)
            if copy.count:
                raise ConfigurationError(
                    f"Session {name!r} already has messages; copy to a new thread."
                )
            for column in _COPIED:
                setattr(copy, column, getattr(own, column))
            session_rows.save(connection, copy, vectors_from=own.first_seq)
            for table in (messages, values, checkpoints, writes, terms):
                new: dict[str, Any] = {"session": literal(copy.id), "thread_id": literal(target)}
                chosen = [new.get(c.name, c).label(c.name) for c in table.c]
                rows = select(*chosen).where(table.c.session == own.id)
                connection.execute(insert(table).from_select([c.name for c in table.c], rows))
    store.messages.index.tell(Change("added"))


def prune(
    store: CheckpointStore,
    thread_id: str,
    keep_last: int | None,
    older_than: timedelta | None,
    *,
    now: datetime,
) -> None:
    """Delete the old checkpoints of a thread.

    What a kept checkpoint builds upon (the ancestors of a delta channel back to its snapshot)
    is kept, too. The transcript is never touched.

    Args:
        store: The checkpoints.
        thread_id: The thread.
        keep_last: How many of the newest to keep in each namespace; None for all.
        older_than: Delete those above this age, except the head; None for any age.
        now: The current time.

    Raises:
        CorruptStoreError: When a checkpoint of the thread is damaged; nothing was deleted.
    """
    name = check_thread_id(thread_id)
    since = None if older_than is None else now - older_than
    with store.database.writing(f"Thread {name!r}", name) as connection:
        there = _checkpoints_of(store, connection, name)
        is_less = _thin_out(store, connection, name, there, _kept(there, keep_last, since), now)
    if is_less:
        store.database.forget_deleted()


def delete_for_runs(store: CheckpointStore, run_ids: Sequence[str], *, now: datetime) -> None:
    """Delete the checkpoints of runs, and everything that only they needed, in every thread.

    Raises:
        CorruptStoreError: When a checkpoint of these threads is damaged; nothing was deleted.
    """
    names = set(run_ids)
    with store.database.writing("The checkpoints of runs") as connection:
        of_runs = select(checkpoints.c.thread_id).where(checkpoints.c.run_id.in_(names))
        threads = connection.execute(of_runs.distinct()).scalars().all()
        lock_threads(connection, threads)
        for thread_id in threads:
            there = _checkpoints_of(store, connection, thread_id)
            others = {
                ns: {one.id for one in stored if str(one.metadata.get("run_id") or "") not in names}
                for ns, stored in there.items()
            }
            _thin_out(store, connection, thread_id, there, others, now)
    if threads:
        store.database.forget_deleted()


def _checkpoints_of(
    store: CheckpointStore, connection: Connection, thread_id: str
) -> dict[str, list[StoredCheckpoint]]:
    query = select(checkpoints).where(checkpoints.c.thread_id == thread_id)
    found: dict[str, list[StoredCheckpoint]] = defaultdict(list)
    for row in connection.execute(query.order_by(checkpoints.c.checkpoint_id)):
        found[row.ns].append(store.stored(row))
    return dict(found)


def _thin_out(
    store: CheckpointStore,
    connection: Connection,
    thread_id: str,
    there: _Stored,
    kept: Mapping[str, Collection[str]],
    now: datetime,
) -> bool:
    """Delete checkpoints of a thread, stray writes, and what nothing refers to anymore.

    Args:
        store: The checkpoints.
        connection: In a write transaction that has locked the thread.
        thread_id: The thread.
        there: Its checkpoints.
        kept: The ids to keep, by namespace.
        now: The current time.

    Returns:
        Whether anything was deleted.
    """
    removed = [one for ns, stored in there.items() for one in stored if one.id not in kept[ns]]
    for one in removed:
        for table in (checkpoints, writes):
            connection.execute(delete(table).where(*is_at(one.address, table)))
    own = (checkpoints.c[name] == writes.c[name] for name in ("thread_id", "ns", "checkpoint_id"))
    strays = delete(writes).where(
        writes.c.thread_id == thread_id,
        writes.c.written_at < round((now - _STRAY).timestamp()),
        ~exists().where(*own),
    )
    if not connection.execute(strays).rowcount and not removed:
        return False
    with errors_about(Address(thread_id, "")):
        _delete_unused(store, connection, thread_id)
    return True


def _delete_unused(store: CheckpointStore, connection: Connection, thread_id: str) -> None:
    """Delete the messages outside the transcript, and the values, that nothing refers to."""
    ids = select(sessions.c.id).where(sessions.c.thread_id == thread_id)
    for session in connection.execute(ids).scalars().all():
        numbers, digests = referenced(connection, store.codec, session)
        beside = (messages.c.session == session, messages.c.seq.is_(None))
        known = set(connection.execute(select(messages.c.number).where(*beside)).scalars())
        change_with(connection, delete(messages).where(*beside), messages.c.number, known - numbers)
        own = values.c.session == session
        stored = connection.execute(select(values.c.digest).where(own)).scalars()
        held = {bytes(digest) for digest in stored}
        if not held >= digests:
            raise CorruptStoreError("the value of a channel is missing")
        change_with(connection, delete(values).where(own), values.c.digest, held - digests)


def _kept(there: _Stored, keep_last: int | None, since: datetime | None) -> dict[str, set[str]]:
    """Return the ids to keep, by namespace: first the graph's own, then its sub-graphs'."""
    kept: dict[str, set[str]] = {}
    roots: set[str] = set()
    newest = ""
    for ns, stored in sorted(there.items(), key=lambda pair: bool(pair[0])):
        stays = _newest(stored, keep_last, since)
        if ":" in ns:
            # One run of a sub-graph. A namespace without task ids is a sub-graph's own memory for
            # the whole thread, however long ago it ran.
            stays = {one.id for one in stored if one.id in stays and _has_root(one, roots, newest)}
        stays |= _ancestors(stored, stays)
        if not ns:
            roots, newest = stays, stored[-1].id
        kept[ns] = stays
    return kept


def _newest(
    stored: Sequence[StoredCheckpoint], keep_last: int | None, since: datetime | None
) -> set[str]:
    if keep_last == 0:
        return set()
    young = stored if keep_last is None else stored[-keep_last:]
    stays = {
        one.id
        for one in young
        if since is None or (moment_of(one.fields.get("ts")) or since) >= since
    }
    return stays | {stored[-1].id}


def _has_root(stored: StoredCheckpoint, roots: Collection[str], newest: str) -> bool:
    """Return whether the checkpoint of the graph under which a sub-graph ran is kept.

    It may not be stored yet; then it is newer than all stored ones.
    """
    root = (stored.metadata.get("parents") or {}).get("")
    return root is None or root in roots or root > newest


def _ancestors(stored: Sequence[StoredCheckpoint], kept: Iterable[str]) -> set[str]:
    """Return the ids that delta channels of kept checkpoints are rebuilt from.

    A delta channel is one whose steps since its last snapshot LangGraph counts. It has no value of
    its own after that snapshot, however far back that is.
    """
    by_id = {one.id: one for one in stored}
    delta = {
        name for one in stored for name in one.metadata.get("counters_since_delta_snapshot") or {}
    }
    needed: set[str] = set()
    waiting = [*kept]
    while waiting:
        one: StoredCheckpoint | None = by_id[waiting.pop()]
        missing = delta & (one.fields.get("channel_versions") or {}).keys() if one else set()
        visited = set[str]()
        while one is not None and (missing := missing - one.channels.keys()):
            visited.add(one.id)
            one = by_id.get(one.parent) if one.parent else None
            if one is not None and one.id in visited:  # parents can form a cycle
                break
            if one is not None and one.id not in needed:
                needed.add(one.id)
                # A kept checkpoint must be readable, so it needs all of its own channels.
                waiting.append(one.id)
    return needed


# --- examining

Progress = Callable[[int, int], None]
"""Called with the number of checkpoints that were read, and the number of all."""

_MOST_LINES = 20


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        thread: Id of the thread or session; empty if it concerns the file.
        checkpoint: Id of the checkpoint; empty if it does not concern a single one.
        what: What is wrong.
    """

    thread: str
    checkpoint: str
    what: str


@dataclass(frozen=True)
class Examination:
    """Result of an examination.

    Attributes:
        sessions: Number of sessions, including threads.
        checkpoints: Number of checkpoints.
        findings: What is wrong.
    """

    sessions: int
    checkpoints: int
    findings: tuple[Finding, ...]


def examine(store: CheckpointStore, progress: Progress = lambda _, __: None) -> Examination:
    """Read every message and checkpoint, and report what cannot be read; change nothing.

    Raises:
        CorruptStoreError: When the database cannot even be opened.
    """
    database, findings = store.database, list[Finding]()
    names: list[str] = []
    keys: list[tuple[str, str, str]] = []
    with database.reading("The database") as connection:
        if database.is_sqlite:
            check = connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_LINES})").scalars()
            findings += [Finding("", "", f"the file: {line}") for line in check if line != "ok"]
        with _noting(findings, "", ""):
            own = select(sessions.c.name).where(sessions.c.kind == MESSAGES)
            names = list(connection.execute(own).scalars())
            columns = (checkpoints.c.thread_id, checkpoints.c.ns, checkpoints.c.checkpoint_id)
            keys = [(t, ns, name) for t, ns, name in connection.execute(select(*columns))]
    for name in names:
        with _noting(findings, name, ""), database.reading(f"Session {name!r}") as connection:
            session = session_rows.find(connection, name)
            if session is not None:
                read(connection, session)
                session_rows.state_of(session)
    for done, key in enumerate(keys, 1):
        with _noting(findings, key[0], key[2]):
            store.get(Address(*key))
        progress(done, len(keys))
    return Examination(len(names), len(keys), tuple(findings))


@contextmanager
def _noting(findings: list[Finding], thread: str, checkpoint: str) -> Iterator[None]:
    """Record what cannot be read."""
    try:
        yield
    except (StoreError, SQLAlchemyError) as error:
        findings.append(Finding(thread, checkpoint, str(error)))
