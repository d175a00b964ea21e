"""Retention: old checkpoints of a thread go, with everything that only they needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Column, Connection, Table, delete, select

from langchain_tokenmem.core.thread_names import checked_thread
from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints import checkpoint_rows
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.message_rows import as_numbers, chunks_in
from langchain_tokenmem.storage.checkpoints.records import Address, about, every_checkpoint
from langchain_tokenmem.storage.checkpoints.checkpoint_rows import CheckpointRow
from langchain_tokenmem.storage.checkpoints.namespaces import (
    Namespace,
    lock_threads,
    namespaces_at,
    namespaces_of,
)
from langchain_tokenmem.storage.checkpoints.store import Checkpoints
from langchain_tokenmem.storage.checkpoints.tables import (
    channel_values,
    checkpoints,
    thread_messages,
    namespaces,
    writes,
)
from langchain_tokenmem.storage.checkpoints.threads import recount
from langchain_tokenmem.storage.transcripts.encoded_message import key_of

_STRAY = timedelta(hours=1)
"""Age from which pending writes without a checkpoint belong to a run that was refused or died."""

_AT_ONCE = 500


@dataclass(frozen=True)
class RetentionRule:
    """Which checkpoints stay.

    Attributes:
        keep_last: How many of the newest in each namespace; None for all of them.
        since: The oldest time; None for any. The head stays, however old it is.
    """

    keep_last: int | None
    since: datetime | None


def prune(store: Checkpoints, thread_id: str, rule: RetentionRule, *, now: datetime) -> int:
    """Delete the checkpoints of a thread that a rule does not keep; return how many.

    What a kept checkpoint builds upon (the ancestors of a delta channel back to its snapshot)
    stays, too. The transcript is never touched.

    Args:
        store: Where they are.
        thread_id: The thread.
        rule: Which ones stay.
        now: The current time.

    Raises:
        CorruptStoreError: When a checkpoint of the thread is damaged, or anything of those that
            stay is missing; nothing was deleted.
    """
    address = Address(checked_thread(thread_id), "")
    with store.database.writing(str(address)) as connection, about(address):
        found = namespaces_of(connection, store.codec, thread_id)
        there = {
            namespace.namespace_id: every_checkpoint(connection, store.codec, namespace) for namespace in found
        }
        kept = _kept(found, there, rule)
        removed, is_less = 0, False
        for namespace in found:
            gone = [one for one in there[namespace.namespace_id] if one.id not in kept[namespace.namespace_id]]
            removed += len(gone)
            is_less |= _sweep(connection, store.codec, namespace, gone, now)
        if is_less:
            for session_number in sorted({namespace.session_number for namespace in found}):
                _sweep_messages(connection, store.codec, found, session_number)
    if is_less:
        store.database.forget_deleted()
    return removed


def delete_for_runs(store: Checkpoints, run_ids: Sequence[str], *, now: datetime) -> None:
    """Delete the checkpoints of runs, and everything that only they needed, in every thread.

    Raises:
        CorruptStoreError: When a thread they are in lost a checkpoint; nothing was deleted.
    """
    keys = [key for run_id in run_ids if (key := checkpoint_rows.run_key(run_id))]
    if not keys:
        return
    with store.database.writing("The checkpoints of runs") as connection:
        query = select(checkpoints.c.namespace_id).where(checkpoints.c.run_key.in_(keys)).distinct()
        numbers = connection.execute(query).scalars().all()
        owners = select(namespaces.c.thread_key).where(namespaces.c.namespace_id.in_(numbers)).distinct()
        lock_threads(connection, connection.execute(owners).scalars().all())
        touched = namespaces_at(connection, store.codec, numbers)
        for thread_id in sorted({namespace.thread_id for namespace in touched}):
            with about(Address(thread_id, "")):
                found = namespaces_of(connection, store.codec, thread_id)
                for namespace in found:
                    there = every_checkpoint(connection, store.codec, namespace)
                    gone = [
                        one for one in there if checkpoint_rows.run_key(one.metadata.get("run_id")) in keys
                    ]
                    _sweep(connection, store.codec, namespace, gone, now)
                for session_number in sorted({namespace.session_number for namespace in found}):
                    _sweep_messages(connection, store.codec, found, session_number)
    if touched:
        store.database.forget_deleted()


def _kept(
    found: Sequence[Namespace], there: Mapping[int, Sequence[CheckpointRow]], rule: RetentionRule
) -> dict[int, set[str]]:
    """Return the ids that stay, by namespace; the graph's own first, its sub-graphs' after it."""
    kept: dict[int, set[str]] = {}
    roots: set[str] = set()
    newest = ""
    for namespace in sorted(found, key=lambda namespace: bool(namespace.ns)):
        stored = there[namespace.namespace_id]
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
        kept[namespace.namespace_id] = stays
    return kept


def _by_rule(namespace: Namespace, stored: Sequence[CheckpointRow], rule: RetentionRule) -> set[str]:
    if rule.keep_last == 0:
        return set()
    young = stored if rule.keep_last is None else stored[-rule.keep_last :]
    stays = {one.id for one in young if rule.since is None or _since(one, rule.since)}
    return stays | ({namespace.head} if namespace.head is not None else set())


def _since(stored: CheckpointRow, moment: datetime) -> bool:
    try:
        told = datetime.fromisoformat(str(stored.fields.get("ts")))
    except ValueError:
        return True
    return (told if told.tzinfo else told.replace(tzinfo=moment.tzinfo)) >= moment


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
        while one is not None and (open_ := open_ - one.inline.keys() - one.large.keys()):
            one = by_id.get(one.parent) if one.parent else None
            if one is not None and one.id not in needed:
                needed.add(one.id)
                # What stays can be read, and so it needs all of its own channels.
                waiting.append(one.id)
    return needed


def _sweep(
    connection: Connection, codec: Codec, namespace: Namespace, gone: Sequence[CheckpointRow], now: datetime
) -> bool:
    """Delete checkpoints of a namespace, stray writes, and the values that nobody has any more.

    Returns:
        Whether there was any of it.
    """
    mine = select(checkpoints.c.checkpoint_key).where(checkpoints.c.namespace_id == namespace.namespace_id)
    strays = connection.execute(
        delete(writes).where(
            writes.c.namespace_id == namespace.namespace_id,
            writes.c.written < round((now - _STRAY).timestamp()),
            writes.c.checkpoint_key.not_in(mine),
        )
    ).rowcount
    if not gone:
        return strays > 0
    checkpoint_rows.delete_checkpoints(connection, namespace.namespace_id, [key_of(one.id) for one in gone])
    left = recount(connection, codec, namespace)
    used = {number for one in left for number in one.large.values()}
    _delete_unused(connection, channel_values, channel_values.c.namespace_id, namespace.namespace_id, used)
    if namespace.ns and not left:
        has_writes = select(writes.c.idx).where(writes.c.namespace_id == namespace.namespace_id).limit(1)
        if connection.execute(has_writes).first() is None:
            connection.execute(delete(namespaces).where(namespaces.c.namespace_id == namespace.namespace_id))
    return True


def _sweep_messages(
    connection: Connection, codec: Codec, found: Sequence[Namespace], session_number: int
) -> None:
    """Delete the messages outside of the transcript that nothing refers to any more."""
    used: set[int] = set()
    for namespace in found:
        if namespace.session_number != session_number:
            continue
        kept = checkpoint_rows.all_checkpoints(connection, codec, namespace.namespace_id)
        texts = [text for one in kept for text in one.references()]
        texts += _large(connection, namespace, kept) + _written(connection, namespace, kept)
        for text in set(texts):
            used.update(chunks_in(text))
            used.update(-n for n in as_numbers(connection, codec, session_number, text) if n < 0)
    _delete_unused(connection, thread_messages, thread_messages.c.session_number, session_number, used)


def _large(connection: Connection, namespace: Namespace, kept: Sequence[CheckpointRow]) -> list[str]:
    """Return the references of the large values of a namespace; all of them must be there."""
    query = select(channel_values.c.number, channel_values.c.refs).where(channel_values.c.namespace_id == namespace.namespace_id)
    found = {row.number: row.refs for row in connection.execute(query)}
    if not found.keys() >= {number for one in kept for number in one.large.values()}:
        raise CorruptStoreError("the value of a channel is missing")
    return [*found.values()]


def _written(connection: Connection, namespace: Namespace, kept: Sequence[CheckpointRow]) -> list[str]:
    """Return the references of the pending writes of a namespace; all of them must be there."""
    query = select(writes.c.checkpoint_key, writes.c.refs)
    found = connection.execute(query.where(writes.c.namespace_id == namespace.namespace_id)).all()
    counts = Counter(row.checkpoint_key for row in found)
    if any(counts[key_of(one.id)] != one.writes for one in kept):
        raise CorruptStoreError("a pending write is missing")
    return [row.refs for row in found]


def _delete_unused(
    connection: Connection, table: Table, owner: Column[int], number: int, used: Collection[int]
) -> None:
    there = connection.execute(select(table.c.number).where(owner == number)).scalars()
    unused = [one for one in there if one not in used]
    for start in range(0, len(unused), _AT_ONCE):
        some = unused[start : start + _AT_ONCE]
        connection.execute(delete(table).where(owner == number, table.c.number.in_(some)))
