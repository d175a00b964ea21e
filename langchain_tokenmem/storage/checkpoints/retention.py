"""Retention: deletes old checkpoints of a thread, with everything that only they needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, Table, delete, select

from langchain_tokenmem.core.thread_names import check_thread_id
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.checkpoint_rows import (
    CheckpointRow,
    all_checkpoints,
    delete_checkpoints,
    every_checkpoint,
    run_hash,
    time_of,
)
from langchain_tokenmem.storage.checkpoints.codec import Transaction
from langchain_tokenmem.storage.checkpoints.message_rows import MessageRows, chunk_numbers
from langchain_tokenmem.storage.checkpoints.namespaces import (
    Namespace,
    lock_threads,
    namespaces_of,
    read_namespaces,
)
from langchain_tokenmem.storage.checkpoints.records import Address, errors_about
from langchain_tokenmem.storage.checkpoints.store import CheckpointStore
from langchain_tokenmem.storage.checkpoints.tables import (
    channel_values,
    checkpoints,
    namespaces,
    thread_messages,
    writes,
)
from langchain_tokenmem.storage.checkpoints.threads import recount
from langchain_tokenmem.storage.transcripts.encoded_message import key_of
from langchain_tokenmem.storage.transcripts.message_rows import chunks

_STRAY = timedelta(hours=1)
"""Age from which pending writes without a checkpoint belong to a run that was refused or died."""


_Stored = Mapping[Namespace, Sequence[CheckpointRow]]
"""The checkpoints of a thread by their namespace, oldest first."""


@dataclass(frozen=True)
class RetentionRule:
    """Rule that says which checkpoints stay.

    Attributes:
        keep_last: How many of the newest in each namespace; None for all of them.
        since: The oldest time; None for any. The head stays, however old it is.
    """

    keep_last: int | None
    since: datetime | None


def prune(store: CheckpointStore, thread_id: str, rule: RetentionRule, *, now: datetime) -> None:
    """Delete the checkpoints of a thread that a rule does not keep.

    What a kept checkpoint builds upon (the ancestors of a delta channel back to its snapshot)
    stays, too. The transcript is never touched.

    Raises:
        CorruptStoreError: When a checkpoint of the thread is damaged, or anything of those that
            stay is missing; nothing was deleted.
    """
    with store.writing(Address(check_thread_id(thread_id), "")) as tx:
        is_less = _thin_out(tx, thread_id, lambda there: _kept(there, rule), now)
    if is_less:
        store.database.forget_deleted()


def delete_for_runs(store: CheckpointStore, run_ids: Sequence[str], *, now: datetime) -> None:
    """Delete the checkpoints of runs, and everything that only they needed, in every thread.

    Raises:
        CorruptStoreError: When a thread they are in lost a checkpoint; nothing was deleted.
    """
    hashes = [one for run_id in run_ids if (one := run_hash(run_id))]

    def others(there: _Stored) -> dict[Namespace, set[str]]:
        return {
            namespace: {
                row.id for row in rows if run_hash(row.metadata.get("run_id")) not in hashes
            }
            for namespace, rows in there.items()
        }

    with store.writing("The checkpoints of runs") as tx:
        of_runs = select(checkpoints.c.namespace_id).where(checkpoints.c.run_hash.in_(hashes))
        is_touched = namespaces.c.namespace_id.in_(of_runs)
        keys = tx.connection.execute(select(namespaces.c.thread_key).where(is_touched)).scalars()
        lock_threads(tx.connection, [*set(keys)])
        touched = read_namespaces(tx, is_touched)
        for thread_id in sorted({namespace.thread_id for namespace in touched}):
            _thin_out(tx, thread_id, others, now)
    if touched:
        store.database.forget_deleted()


def _thin_out(
    tx: Transaction,
    thread_id: str,
    choose: Callable[[_Stored], Mapping[Namespace, Collection[str]]],
    now: datetime,
) -> bool:
    """Delete checkpoints of a thread, stray writes, and what nothing refers to any more.

    Args:
        tx: In a transaction that writes.
        thread_id: The thread.
        choose: Returns the ids that stay, by namespace.
        now: The current time.

    Returns:
        Whether anything was deleted.
    """
    is_less = False
    with errors_about(Address(thread_id, "")):
        there = {one: every_checkpoint(tx, one) for one in namespaces_of(tx, thread_id)}
        kept = choose(there)
        for namespace, rows in there.items():
            is_less |= _delete_strays(tx.connection, namespace, now)
            if removed := [row for row in rows if row.id not in kept[namespace]]:
                _delete_rows(tx, namespace, removed)
                is_less = True
        if is_less:
            for session in sorted({namespace.session_number for namespace in there}):
                shared = [one for one in there if one.session_number == session]
                _delete_messages(tx, shared, session)
    return is_less


def _kept(there: _Stored, rule: RetentionRule) -> dict[Namespace, set[str]]:
    """Return the ids that stay, by namespace; the graph's own first, its sub-graphs' after it."""
    kept: dict[Namespace, set[str]] = {}
    roots: set[str] = set()
    newest = ""
    for namespace, stored in sorted(there.items(), key=lambda one: bool(one[0].ns)):
        stays = _by_rule(namespace, stored, rule)
        if ":" in namespace.ns:
            # One run of a sub-graph. A namespace without ids of tasks is a sub-graph's own memory
            # for the whole thread, however long ago it ran.
            stays = {one.id for one in stored if one.id in stays and _has_root(one, roots, newest)}
        elif not namespace.ns:
            newest = stored[-1].id if stored else ""
        stays |= _ancestors(stored, stays)
        if not namespace.ns:
            roots = stays
        kept[namespace] = stays
    return kept


def _by_rule(
    namespace: Namespace, stored: Sequence[CheckpointRow], rule: RetentionRule
) -> set[str]:
    if rule.keep_last == 0:
        return set()
    young = stored if rule.keep_last is None else stored[-rule.keep_last :]
    since = rule.since
    stays = {one.id for one in young if since is None or (time_of(one.fields) or since) >= since}
    return stays | ({namespace.latest} if namespace.latest is not None else set())


def _has_root(stored: CheckpointRow, roots: Collection[str], newest: str) -> bool:
    """Return whether the checkpoint of the graph under which a sub-graph ran is kept.

    It may be on its way, and then it is newer than all that are there.
    """
    root = (stored.metadata.get("parents") or {}).get("")
    return root is None or root in roots or root > newest


def _ancestors(stored: Sequence[CheckpointRow], kept: Iterable[str]) -> set[str]:
    """Return the ids that delta channels of kept checkpoints are rebuilt from.

    A delta channel is one that LangGraph counts the steps of since its last snapshot. It has no
    value of its own until that snapshot, however far back.
    """
    by_id = {one.id: one for one in stored}
    delta = {
        name for one in stored for name in one.metadata.get("counters_since_delta_snapshot") or {}
    }
    needed: set[str] = set()
    waiting = [*kept]
    while waiting:
        one: CheckpointRow | None = by_id[waiting.pop()]
        open_ = delta & (one.fields.get("channel_versions") or {}).keys() if one else set()
        visited = set[str]()
        while one is not None and (open_ := open_ - one.inline.keys() - one.large.keys()):
            visited.add(one.id)
            one = by_id.get(one.parent) if one.parent else None
            if one is not None and one.id in visited:  # parents can be a cycle
                break
            if one is not None and one.id not in needed:
                needed.add(one.id)
                # What stays can be read, and so it needs all of its own channels.
                waiting.append(one.id)
    return needed


def _delete_strays(connection: Connection, namespace: Namespace, now: datetime) -> bool:
    """Delete old pending writes without a checkpoint, and return whether there were any."""
    number = namespace.namespace_id
    own = select(checkpoints.c.checkpoint_key).where(checkpoints.c.namespace_id == number)
    strays = delete(writes).where(
        writes.c.namespace_id == number,
        writes.c.written_at < round((now - _STRAY).timestamp()),
        writes.c.checkpoint_key.not_in(own),
    )
    return connection.execute(strays).rowcount > 0


def _delete_rows(tx: Transaction, namespace: Namespace, removed: Sequence[CheckpointRow]) -> None:
    """Delete checkpoints of a namespace, with the large values that nobody has any more."""
    number = namespace.namespace_id
    delete_checkpoints(tx.connection, number, [key_of(row.id) for row in removed])
    left = recount(tx, namespace)
    used = {value for row in left for value in row.large.values()}
    _delete_unused(tx.connection, channel_values, number, used)
    if namespace.ns and not left:
        has_writes = select(writes.c.idx).where(writes.c.namespace_id == number).limit(1)
        if tx.connection.execute(has_writes).first() is None:
            tx.connection.execute(delete(namespaces).where(namespaces.c.namespace_id == number))


def _delete_messages(tx: Transaction, found: Sequence[Namespace], session_number: int) -> None:
    """Delete the messages beside the transcript that no namespace refers to any more."""
    rows = MessageRows(tx, found[0])
    used: set[int] = set()
    for refs in {refs for namespace in found for refs in _references(tx, namespace)}:
        used.update(chunk_numbers(refs))
        used.update(-number for number in rows.read_references(refs) if number < 0)
    _delete_unused(tx.connection, thread_messages, session_number, used)


def _references(tx: Transaction, namespace: Namespace) -> Iterable[str]:
    """Return all references of a namespace; its values and pending writes must be there."""
    number = namespace.namespace_id
    rows = all_checkpoints(tx, number)
    columns = (channel_values.c.value_number, channel_values.c.message_refs)
    values = tx.connection.execute(select(*columns).where(channel_values.c.namespace_id == number))
    large = {row.value_number: row.message_refs for row in values}
    if not large.keys() >= {one for row in rows for one in row.large.values()}:
        raise CorruptStoreError("the value of a channel is missing")
    columns = (writes.c.checkpoint_key, writes.c.message_refs)
    pending = tx.connection.execute(select(*columns).where(writes.c.namespace_id == number)).all()
    counts = Counter(row.checkpoint_key for row in pending)
    if any(counts[key_of(row.id)] != row.write_count for row in rows):
        raise CorruptStoreError("a pending write is missing")
    inline = [value.refs for row in rows for value in row.inline.values()]
    return [*inline, *large.values(), *(row.message_refs for row in pending)]


def _delete_unused(
    connection: Connection, table: Table, owner_number: int, used: Collection[int]
) -> None:
    """Delete the rows of one owner that are not used; owner and number are a row's key."""
    owner, number = table.primary_key.columns
    there = connection.execute(select(number).where(owner == owner_number)).scalars()
    for some in chunks([one for one in there if one not in used]):
        connection.execute(delete(table).where(owner == owner_number, number.in_(some)))
